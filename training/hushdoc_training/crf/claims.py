"""Claims of filled tables: what was done to it, and what attacks measured.

No epsilon follows from filling, whichever way, so nothing here is ever of kind dp. A table that was
filled and attacked is "empirical"; one that nobody attacked, or that was not filled, is "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hushdoc.accounting.mechanism import HashFill
from hushdoc.certificate import guarantees
from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import (
    Claim,
    DataAccess,
    Guarantee,
    ProtectedData,
    ProtectedUnit,
    PublicData,
)
from hushdoc.certificate.guarantee_terms import Terms
from hushdoc_training.randomness.secret_stream import RNG

FILLS = ("paper-fill", "noisy-fill", "none")
"""How a table is made ready for release; see `filling`. "none" leaves missing weights at zero."""

TRANSCRIPT = "hash-fill"

_UNIT_DEFINITION = "all occurrences of one term in all documents"

_ASSUMES = {
    "paper-fill": (
        "nobody looks at weights that are zero, are equal, cancel one another or repeat; attacks "
        "that do find terms again",
        "genuine weights look like draws from the fitted distribution",
    ),
    "noisy-fill": (
        "terms in fewer documents than the threshold are what is to be hidden; how much others "
        "speak for a label is a secret only as far as the attacks measured it",
        "what a reader expects of a single row is drowned by the noise on it",
    ),
}

_CAVEATS = {
    "paper-fill": (
        "Genuine rows are released as they were learned. Most keep a weight of exactly zero, which "
        "no made-up row has; features that occurred together in few places carry the same weight; "
        "and rows whose weights cancel, weights that repeat and their floating point patterns "
        "distinguish genuine rows from made-up ones.",
    ),
    "noisy-fill": (
        "Every row is a genuine one or the copy of one, with noise.",
        "A term in fewer documents than the threshold has no features left: with another such term "
        "in its place the same table would have been fitted, but for the cluster of words it is "
        "in, where there are clusters. A term in more documents can be recognised by how much its "
        "features speak for a label: the noise hides single rows, and not the sum of the many that "
        "a term has where pairs of tokens are learned from, nor a row that speaks louder than all "
        "others.",
        "Attacks on rows find next to nothing by construction: made-up rows are copies of genuine "
        "ones.",
    ),
    "none": ("Whoever receives this table can look up which features documents had.",),
}


@dataclass(frozen=True, kw_only=True)
class FilledTable:
    """How a table was made; no guarantee rests on `costs`, measured divergences for people."""

    name: str  # of the protected documents
    fill: str  # one of FILLS
    rows: int
    columns: int
    settings: Mapping[str, Any]  # of training and filling, for people
    public_data: tuple[PublicData, ...] = ()  # what was used besides, such as clusters of words
    audits: tuple[Audit, ...] = ()  # what attacks on this very table measured
    costs: Mapping[str, Any] = field(default_factory=dict)
    labels_from_documents: bool = False  # whether the documents say which labels there are


def claim(table: FilledTable) -> Claim:
    """Returns the claim of a table."""
    if table.fill not in FILLS:
        raise ValueError(f"fill is {table.fill!r}; expected one of {', '.join(FILLS)}.")
    filled = table.fill != "none"
    return Claim(
        protected_data=(
            ProtectedData(
                name=table.name,
                units=(ProtectedUnit(unit="token-term", count=None, count_is_public=False),),
                contribution_bound="none: a term may occur in any number of features",
            ),
        ),
        public_data=table.public_data,
        data_accesses=tuple(_accesses(table)),
        releases=("hash-table",),
        guarantees=(_guarantee(table),),
        transcripts={TRANSCRIPT: HashFill(rows=table.rows, columns=table.columns)}
        if filled
        else {},
        audits=table.audits,
        training={**table.settings, "fill": table.fill, **({"rng": RNG} if filled else {})},
        utility=dict(table.costs),
        caveats=(
            *(("No epsilon follows from filling a table.",) if filled else ()),
            *_CAVEATS[table.fill],
        ),
    )


def _guarantee(table: FilledTable) -> Guarantee:
    measured = table.fill != "none" and bool(table.audits)
    terms: Terms = {
        "observes": "the table, the transitions and everything else in the artifact",
        "knows": "the document around a missing term, and how features become rows",
        "assumes": _ASSUMES[table.fill] if measured else (),
        "unit": "token-term",
        "unit_definition": _UNIT_DEFINITION,
        "adjacency": "all-occurrences-of-one-term",
        "composition": "one table; its release is the only one",
        "sampling_as_implemented": "full-batch",
        "rng": "unknown" if table.fill == "none" else "csprng",
        "floating_point": "all rows are rounded alike"
        if table.fill == "noisy-fill"
        else "weights are kept as they were fitted",
        "audit_lower_bound": max(
            (audit.epsilon_lower for audit in table.audits if audit.epsilon_lower is not None),
            default=None,
        ),
    }
    if measured:
        return guarantees.empirical(TRANSCRIPT, **terms)
    return guarantees.no_privacy(_reason(table.fill), **terms)


def _reason(fill: str) -> str:
    if fill == "none":
        return "The table was not filled: its rows say which features the documents had."
    return (
        "The table was filled, from which no guarantee follows, and no attack on it was measured."
    )


def _accesses(table: FilledTable) -> list[DataAccess]:
    """Returns every way in which the documents were read."""
    leaks = ["training of the weights and transitions"]
    if table.fill in ("paper-fill", "noisy-fill"):
        leaks.append("fit of what missing rows are drawn from")
    leaks += ["results of the audits"] if table.audits else []
    leaks += ["measured cost of terms"] if table.costs else []
    leaks += ["names of the labels, taken from the documents"] * table.labels_from_documents
    return [
        DataAccess(data=table.name, purpose=purpose, accounted_in=(), treatment="unaccounted")
        for purpose in leaks
    ]
