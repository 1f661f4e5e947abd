"""Inherited claims: what a sealed set of synthetic documents hands on to whatever is trained on it.

Training on a set reads what was released and nothing else of the protected documents, so all
guarantees of the set hold for the model too (post-processing: Dwork and Roth 2014, proposition
2.1). Whoever receives the model may hold the set as well, which reveals no more. A set is never
public data: what is trained on it and on private documents adds both up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hushdoc.certificate.claim import OVERLAPS, Claim, PublicData
from hushdoc.errors import PrivacyError
from hushdoc.synthetic_documents import ADVERSARY, SyntheticDocuments

RECIPIENT = "model-recipient"

INVENTED = "invented"
"""Begins the privacy status of public data that a generator made."""

SETS = "syntheticDocuments"
"""The key of a claim's `training` under which the sets stand, each as a step of the derivation."""

STARTED_FROM = "startedFrom"
"""The key of a claim's `training` under which that of the model stands that training went on from.
"""

LEDGER_RUNS = "ledgerRuns"
"""The key of a claim's `training` under which the runs of a ledger stand that it counts: for each
event of its transcript a mark that tells nothing but which run it is, also from one of a copy of
the ledger that went another way."""

OBSERVES = (
    "the final weights and everything else in the artifact, and the synthetic documents that they "
    "were trained on"
)
COMPOSITION = (
    "{}; the model was trained on the released synthetic documents, which read no protected "
    "document again (post-processing)"
)


def claim_of(
    documents: SyntheticDocuments,
    public_data: tuple[PublicData, ...] = (),
    *,
    training: Mapping[str, Any],
    releases: tuple[str, ...] = ("final-weights",),
    composition: str = COMPOSITION,
    step: str = "train-on-synthetic-documents",
) -> Claim:
    """Returns the claim of a model that was trained on a verified set, and on public data.

    Args:
        documents: The set, whose guarantees, transcripts, data, accesses and caveats are kept.
        public_data: What the model learned from besides.
        training: Settings, for people.
        releases: What leaves the training site besides the set.
        composition: How the set's guarantee, in braces, holds for what was made of it.
        step: What was done with the set, in the words of a derivation.

    Raises:
        PrivacyError: The set has no guarantee for who receives it.
    """
    claim = documents.certificate.claim
    inherited = tuple(
        replace(
            guarantee,
            adversary=RECIPIENT,
            observes=OBSERVES,
            composition=composition.format(guarantee.composition),
        )
        for guarantee in claim.guarantees
        if guarantee.adversary == ADVERSARY
    )
    if not inherited:
        raise PrivacyError(
            "The synthetic documents have no guarantee for who receives them, so none for who "
            "receives a model that was trained on them. Take a set of another issuer."
        )
    return replace(
        claim,
        public_data=(
            *claim.public_data,
            *(data for data in public_data if data not in claim.public_data),
        ),
        releases=(*claim.releases, *releases),
        guarantees=inherited,
        audits=(),  # they are of the set, whose own certificate has them
        training={
            **training,
            SETS: [*steps_of(claim.training), _step(documents, step)],
            "documents": dict(claim.training),
            **ledger_runs(claim),
        },
        utility={},
    )


def _step(documents: SyntheticDocuments, step: str) -> dict[str, Any]:
    """Returns the step of a certificate's derivation that reading a set is.

    What was done to the set with protected data after its claim is in all that is made of it.
    """
    certificate = documents.certificate
    return {
        "step": step,
        "dataDependent": any(done["dataDependent"] for done in certificate.derivation),
        "certificate": certificate.certificate_id,
        "manifest": f"sha256:{documents.manifest}",
        "name": certificate.model.name,
        "version": certificate.model.version,
    }


def steps_of(training: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Returns the sets that a model and its starts were trained on, each once, the first first."""
    before = training.get(STARTED_FROM)
    earlier = steps_of(before) if isinstance(before, Mapping) else ()
    return (*earlier, *(step for step in training.get(SETS, ()) if step not in earlier))


def ledger_runs(claim: Claim) -> dict[str, Any]:
    """Returns the entry of a claim's `training` for the runs that it counts; nothing without."""
    return {name: runs for name, runs in claim.training.items() if name == LEDGER_RUNS}


def is_inherited(claim: Claim | None) -> bool:
    """Returns whether a model learned from synthetic documents, and has all of its guarantees."""
    return (
        claim is not None
        and bool(steps_of(claim.training))
        and all(guarantee.kind == "dp" for guarantee in claim.guarantees)
    )


def with_overlap(claim: Claim, overlap: str) -> Claim:
    """Returns a claim whose public data hold at least so much of what is protected further on.

    What it says of overlap is of the documents that it was made for, and not of others that its
    release is put together with: `overlap` is the word of whoever does that. Where it protects
    nothing, it was said of no documents, and what is unknown there is declared now. Invented data
    hold nobody's.
    """

    def held(data: PublicData) -> str:
        said = data.overlap_with_protected
        if said == "unknown" and not claim.protected_data:
            return overlap
        return max(said, overlap, key=OVERLAPS.index)

    return replace(
        claim,
        public_data=tuple(
            data
            if data.privacy_status.startswith(INVENTED)
            else replace(data, overlap_with_protected=held(data))
            for data in claim.public_data
        ),
    )
