"""What training says about privacy where there is none, and the parts that all claims share.

Claims of differential privacy are made of receipts, by `hushdoc_training.runs.receipts` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushdoc.certificate import guarantees
from hushdoc.certificate.claim import (
    Claim,
    DataAccess,
    Guarantee,
    ProtectedData,
    ProtectedUnit,
    PublicData,
)
from hushdoc.serialization.records import Record, anything, keyed, listed, record, stored, text
from hushdoc_training.privacy.records import UNIT_DEFINITIONS

TRANSCRIPT = "training"
OBSERVES = "the final weights and everything else in the artifact"
KNOWS = "all other records, all settings, and how training works"
LABELS_TAKEN = "names of the labels, taken from the documents: they are released as they are"


@dataclass(frozen=True, kw_only=True)
class ClaimDetails(Record):
    """What the checks of one training add to its claim, besides training, labels and log."""

    settings: Mapping[str, Any] = stored(keyed(anything))
    accesses: tuple[DataAccess, ...] = stored(listed(record(DataAccess)), default=())
    assumes: tuple[str, ...] = stored(listed(text), default=())

    @property
    def declared(self) -> tuple[tuple[str, str], ...]:
        """What a receipt keeps of it for a training that goes on, as `Receipt.declared`."""
        read = ((access.purpose, access.treatment) for access in self.accesses)
        return (*read, *((condition, "") for condition in self.assumes))


def public(public_data: tuple[PublicData, ...], *, training: Mapping[str, Any]) -> Claim:
    """Returns the claim of a model that read public data alone, starting weights included."""
    return claim_under(
        _no_privacy(
            "No protected data was read: the model learned from public data alone, for which no "
            "privacy guarantee is declared.",
        ),
        public_data=public_data,
        training=training,
    )


def not_private(
    name: str, public_data: tuple[PublicData, ...], *, training: Mapping[str, Any]
) -> Claim:
    """Returns the claim of a model trained on protected data without privacy."""
    return claim_under(
        _no_privacy("Training was not private: the weights may hold any part of any document."),
        protected_data=(protected(name, "document", "none: training was not private"),),
        public_data=public_data,
        data_accesses=unaccounted(name, {"training": "unaccounted"}),
        training=training,
        caveats=("Whoever receives this model may extract documents it was trained on.",),
    )


def accesses_of_checks(
    name: str, *, tested: bool, compared: bool, untrained: bool
) -> tuple[DataAccess, ...]:
    """Returns the accesses of checks before the first step."""
    purposes = {}
    if tested:
        purpose = "self-test of clipping on some of the records: it refuses or shows nothing"
        purposes[purpose] = "not-released"
    if compared:
        purpose = "comparison of records over processes: it refuses or shows nothing"
        purposes[purpose] = "not-released"
    if tested and untrained:
        purpose = "which parameters the losses reach, taken to be the same for every record"
        purposes[purpose] = "declared-public"
    return unaccounted(name, purposes)


def claim_under(guarantee: Guarantee, **parts: Any) -> Claim:
    """Returns a claim under one guarantee, of final weights and empty where no part is given."""
    nothing: dict[str, Any] = {"protected_data": (), "data_accesses": (), "caveats": ()}
    return Claim(
        **{**nothing, "transcripts": {}, "releases": ("final-weights",), **parts},
        guarantees=(guarantee,),
        audits=(),
        utility={},
    )


def label_access(name: str, taken: bool) -> tuple[DataAccess, ...]:
    """Returns the access to documents whose labels' names are released, where they were taken."""
    return unaccounted(name, {LABELS_TAKEN: "unaccounted"} if taken else {})


def unaccounted(name: str, treatments: Mapping[str, str]) -> tuple[DataAccess, ...]:
    """Returns accesses by their purpose that no transcript accounts for."""
    return tuple(
        DataAccess(data=name, purpose=purpose, accounted_in=(), treatment=treatment)
        for purpose, treatment in treatments.items()
    )


def accounted(name: str, purpose: str, *transcripts: str) -> DataAccess:
    """Returns an access that these transcripts account for."""
    return DataAccess(data=name, purpose=purpose, accounted_in=transcripts, treatment="accounted")


def protected(
    name: str, unit: str, contribution_bound: str, *, commitment: str | None = None
) -> ProtectedData:
    """Returns protected data of one unit, how many of it there are being a secret."""
    return ProtectedData(
        name=name,
        units=(ProtectedUnit(unit=unit, count=None, count_is_public=False),),
        contribution_bound=contribution_bound,
        commitment=commitment,
    )


def _no_privacy(reason: str) -> Guarantee:
    return guarantees.no_privacy(
        reason,
        observes=OBSERVES,
        knows=KNOWS,
        unit="document",
        unit_definition=UNIT_DEFINITIONS["document"],
        composition="one training run; its final weights are the only release",
        sampling_as_implemented="shuffled",
        floating_point="no noise was drawn",
    )
