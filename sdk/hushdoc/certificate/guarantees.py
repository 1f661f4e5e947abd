"""Factories for guarantees that claim less than differential privacy, one for each kind.

A factory fills in the fields that follow from its kind and requires what only the caller knows;
`guarantee_terms` has the defaults. The factory of kind dp stands in `dp_guarantee`.
"""

from __future__ import annotations

import dataclasses
from typing import Unpack

from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.guarantee_terms import Terms, of_kind


def conditional(guarantee: Guarantee, condition: str) -> Guarantee:
    """Returns the guarantee as one that holds only on a condition, which no training enforces."""
    return dataclasses.replace(guarantee, kind="dp-conditional", condition=condition)


def empirical(transcript: str, **terms: Unpack[Terms]) -> Guarantee:
    """Returns a guarantee of kind empirical: attacks were measured and no epsilon is proven."""
    return of_kind("empirical", "none", terms, transcript=transcript)


def no_privacy(reason: str, **terms: Unpack[Terms]) -> Guarantee:
    """Returns a guarantee of kind none, which declares that and why there is no privacy."""
    return of_kind("none", "none", terms, reason=reason)
