"""Claims of differential privacy: made of receipts of what ran, here and nowhere else.

The numbers of a claim (noise, rate, steps, clipping norm, unit, secrecy) are a receipt's; whoever
trains declares in words what no code can see. A plan has no part in it but to be compared: what ran
otherwise than planned gets no claim. `preview` says beforehand what will be certified, so that a
run that no certificate could be made of is refused before a step is spent; it is no claim.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.certificate import dp_guarantee
from hushdoc.certificate.claim import Claim, DataAccess, Guarantee, PublicData
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import PrivacyError
from hushdoc_training.inherited_claims import LEDGER_RUNS
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy import claims, earlier_steps
from hushdoc_training.privacy.claims import TRANSCRIPT
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.privacy.spending import PROFILE_DELTAS, spending_of
from hushdoc_training.private_view import EARLY_END, PrivateView
from hushdoc_training.randomness.secret_stream import RNG
from hushdoc_training.receipt import DIFFERENCE, NOISE_DISTRIBUTIONS, Receipt
from hushdoc_training.runs import claim_words, continued, document_units
from hushdoc_training.runs.claim_words import Numbers, Released

if TYPE_CHECKING:
    from hushdoc_training.privacy.engine import PrivateTraining
    from hushdoc_training.runs.selection import Best

LEDGER_ACCOUNTANT = "pld"


class Planned(Protocol):
    """What a preview needs of a plan; `hushdoc_training.privacy.plan.PrivacyPlan` is one."""

    @property
    def privacy_unit(self) -> str: ...  # noqa: D102
    @property
    def clipping_norm(self) -> float: ...  # noqa: D102
    @property
    def planned_records(self) -> float: ...  # noqa: D102
    @property
    def delta(self) -> float: ...  # noqa: D102
    @property
    def accountant(self) -> str: ...  # noqa: D102
    def mechanism(self) -> Mechanism: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a claim says besides what was executed: the words of whoever trains.

    Attributes:
        name: What the protected data are called.
        public_data: What the model learned from before.
        training: Settings, for people.
        hyperparameter_tuning: One of `vocabulary.TUNINGS`: on what the settings were chosen.
        labels_from_documents: Whether names of labels were taken from the documents; they are
            released with the model, and no budget covers them.
        accesses: How else the protected data are read.
        assumes: What must be true besides.
        releases: What leaves the training site.
        unit_definition: What one unit is, where it is not what the word says.
        contribution_bound: How much a unit can contribute and what enforces it, where it is not a
            clipped gradient.
        caveats: What a reader must know besides.
        started_from: The claim of the released model that training went on from, which is added up.
        what: Against whom the guarantee holds, and what is made of the documents.
    """

    name: str
    public_data: tuple[PublicData, ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    hyperparameter_tuning: str = "none"
    labels_from_documents: bool = False
    accesses: tuple[DataAccess, ...] = ()
    assumes: tuple[str, ...] = ()
    releases: tuple[str, ...] = ("final-weights",)
    unit_definition: str | None = None
    contribution_bound: str | None = None
    caveats: tuple[str, ...] = ()
    started_from: Claim | None = None
    what: Released = claim_words.MODEL


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What will be certified if a plan is executed; nothing can be sealed of it.

    `digest` is of all that would be claimed: another plan or other words have another one.
    """

    epsilon: float
    delta: float
    digest: str


def claim(
    receipt: Receipt,
    declared: Declared,
    *,
    delta: float,
    accountant: str = "pld",
    ledger: LedgerStatement | None = None,
    view: PrivateView | None = None,
) -> Claim:
    """Returns the claim of what a receipt says was executed; with a ledger, of all its runs.

    Args:
        receipt: What ran.
        declared: What the trainer says besides.
        delta: At which epsilon is computed.
        accountant: One of `spending.ACCOUNTANTS`; a ledger's runs are composed by PLD.
        ledger: What the data's ledger says of all runs.
        view: Who read un-noised numbers, besides what the receipt knows of; what was read without
            a declaration makes the claim one of unaccounted tuning.

    Raises:
        PrivacyError: KNOWN_RANDOMNESS where draws or noise came from a stream that somebody knows,
            NO_UNIT where nobody said what one record is, NOT_IN_LEDGER where the ledger does not
            count what ran; TRAINED_BEFORE where it began with what another private training had
            left, and no ledger counts both.
        CheckpointError: The model that training went on from has no guarantee of the kind.
    """
    if not isinstance(receipt, Receipt):
        raise TypeError(f"receipt is a {type(receipt).__name__}; expected a Receipt of what ran.")
    view = view or PrivateView()
    executed = _executed(receipt, view, delta=delta, accountant=accountant)
    if ledger is not None:
        _require_counted(receipt, ledger)
    if declared.started_from is None:  # or the steps before are those of its claim
        _require_no_earlier_steps(receipt, ledger)
    declared = replace(declared, assumes=(*declared.assumes, *view.assumes))
    return _drafted(executed, _with_declared(declared, receipt), ledger)


def _with_declared(declared: Declared, *made: Receipt) -> Declared:
    """Returns what is declared, and what receipts say besides, such as of parts before a kill."""
    said = dict.fromkeys(one for receipt in made for one in receipt.declared)
    reads = {what: treatment for what, treatment in said if treatment}
    return replace(
        declared,
        accesses=continued.both_of(declared.accesses, claims.unaccounted(declared.name, reads)),
        assumes=continued.both_of(
            declared.assumes, tuple(what for what, treatment in said if not treatment)
        ),
    )


def _executed(receipt: Receipt, view: PrivateView, *, delta: float, accountant: str) -> Numbers:
    """Returns what a guarantee of one training is computed from."""
    unit = certifiable_unit(receipt)
    return Numbers(
        mechanism=receipt.mechanism(),
        unit=unit,
        sampling="full-batch" if receipt.coins is None else "poisson",
        clipping_norm=receipt.clipping_norm,
        planned_records=receipt.divisor / receipt.sampling_rate,
        floating_point=NOISE_DISTRIBUTIONS[receipt.noise_distribution],
        delta=delta,
        accountant=accountant,
        settings={"receipt": receipt.told()},
        private_reads=tuple(dict.fromkeys((*receipt.private_reads, *view.unaccounted))),
    )


def claim_of(
    trained: PrivateTraining[Any],
    name: str,
    public_data: tuple[PublicData, ...] = (),
    *,
    training: Mapping[str, Any] | None = None,
    hyperparameter_tuning: str = "none",
    ledger: LedgerStatement | None = None,
) -> Claim:
    """Returns what the certificate says of a model that a PrivateTraining trained.

    It covers all steps of the plan, also where fewer were taken. At which step one stopped was
    decided by something, though, and that is covered where it is the weights, which carry noise, or
    no number of the documents at all: a loss would have told who is among them. So settings are
    `unaccounted` where fewer steps were taken or un-noised numbers were read, and the training's
    `view` has no declaration that nothing was decided by them.

    Args:
        trained: The training, after its steps.
        name: What the protected data are called.
        public_data: What the model learned from before.
        training: More settings, for people.
        hyperparameter_tuning: One of `vocabulary.TUNINGS`.
        ledger: What the data's ledger says of all runs.

    Raises:
        PrivacyError: What ran is not what was planned (both values are named), draws or noise came
            from a test, the records don't say what one of them is, buffers or frozen parameters are
            not as they were at the start, no step was taken, the first process alone knows what was
            read, it was one of several of which the best was chosen, or its steps were not charged
            to the ledger (NOT_IN_LEDGER); and as of `claim`.
    """
    if trained.is_candidate:
        raise PrivacyError(
            "The training was one of several of which the best was chosen, and a claim of it alone "
            "would leave out what choosing spent. Make the claim by "
            "`receipts.claim_of_best(best, name)`."
        )
    trained.require_kept()
    trained.view.require_known()
    if trained.charged < trained.plan.steps:
        trained.view.note(EARLY_END)
    receipt = trained.receipt
    trained.plan.require_executed(receipt)
    details = trained.claim_details(name)
    made = claim(
        receipt,
        Declared(
            name=name,
            public_data=public_data,
            training={**(training or {}), **details.settings},
            hyperparameter_tuning=hyperparameter_tuning,
            accesses=details.accesses,
            assumes=details.assumes,
        ),
        delta=trained.plan.delta,
        accountant=trained.plan.accountant,
        ledger=ledger,
        view=trained.view,
    )
    if ledger is not None and not all(map(ledger.counts, trained.charged_to)):
        raise PrivacyError(
            "The ledger counts a run of the same settings, and steps of this training were not "
            "charged to it: they would be counted nowhere. Give the training what charges the run "
            "that the ledger reserved for it (`charge`).",
            code="NOT_IN_LEDGER",
        )
    return made


def claim_of_best(
    best: Best[Any],
    name: str,
    public_data: tuple[PublicData, ...] = (),
    *,
    training: Mapping[str, Any] | None = None,
) -> Claim:
    """Returns what the certificate says of the best of several trainings, see `selection.best_of`.

    It covers that one was chosen among a random number: settings count as `accounted`, unless
    un-noised numbers of any training were read. There is no ledger, which would add all of them up.

    Args:
        best: The best training.
        name: What the protected data are called.
        public_data: What the models learned from before, and what they were scored on.
        training: More settings, for people.

    Raises:
        PrivacyError: As of `claim_of`.
    """
    trained = best.training
    trained.view.require_known()
    for receipt in best.receipts:  # of all: which of them was chosen depends on each
        certifiable_unit(receipt)
    one = _executed(
        trained.receipt,
        trained.view,
        delta=trained.plan.delta,
        accountant=trained.plan.accountant,
    )
    chosen = replace(
        one,
        mechanism=best.selection.mechanism(one.mechanism),
        settings={**one.settings, "selection": asdict(best.selection)},
        private_reads=best.private_reads,
    )
    details = trained.claim_details(name)
    declared = Declared(
        name=name,
        public_data=public_data,
        training={**(training or {}), **details.settings},
        hyperparameter_tuning="accounted",
        accesses=details.accesses,
        assumes=(*details.assumes, *best.assumes, claim_words.SELECTED),
    )
    return _drafted(chosen, _with_declared(declared, *best.receipts), None)


def preview(plan: Planned, declared: Declared, *, ledger: LedgerStatement | None = None) -> Preview:
    """Returns what will be certified if the plan is executed; `ledger` has the run in it.

    Raises:
        CertificateError: A field of the claim would be wrong.
        PrivacyError: NOT_REPRODUCED, where a checker would not find the epsilon.
        CheckpointError: The model that training shall go on from has no guarantee of the kind.
    """
    planned = Numbers(
        mechanism=plan.mechanism(),
        unit=plan.privacy_unit,
        sampling="poisson",
        clipping_norm=plan.clipping_norm,
        planned_records=plan.planned_records,
        floating_point="no noise was drawn yet",
        delta=plan.delta,
        accountant=plan.accountant,
        settings={},
    )
    draft = _drafted(planned, declared, ledger)
    content = draft.to_json()
    for found in reproduce(Claim.from_json(content)):
        if found.code is not None:
            raise PrivacyError(
                f"The run's certificate would not be trusted: {found.message}. Choose other "
                "settings; with a ledger, runs of equal settings are added up most easily.",
                code="NOT_REPRODUCED",
            )
    (guarantee,) = draft.guarantees
    return Preview(
        epsilon=guarantee.epsilon or 0.0,
        delta=plan.delta,
        digest=hashlib.sha256(content).hexdigest(),
    )


def certifiable_unit(receipt: Receipt) -> str:
    """Returns the unit of a receipt that something can be certified of; else a PrivacyError."""
    if not receipt.is_secret:
        raise PrivacyError(
            "Records or noise were drawn from a stream that somebody knows, as tests do, and a "
            "guarantee holds only for draws that nobody can foretell. Train with streams that the "
            "operating system keys: `SecretStream()`, or the PrivateTraining as it is.",
            code="KNOWN_RANDOMNESS",
        )
    if not (receipt.noise_multiplier and receipt.sampling_rate):
        raise PrivacyError(
            f"The noise multiplier was {receipt.noise_multiplier:g} and the sampling rate "
            f"{receipt.sampling_rate:g}; expected numbers above 0. Nothing is certified of it."
        )
    if receipt.privacy_unit is None:
        raise PrivacyError(
            "Nobody said what one record is, so no guarantee can name it. Say so where examples "
            "are grouped: `Records(records, unit='document')`.",
            code="NO_UNIT",
        )
    return receipt.privacy_unit


def _require_counted(receipt: Receipt, ledger: LedgerStatement) -> None:
    """Refuses a ledger of another unit, or in which no run is what the receipt says."""
    if receipt.privacy_unit != ledger.unit:
        raise PrivacyError(
            f"Each {receipt.privacy_unit} was one record of the training, and the ledger counts "
            f"what its runs spend of each {ledger.unit}, so that their epsilons don't add up. Give "
            f"the ledger that was made for the unit '{receipt.privacy_unit}'.",
            code="NOT_IN_LEDGER",
        )
    if not any(_counts(event, receipt) for event in ledger.mechanism.events):
        raise PrivacyError(
            f"The ledger counts no run of {receipt.steps} steps at noise multiplier "
            f"{receipt.noise_multiplier:.6g} and sampling rate {receipt.sampling_rate:.6g}, which "
            "is what was executed. Give the training the plan that the ledger reserved.",
            code="NOT_IN_LEDGER",
        )


def _require_no_earlier_steps(receipt: Receipt, ledger: LedgerStatement | None) -> None:
    several = ledger if ledger is not None and ledger.num_runs > 1 else None
    if earlier := earlier_steps.uncounted(receipt.begun_with, several):
        raise earlier_steps.refused(earlier)


def _counts(event: Mechanism, receipt: Receipt) -> bool:
    if not (isinstance(event, Composed) and isinstance(event.event, PoissonSampled)):
        return False
    rate, noise = event.event.sampling_rate, event.event.event
    return (
        isinstance(noise, Gaussian)
        and math.isclose(noise.noise_multiplier, receipt.noise_multiplier, rel_tol=DIFFERENCE)
        and math.isclose(rate, receipt.sampling_rate, rel_tol=DIFFERENCE)
        and event.count >= receipt.steps
    )


def _drafted(found: Numbers, declared: Declared, ledger: LedgerStatement | None) -> Claim:
    tuning = declared.hyperparameter_tuning
    if ledger is not None and tuning in ("none", "public-data"):
        tuning = "accounted"
    if found.private_reads or (ledger is not None and ledger.read_runs):
        tuning = "unaccounted"
    several = ledger is not None and ledger.num_runs > 1
    protected = claims.protected(
        declared.name,
        found.unit,
        declared.contribution_bound or claim_words.contribution_bound(found),
        commitment=None if ledger is None else ledger.commitment,
    )
    alone = claims.claim_under(
        _guarantee(found, declared, tuning, ledger),
        protected_data=(protected,),
        public_data=declared.public_data,
        data_accesses=(
            *claim_words.accesses(declared.name, found.unit, declared.what),
            *claims.label_access(declared.name, declared.labels_from_documents),
            *declared.accesses,
        ),
        transcripts={TRANSCRIPT: found.mechanism if ledger is None else ledger.mechanism},
        training={
            **declared.training,
            **found.settings,
            "noise": RNG,
            **({} if ledger is None else {LEDGER_RUNS: list(ledger.marks)}),
        },
        caveats=(
            *claim_words.caveats(found, tuning, ledger),
            *declared.caveats,
            *((claim_words.COPIES_OF_RUNS,) if several and found.unit == "document" else ()),
        ),
        releases=declared.releases,
    )
    before = declared.started_from
    return alone if before is None else continued.added(alone, before)


def _guarantee(
    found: Numbers, declared: Declared, tuning: str, ledger: LedgerStatement | None
) -> Guarantee:
    mechanism, accountant = found.mechanism, found.accountant
    unit_definition = declared.unit_definition or UNIT_DEFINITIONS[found.unit]
    if ledger is not None and ledger.num_runs > 1 and found.unit == "document":
        unit_definition = document_units.alone(unit_definition)  # other runs may take copies apart
    if ledger is not None:
        mechanism, accountant = ledger.mechanism, LEDGER_ACCOUNTANT
    return dp_guarantee.differential_privacy(
        mechanism,
        spending_of(mechanism, accountant, found.adjacency).epsilon,
        found.delta,
        accountant=accountant,
        transcript=TRANSCRIPT,
        profile=PROFILE_DELTAS,
        adversary=declared.what.adversary,
        observes=declared.what.observes,
        knows=claim_words.knows(found.unit),
        assumes=(*claim_words.assumes(found.unit, ledger), *declared.assumes),
        unit=found.unit,
        unit_definition=unit_definition,
        adjacency=found.adjacency,
        composition=claim_words.composition(found, ledger, declared.what),
        covers_all_private_accesses=not declared.labels_from_documents,
        sampling_as_implemented=claim_words.sampling(found.sampling, mechanism),
        hyperparameter_tuning=tuning,
        rng="csprng",
        floating_point=found.floating_point,
    )
