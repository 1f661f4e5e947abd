"""What a claim of differential privacy says in words: assumptions, composition, caveats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushdoc.accounting.mechanism import Mechanism, RepeatAndSelect, is_amplified
from hushdoc.certificate.claim import DataAccess
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.claims import TRANSCRIPT
from hushdoc_training.privacy.spending import spending_of

TERM = "token-term"
"""The unit of tables whose rows are each computed from their own counts; all others are records."""

ASSUMES = (
    "the code that ran is the code that was published",
    "the labels' names, the sampling rate, the number of steps and the divisor were chosen "
    "without looking at the documents",
)
LEDGER_ASSUMES = (
    "in no run of the ledger were noise, sampling rate or number of steps chosen by what earlier "
    "runs or steps had shown; the learning rate and all else may follow the noised outputs (the "
    "weights) of earlier runs, and followed no un-noised number such as a loss, a count, a log or "
    "a score on the documents",
    "whether this model is released was not decided by runs outside the ledger, or by runs that "
    "began after this one had ended",
)

OTHER_RUNS_KEPT = (
    "what the guarantee of each other run of the ledger assumes held: of its losses, of its "
    "records in several processes, and of the other parties of one that was federated, their "
    "shares of the noise above all"
)

PROVIDERS_KEPT = (
    "every document had the same provider in all runs of the ledger; of one whose documents moved "
    "to another between runs, a later run protects each part alone"
)

PROVIDERS_GIVEN = (
    "each document came with its provider, which was not found by looking at other documents, such "
    "as by grouping all of them by likeness"
)

SELECTED = (
    "which of several trainings was best was told by what they release and by public documents "
    "alone; their settings were drawn at random from a public list, and neither the other models "
    "nor their number left the training site"
)


@dataclass(frozen=True, kw_only=True)
class Released:
    """What leaves the training site, and who receives it.

    Attributes:
        adversary: One of `vocabulary.ADVERSARIES`: against whom the guarantee holds.
        observes: What that adversary sees.
        purpose: What the documents are read for.
        alone: What one run releases, and that it is all, in words.
    """

    adversary: str
    observes: str
    purpose: str
    alone: str


MODEL = Released(
    adversary="model-recipient",
    observes=claims.OBSERVES,
    purpose="training",
    alone="one training run; its final weights are the only release",
)
SYNTHETIC_DOCUMENTS = Released(
    adversary="synthetic-data-recipient",
    observes="the synthetic documents, their specifications and everything else in the artifact",
    purpose="votes",
    alone="one run of private votes; what is computed from their noisy sums, the synthetic "
    "documents above all, is the only release",
)

SYNTHETIC_PAGES = Released(
    adversary="synthetic-data-recipient",
    observes="the drawn pages, their classes and layouts and everything else in the artifact",
    purpose="training",
    alone="one training run; pages that are drawn from its final weights are the only release",
)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What a guarantee is computed from."""

    mechanism: Mechanism
    unit: str
    sampling: str  # one of vocabulary.SAMPLINGS
    clipping_norm: float
    planned_records: float
    floating_point: str
    delta: float
    accountant: str
    settings: Mapping[str, Any]
    private_reads: tuple[str, ...] = ()

    @property
    def adjacency(self) -> str:
        """How neighbouring data sets differ."""
        return "zero-out" if self.unit == TERM else "add-remove"


READING = {
    "reading of the files: a run is refused where a document can't be read or lacks what it is "
    "trained by, two have the same id, or there is none; one of a published corpus without a word "
    "is left out; it shows nothing else": "not-released",
}
"""Whoever receives a result sees that its run was not refused, so the guarantee is stated for data
sets of readable documents alone, by READABLE; else this would be `declared-public`."""

READABLE = (
    "there is a protected document, every one can be read and has what training needs of it, such "
    "as its provider or an image, no two have the same id, and neighbouring data sets are of such "
    "documents alone: a run on others is refused, or leaves those of a published corpus that have "
    "no word out, which is no noised output"
)

UNDECLARED = (
    "a document of a class that was not declared is a record that adds 0, and how many are is not "
    "released"
)


def knows(unit: str) -> str:
    """Returns what the adversary may know."""
    if unit == TERM:
        return "all rows but those in question, all settings, and how training works"
    return claims.KNOWS


def assumes(unit: str, ledger: LedgerStatement | None) -> tuple[str, ...]:
    """Returns what every guarantee rests on."""
    given, kept = ((PROVIDERS_GIVEN,), (PROVIDERS_KEPT,)) if unit == "provider" else ((), ())
    others = (OTHER_RUNS_KEPT,) if ledger is not None and ledger.num_runs > 1 else ()
    together = () if ledger is None else (*LEDGER_ASSUMES, *others, *kept)
    return (*(() if unit == TERM else ASSUMES), *given, *together)


def contribution_bound(found: Numbers) -> str:
    """Returns how much one record can contribute."""
    return gradient_bound(found.unit, found.clipping_norm)


def gradient_bound(unit: str, clipping_norm: float) -> str:
    """Returns how much one record can contribute where its gradient is clipped."""
    return (
        f"each {unit} is one record; its gradient is clipped to an L2 norm of "
        f"{clipping_norm:g} before it is summed"
    )


def change_bound(unit: str, clipping_norm: float) -> str:
    """Returns how much one record can contribute where local training on it is clipped."""
    return (
        f"each {unit} is one record; what local training on it changes is clipped to an L2 "
        f"norm of {clipping_norm:g} over all weights before it is summed"
    )


def sampling(drawn: str, transcript: Mechanism) -> str:
    """Returns how batches were drawn, of all events: at a rate of 1 each sample is all records."""
    if drawn not in ("poisson", "full-batch"):
        return drawn
    return "poisson" if is_amplified(transcript) else "full-batch"


def composition(found: Numbers, ledger: LedgerStatement | None, what: Released) -> str:
    """Returns how runs and releases add up."""
    if found.unit == TERM:
        return "one release of one table"
    if isinstance(found.mechanism, RepeatAndSelect):
        return (
            f"the best of a random number of training runs ({found.mechanism.distribution}, "
            f"{found.mechanism.expected_runs:g} on average); its final weights are the only release"
        )
    if ledger is None:
        return what.alone
    runs = "1 training run is" if ledger.num_runs == 1 else f"{ledger.num_runs} training runs are"
    alone = spending_of(found.mechanism, found.accountant, found.adjacency).epsilon(found.delta)
    return (
        f"{runs} in the ledger of these documents, and all of them are added up, those that were "
        "tried and dropped included: every charged step of runs that ended, every reserved step "
        f"of runs that had not; this run alone spends epsilon {alone:.6g}"
    )


def accesses(name: str, unit: str, what: Released) -> tuple[DataAccess, ...]:
    """Returns the accesses of every training."""
    training = claims.accounted(name, what.purpose, TRANSCRIPT)
    others = {} if unit == TERM else {"training log and plot": "not-released"}
    return (training, *claims.unaccounted(name, others))


COPIES_OF_RUNS = (
    "Runs of one ledger may take copies as one in different ways: by the same words, by the same "
    "image files, or not at all. The epsilon of all runs is that of a document of which there is "
    "no copy of either kind."
)


REFUTED_SHOWN = 3
"""Refuted audits that a certificate has the words of, the last ones."""


def caveats(found: Numbers, tuning: str, ledger: LedgerStatement | None = None) -> tuple[str, ...]:
    """Returns what a reader must know besides."""
    made = []
    refuted = () if ledger is None else ledger.refuted
    if refuted:
        made.append(
            f"Of audits before runs of this ledger {len(refuted)} refuted what they tested, and "
            "their runs were not begun. Where nothing was mended since, an audit that passed shows "
            f"nothing: one of many does. The last: {'; '.join(refuted[-REFUTED_SHOWN:])}"
        )
    if found.unit == "sequence":
        made.append(
            "The unit is one window of tokens. A document is several windows and is protected far "
            "less than this epsilon says. Words are sorted and cut into windows beforehand: a "
            "window tells of its neighbours where it was cut, and whether a field goes on in it."
        )
    if found.delta > 1e-5:
        made.append(
            f"delta is {found.delta:g}, above the usual 1e-5. A delta of one over the number of "
            "records would allow a method that publishes one random record."
        )
    if found.delta > (1 + 1e-9) / (10 * found.planned_records):
        made.append(
            f"delta is {found.delta:g}, and the plan is made for about "
            f"{found.planned_records:.0f} records (its divisor over its sampling rate): a delta "
            f"above {1 / (10 * found.planned_records):g}, a tenth of one over their number, leaves "
            "room for giving some of them away whole."
        )
    if tuning == "none":
        made.append(
            "The trainer declares that this was one run with settings fixed beforehand. Runs that "
            "were tried on the same documents and dropped would add to epsilon, and nothing in "
            "this certificate can show them."
        )
    if tuning in ("public-data", "accounted") and ledger is None:
        made.append(
            "Other runs on the same documents would add to epsilon, and nothing in this "
            "certificate can show them."
        )
    if tuning == "unaccounted":
        made.append(
            "Settings were or may have been chosen by looking at results on the protected "
            "documents, and that is not part of epsilon."
        )
    if found.private_reads:
        made.append(
            "Read without noise and without a declaration that nothing was decided by it: "
            f"{', '.join(found.private_reads)}. Whether to stop, what to change in the next run "
            "and whether to release this one can tell by such numbers whether a record is there."
        )
    return tuple(made)
