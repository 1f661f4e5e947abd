"""Evidence: whether a certificate of a federated run says what its clients said, and no more.

Whoever has roster and receipts makes the claim anew and compares: rounds, noise, guarantees,
accesses and settings are recomputed, and assumptions may be more but not fewer. What remains the
coordinator's word are names, begun and aborted rounds, and on what settings were chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from hushdoc.certificate.claim import Claim, Guarantee, PublicData
from hushdoc.errors import PrivacyError
from hushdoc_training import duplicates
from hushdoc_training.federated import claims, testimony
from hushdoc_training.federated.account import Journal
from hushdoc_training.federated.claims import Executed
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.plan import FEDAVG, FederatedPlan
from hushdoc_training.federated.roster import Roster
from hushdoc_training.privacy.claims import LABELS_TAKEN, unaccounted
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.runs.receipts import Declared


def require(
    claim: Claim,
    roster: Roster,
    testified: Mapping[str, Frame],
    unit_definition: str | None = None,
    public_data: Collection[PublicData] = (),
    *,
    reads: Mapping[str, str] | None = None,
    assumes: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Raises PrivacyError NOT_AS_TESTIFIED where a claim says other than clients did.

    Args:
        claim: The certificate's.
        roster: Of the run, approved.
        testified: The frames in which clients testified, as `testimony.kept` reads them.
        unit_definition: What one unit is in the roster's task; None where the task adds nothing.
        public_data: What the roster's start had learned from, and training measured.
        reads: How the roster's task reads documents besides: purposes, each with a treatment.
        assumes: What the roster's task takes to be true of them.
        settings: By which the roster has all train, as claims name them.

    Raises:
        PrivacyError: Besides, as `claims.claim`, where nothing can be claimed of what clients did.
    """
    stated = claim.training.get("federated")
    match stated:
        case {"begun": int(begun), "aborted": int(aborted), "withoutReceipt": [*silent]} if (
            claim.guarantees and len(claim.protected_data) == 1
        ):
            executed = Executed.testified(
                testified,
                took_part=with_receipts(testified) | {str(name) for name in silent},
                begun=begun,
                aborted=aborted,
                roster=roster.digest,
            )
        case _:
            raise _differs("tells of no federated run, or of one before receipts were kept")
    plan = FederatedPlan.from_dict(roster.plan)
    definition = unit_definition or UNIT_DEFINITIONS[plan.privacy_unit]
    declared = replace(
        _declared(claim, definition),
        accesses=unaccounted(claim.protected_data[0].name, reads or {}),
        assumes=assumes,
        training=settings or {},
    )
    made = Claim.from_json(claims.claim(plan, executed, declared).to_json())
    differing = [
        what
        for what, differs in {
            "what ran": stated != made.training["federated"],
            **{  # the certificate may have others, and need not have all
                f"the setting {name}": claim.training.get(name, told) != told
                for name, told in made.training.items()
                if name != "federated"
            },
            "the transcripts": dict(claim.transcripts) != dict(made.transcripts),
            "what is protected": claim.protected_data != made.protected_data
            or claim.guarantees[0].unit_definition != definition,
            "the public data": not {*public_data} <= {*claim.public_data},
            "the releases": not {*made.releases} <= {*claim.releases},
            "what was read": not {*made.data_accesses} <= {*claim.data_accesses},
            "the caveats": not {*made.caveats} <= {*claim.caveats},
            "the guarantees": not _covered(claim.guarantees, made.guarantees),
        }.items()
        if differs
    ]
    if differing:
        raise _differs(f"differs from what its clients said in: {', '.join(differing)}")


def require_own(
    journal: Journal, said: bytes, name: str, roster: Roster, testified: Mapping[str, Frame]
) -> None:
    """Raises NOT_AS_TESTIFIED where a client's own words are missing, or too many others' are."""
    if name not in testified or bytes(testified[name].payload) != said:
        raise _differs(f"rests on other words of {name} than {name} said")
    plan = FederatedPlan.from_dict(roster.plan)
    told = testified.keys() if plan.algorithm == FEDAVG else with_receipts(testified)
    missing = sorted({*journal.met} - told)
    if len(missing) > plan.most_unattested:
        raise _differs(f"rests on no receipt of {', '.join(missing)}, who took part with {name}")


def with_receipts(testified: Mapping[str, Frame]) -> frozenset[str]:
    """Returns the clients that said what they executed."""
    return frozenset(
        name for name, frame in testified.items() if testimony.said(frame).executed is not None
    )


def _declared(claim: Claim, unit_definition: str) -> Declared:
    """Returns what of a claim only the coordinator can say, and what the roster's task says."""
    taken = any(access.purpose == LABELS_TAKEN for access in claim.data_accesses)
    return Declared(
        name=claim.protected_data[0].name,
        hyperparameter_tuning=claim.guarantees[0].hyperparameter_tuning,
        labels_from_documents=taken,
        unit_definition=unit_definition,
        caveats=(duplicates.CAVEAT,) if duplicates.UNIT in unit_definition else (),
    )


def _covered(found: tuple[Guarantee, ...], made: tuple[Guarantee, ...]) -> bool:
    """Whether each guarantee with an epsilon is one that was made, or holds on a condition more."""
    return all(
        any(_same(guarantee, one) and {*one.assumes} <= {*guarantee.assumes} for one in made)
        for guarantee in found
        if guarantee.epsilon is not None
    )


def _same(found: Guarantee, made: Guarantee) -> bool:
    free: dict[str, Any] = {"assumes": made.assumes, "audit_lower_bound": made.audit_lower_bound}
    if made.kind == "dp" and found.kind == "dp-conditional":
        free |= {"kind": made.kind, "condition": made.condition}
    return replace(found, **free) == made


def _differs(how: str) -> PrivacyError:
    return PrivacyError(
        f"The certificate {how}. Don't sign it; ask the coordinator for the receipts and the "
        "artifact of this run.",
        code="NOT_AS_TESTIFIED",
    )
