"""What training says about privacy: the claim that a checkpoint carries to its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
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
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy.plan import PROFILE_DELTAS, UNIT_DEFINITIONS, PrivacyPlan, Spending
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness.secret_stream import RNG
from hushdoc_training.receipt import NOISE_DISTRIBUTIONS

TRANSCRIPT = "training"
OBSERVES = "the final weights and everything else in the artifact"
KNOWS = "all other records, all settings, and how training works"
ASSUMES = (
    "the code that ran is the code that was published",
    "the labels' names, the sampling rate, the number of steps and the divisor were chosen "
    "without looking at the documents",
)
LABELS_TAKEN = "names of the labels, taken from the documents: they are released as they are"
LEDGER_ASSUMES = (
    "in no run of the ledger were noise, sampling rate or number of steps chosen by what earlier "
    "runs or steps had shown; the learning rate and all else may follow the noised outputs (the "
    "weights) of earlier runs, and followed no un-noised number such as a loss, a count, a log or "
    "a score on the documents",
    "whether this model is released was not decided by runs outside the ledger, or by runs that "
    "began after this one had ended",
)
LEDGER_ACCOUNTANT = "pld"


@dataclass(frozen=True, kw_only=True)
class ClaimDetails:
    """What the checks of one training add to its claim, besides training, labels and log."""

    settings: Mapping[str, Any]
    accesses: tuple[DataAccess, ...] = ()
    assumes: tuple[str, ...] = ()


def public(public_data: tuple[PublicData, ...], *, training: Mapping[str, Any]) -> Claim:
    """Returns the claim of a model that read public data alone, starting weights included."""
    return _claim(
        _no_privacy(
            "document",
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
    return _claim(
        _no_privacy(
            "document", "Training was not private: the weights may hold any part of any document."
        ),
        protected_data=(_protected(name, "document", "none: training was not private"),),
        public_data=public_data,
        data_accesses=_unaccounted(name, {"training": "unaccounted"}),
        training=training,
        caveats=("Whoever receives this model may extract documents it was trained on.",),
    )


def private(
    plan: PrivacyPlan,
    name: str,
    public_data: tuple[PublicData, ...],
    *,
    training: Mapping[str, Any],
    hyperparameter_tuning: str = "none",
    ledger: LedgerStatement | None = None,
    accesses: tuple[DataAccess, ...] = (),
    assumes: tuple[str, ...] = (),
    private_reads: tuple[str, ...] = (),
    labels_from_documents: bool = False,
) -> Claim:
    """Returns the claim of a model trained under a plan; with a ledger, it covers all runs.

    Un-noised numbers that were read, in words, make it one of unaccounted tuning. Names of labels
    that were taken from the documents are released with the model, and no budget covers them.
    """
    tuning = hyperparameter_tuning
    if ledger is not None and tuning in ("none", "public-data"):
        tuning = "accounted"
    if private_reads or (ledger is not None and ledger.read_runs):
        tuning = "unaccounted"
    guarantee = _guarantee(plan, tuning, ledger, assumes)
    return _claim(
        guarantee,
        protected_data=(
            _protected(
                name,
                plan.privacy_unit,
                f"each {plan.privacy_unit} is one record; its gradient is clipped to an L2 norm of "
                f"{plan.clipping_norm:g} before it is summed",
                commitment=None if ledger is None else ledger.commitment,
            ),
        ),
        public_data=public_data,
        data_accesses=(*_accesses(name), *label_access(name, labels_from_documents), *accesses),
        transcripts={TRANSCRIPT: plan.mechanism() if ledger is None else ledger.mechanism},
        training={**training, "plan": asdict(plan), "noise": RNG},
        caveats=_caveats(plan, tuning, private_reads),
    )


def with_reads(claim: Claim, view: PrivateView) -> Claim:
    """Returns a claim that says which un-noised numbers were read, and what that assumes."""
    return replace(
        claim,
        guarantees=tuple(
            replace(
                made,
                assumes=(*made.assumes, *view.assumes),
                hyperparameter_tuning="unaccounted"
                if view.unaccounted
                else made.hyperparameter_tuning,
            )
            for made in claim.guarantees
        ),
        caveats=(*claim.caveats, *_caveats_of_reads(view.unaccounted)),
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
    return _unaccounted(name, purposes)


def _guarantee(
    plan: PrivacyPlan, tuning: str, ledger: LedgerStatement | None, assumes: tuple[str, ...]
) -> Guarantee:
    spending = plan.spending
    if ledger is not None:
        spending = Spending(mechanism=ledger.mechanism, accountant=LEDGER_ACCOUNTANT)
    return guarantees.differential_privacy(
        spending.mechanism,
        spending.epsilon,
        plan.delta,
        accountant=spending.accountant,
        transcript=TRANSCRIPT,
        profile=PROFILE_DELTAS,
        observes=OBSERVES,
        knows=KNOWS,
        assumes=(*ASSUMES, *(() if ledger is None else LEDGER_ASSUMES), *assumes),
        unit=plan.privacy_unit,
        unit_definition=UNIT_DEFINITIONS[plan.privacy_unit],
        composition=_composition(plan, ledger),
        covers_all_private_accesses=True,
        sampling_as_implemented="poisson",
        hyperparameter_tuning=tuning,
        rng="csprng",
        floating_point=NOISE_DISTRIBUTIONS["gaussian"],
    )


def _claim(guarantee: Guarantee, **parts: Any) -> Claim:
    """Returns the claim of final weights under one guarantee, empty where no part is given."""
    nothing: dict[str, Any] = {"protected_data": (), "data_accesses": (), "caveats": ()}
    return Claim(
        **{**nothing, "transcripts": {}, **parts},
        releases=("final-weights",),
        guarantees=(guarantee,),
        audits=(),
        utility={},
    )


def _composition(plan: PrivacyPlan, ledger: LedgerStatement | None) -> str:
    if ledger is None:
        return "one training run; its final weights are the only release"
    runs = "1 training run is" if ledger.num_runs == 1 else f"{ledger.num_runs} training runs are"
    return (
        f"{runs} in the ledger of these documents, and all of them are added up, those that were "
        "tried and dropped included: every charged step of runs that ended, every reserved step "
        f"of runs that had not; this run alone spends epsilon {plan.epsilon_after(plan.steps):.6g}"
    )


def label_access(name: str, taken: bool) -> tuple[DataAccess, ...]:
    """Returns the access to documents whose labels' names are released, where they were taken."""
    return _unaccounted(name, {LABELS_TAKEN: "unaccounted"} if taken else {})


def _accesses(name: str) -> tuple[DataAccess, ...]:
    others = {"training log and plot": "not-released"}
    training = DataAccess(
        data=name, purpose="training", accounted_in=(TRANSCRIPT,), treatment="accounted"
    )
    return (training, *_unaccounted(name, others))


def _unaccounted(name: str, treatments: Mapping[str, str]) -> tuple[DataAccess, ...]:
    """Accesses by their purpose that no transcript accounts for."""
    return tuple(
        DataAccess(data=name, purpose=purpose, accounted_in=(), treatment=treatment)
        for purpose, treatment in treatments.items()
    )


def _caveats(plan: PrivacyPlan, tuning: str, private_reads: tuple[str, ...]) -> tuple[str, ...]:
    caveats = []
    if plan.privacy_unit == "sequence":
        caveats.append(
            "The unit is one window of tokens. A document is several windows and is protected far "
            "less than this epsilon says."
        )
    if plan.delta > 1e-5:
        caveats.append(
            f"delta is {plan.delta:g}, above the usual 1e-5. A delta of one over the number of "
            "records would allow a method that publishes one random record."
        )
    if plan.delta > (1 + 1e-9) / (10 * plan.planned_records):
        caveats.append(
            f"delta is {plan.delta:g}, and the plan is made for about {plan.planned_records:.0f} "
            f"records (its divisor over its sampling rate): a delta above "
            f"{1 / (10 * plan.planned_records):g}, a tenth of one over their number, leaves room "
            "for giving some of them away whole."
        )
    if tuning == "none":
        caveats.append(
            "The trainer declares that this was one run with settings fixed beforehand. Runs that "
            "were tried on the same documents and dropped would add to epsilon, and nothing in "
            "this certificate can show them."
        )
    if tuning == "unaccounted":
        caveats.append(
            "Settings were or may have been chosen by looking at results on the protected "
            "documents, and that is not part of epsilon."
        )
    return (*caveats, *_caveats_of_reads(private_reads))


def _caveats_of_reads(reads: tuple[str, ...]) -> tuple[str, ...]:
    if not reads:
        return ()
    return (
        "Read without noise and without a declaration that nothing was decided by it: "
        f"{', '.join(reads)}. Whether to stop, what to change in the next run and whether to "
        "release this one can tell by such numbers whether a record is there.",
    )


def _protected(
    name: str, unit: str, contribution_bound: str, *, commitment: str | None = None
) -> ProtectedData:
    return ProtectedData(
        name=name,
        units=(ProtectedUnit(unit=unit, count=None, count_is_public=False),),
        contribution_bound=contribution_bound,
        commitment=commitment,
    )


def _no_privacy(unit: str, reason: str) -> Guarantee:
    return guarantees.no_privacy(
        reason,
        observes=OBSERVES,
        knows=KNOWS,
        unit=unit,
        unit_definition=UNIT_DEFINITIONS[unit],
        composition="one training run; its final weights are the only release",
        sampling_as_implemented="shuffled",
        floating_point="no noise was drawn",
    )
