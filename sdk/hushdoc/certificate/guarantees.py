"""Factories for guarantees, one for each kind, whose defaults claim the least.

A guarantee has 25 fields, and a reader needs all of them. A factory fills in those that follow from
its kind, takes the numbers from an accountant, and requires what only the caller knows. What the
caller leaves out gets the weakest value: sampling and random numbers are unknown, tuning is not
accounted for, and not every access to protected data is covered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Required, TypedDict, Unpack

from hushdoc.accounting import gdp
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.claim import Accountant, Guarantee
from hushdoc.version import __version__


class Terms(TypedDict, total=False):
    """The fields that every kind has; those without a default are required."""

    adversary: str
    observes: Required[str]
    knows: Required[str]
    assumes: tuple[str, ...]
    aggregation: str
    unit: Required[str]
    unit_definition: Required[str]
    adjacency: str
    composition: Required[str]
    covers_all_private_accesses: bool
    sampling_as_implemented: str
    cluster_sampling_as_implemented: str
    hyperparameter_tuning: str
    rng: str
    floating_point: Required[str]
    audit_lower_bound: float | None
    version: str
    """Of hushdoc; the running one unless a recorded example keeps its own."""


_DEFAULTS: dict[str, Any] = {
    "adversary": "model-recipient",
    "assumes": (),
    "aggregation": "central",
    "adjacency": "add-remove",
    "epsilon": None,
    "delta": None,
    "profile": (),
    "gdp_mu": None,
    "transcript": None,
    "covers_all_private_accesses": False,
    "sampling_as_implemented": "unknown",
    "cluster_sampling_as_implemented": "none",
    "hyperparameter_tuning": "unaccounted",
    "rng": "unknown",
    "audit_lower_bound": None,
    "reason": None,
    "condition": None,
}


def differential_privacy(
    mechanism: Mechanism,
    epsilon: Callable[[float], float],
    delta: float,
    *,
    accountant: str,
    transcript: str,
    profile: tuple[float, ...] = (),
    **terms: Unpack[Terms],
) -> Guarantee:
    """Returns a guarantee of kind dp for what the adversary sees; `profile` has further deltas."""
    return _guarantee(
        "dp",
        accountant,
        terms,
        epsilon=epsilon(delta),
        delta=delta,
        profile=tuple((epsilon(point), point) for point in profile),
        gdp_mu=gdp.mu(mechanism),
        transcript=transcript,
    )


def conditional(guarantee: Guarantee, condition: str) -> Guarantee:
    """Returns the guarantee as one that holds only on a condition, which no training enforces."""
    return dataclasses.replace(guarantee, kind="dp-conditional", condition=condition)


def empirical(transcript: str, **terms: Unpack[Terms]) -> Guarantee:
    """Returns a guarantee of kind empirical: attacks were measured and no epsilon is proven."""
    return _guarantee("empirical", "none", terms, transcript=transcript)


def no_privacy(reason: str, **terms: Unpack[Terms]) -> Guarantee:
    """Returns a guarantee of kind none, which declares that and why there is no privacy."""
    return _guarantee("none", "none", terms, reason=reason)


def _guarantee(kind: str, accountant: str, terms: Terms, **fields: Any) -> Guarantee:
    declared: dict[str, Any] = {**terms}
    version = declared.pop("version", __version__)
    computed_by = Accountant(name=accountant, library="hushdoc", version=version, error_bound=None)
    return Guarantee(**{**_DEFAULTS, **declared, **fields, "kind": kind, "accountant": computed_by})
