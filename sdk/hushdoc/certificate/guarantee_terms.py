"""What a guarantee of any kind declares: its fields, and defaults that claim the least.

A guarantee has 25 fields, and a reader needs all of them. What the caller leaves out gets the
weakest value: sampling and random numbers are unknown, tuning is not accounted for, and not every
access to protected data is covered.
"""

from __future__ import annotations

from typing import Any, Required, TypedDict

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


def of_kind(kind: str, accountant: str, terms: Terms, **fields: Any) -> Guarantee:
    """Returns a guarantee; `fields` are those that follow from its kind."""
    declared: dict[str, Any] = {**terms}
    version = declared.pop("version", __version__)
    computed_by = Accountant(name=accountant, library="hushdoc", version=version, error_bound=None)
    return Guarantee(**{**_DEFAULTS, **declared, **fields, "kind": kind, "accountant": computed_by})
