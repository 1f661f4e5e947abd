"""Runs of private tables: labelled documents become a checkpoint with a guarantee, or none at all.

`protect_documents` protects whole documents by DP-SGD, charged to their ledger where one is kept;
`protect_terms` protects all places of one term by one release of noise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushdoc.accounting import calibration
from hushdoc.certificate.claim import Claim, DataAccess
from hushdoc.errors import PrivacyError
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training import duplicates, table_checkpoint
from hushdoc_training.audit import twins
from hushdoc_training.crf import private_fitting, private_linear, term_release
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.private_view import PrivateView
from hushdoc_training.receipt import DIFFERENCE
from hushdoc_training.recipes.hashed import private_audits, private_tables
from hushdoc_training.recipes.hashed.private_audits import Found
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.table_tasks import TableTask
from hushdoc_training.runs import state
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.run_folder import CHECKPOINT
from hushdoc_training.table_checkpoint import TableCheckpoint

DELTA = 1e-5
BOUND = 1.0
"""Length of a row of a table with noise; a public constant."""

CLAUSES = Settings(total_learning_rate=500.0, emphasis=20.0)
"""Settings of DP-SGD for sentences of documents."""

CLASSIFIER = replace(private_linear.LINEAR, total_learning_rate=250.0, length=4.0)
"""Settings of DP-SGD for classes of some 1,000 whole texts.

A text of any length counts as one of length 4: its gradient fills the clipping norm until the text
is nearly learned.
"""

_RATE_PER_RECORD, _LARGEST_RATE = 0.25, 2500.0


def classifier_rate(expected_records: int) -> float:
    """Returns the total learning rate for classes of so many texts, a number that is public.

    It makes the noise on a text's scores as large whatever their number is, up to 10,000 texts.

    Example:
        >>> [classifier_rate(texts) for texts in (200, 1000, 50_000)]
        [50.0, 250.0, 2500.0]
    """
    return min(_RATE_PER_RECORD * expected_records, _LARGEST_RATE)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a table finds what people marked, item by item."""

    precision: float
    recall: float
    f1: float
    items: int  # items with a label


def protect_documents(
    task: TableTask,
    plan: PrivacyPlan,
    *,
    public: PublicText,  # scales the rows
    out: Path,
    name: str,  # what the certificate calls the documents
    settings: Settings,
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    unit_definition: str | None = None,  # what a document is, where it is not what the word says
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    accesses: tuple[DataAccess, ...] = (),  # how else the documents are read
    audited: bool = True,  # whether a twin on invented documents is audited first
    view: PrivateView | None = None,  # notes who reads scores on private documents
    grouped: bool = False,  # whether the task has one of all copies of a document; `duplicates`
) -> TableCheckpoint:
    """Trains by DP-SGD with a document as one record, and writes `out/checkpoint`.

    All steps are charged to the ledger at once, before the first, since a table is learned in one
    go. Documents are changed where some were added, removed or relabelled since its last run.

    Raises:
        AnnotationError: There is nothing to learn.
        CheckpointError: The released table that the task goes on from does not protect documents.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        OutputExistsError: The folder holds something.
        OutputWriteError: The disk has no room for the table; nothing is charged then.
        PrivacyError: The ledger has no room for the run, its certificate would not be trusted, or
            the audit refutes what its twin claims; nothing is charged then.
        ValueError: The plan is for another unit than documents, or no table could hold its noise.
    """
    task.require_learnable()
    private_tables.require_documents(plan)
    for planned in (plan, twins.twin_of(plan)) if audited else (plan,):
        private_fitting.require_releasable(
            planned,
            settings,
            steps=max(1, plan.steps - public.counted),
            largest_scale=float(task.scales(public).max()),
        )
    training = {
        **asdict(settings),
        **task.training,
        "features": task.scheme.to_dict(),
        **public.reported,
    }
    declared = Declared(
        name=name,
        public_data=public.data,
        hyperparameter_tuning=hyperparameter_tuning,
        accesses=claims.unaccounted(name, READING),
        assumes=(READABLE,),
        unit_definition=duplicates.defined(unit_definition or UNIT_DEFINITIONS["document"])
        if grouped
        else unit_definition,
        caveats=(duplicates.CAVEAT,) if grouped else (),
        training=training,
        labels_from_documents=task.corpus.names_from_documents,
        releases=private_tables.RELEASES,
        started_from=task.started_from,
    )
    terms = Terms(
        declared=declared,
        documents=private_tables.corpus_digest(task.corpus),
        title=f"{task.title}, in {out}",
        cut=unit_definition or "",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    terms.check(plan)
    # A table that can't be written is lost with its budget: no run of one is resumed.
    state.require_bytes(
        out,
        2 * np.dtype(np.float32).itemsize * task.scheme.rows * len(task.corpus.names),
        advice="run the same command again; nothing was charged",
    )
    found = _audited_documents(task, plan, public, settings) if audited else Found()
    terms.require_unrefuted(found)
    asked: dict[str, Any] = {"mode": "dp-sgd", "task": task.title, **training}
    run = PrivateRun.open(out, plan, settings=asked, terms=terms)
    run.keep_reads_of(view or PrivateView())
    table = task.fit(plan, public, settings, run.charge)
    claim = found.added_to(run.claim(table.receipt))
    made = TableCheckpoint(
        weights=table.weights,
        transitions=table.transitions,
        tags=table.tags,
        scheme=task.scheme,
        claim=replace(claim, data_accesses=(*claim.data_accesses, *accesses)),
    )
    run.finish(lambda folder: table_checkpoint.save(folder, made))
    return made


def protect_terms(
    task: TableTask,
    *,
    epsilon: float,  # of all places of one term
    delta: float = DELTA,
    out: Path,
    name: str,  # what the certificate calls the documents
    bound: float = BOUND,  # L2 norm of a row, a public constant
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    accesses: tuple[DataAccess, ...] = (),  # how else the documents are read
    audited: bool = True,  # whether a twin on invented terms is audited first
    view: PrivateView | None = None,  # notes who reads scores on private documents
) -> TableCheckpoint:
    """Counts, adds noise once and writes `out/checkpoint`.

    The scheme has tokens alone, so that a term has a bounded number of rows, and texts without a
    word count, or a ValueError. Where the audit refutes what its twin claims, that is a
    PrivacyError, and nothing is released.
    """
    task.require_learnable()
    if not task.corpus.wordless:
        raise ValueError(
            "Texts without a word were left out, so that the number of texts tells of a term that "
            "was all of one. Make the corpus by `class_corpus(..., wordless=True)`."
        )
    multiplier = calibration.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=1, accountant="pld"
    )
    rows = term_release.rows_of_a_term(task.scheme)
    noise_std = term_release.term_sensitivity(bound=bound, rows=rows) * multiplier
    found = _audited_terms(task, epsilon, delta, bound) if audited else Found()
    found.require_unrefuted()
    weights, claim = private_tables.release_terms(
        task.log_odds(bound),
        noise_std=noise_std,
        delta=delta,
        name=name,
        items=task.items,
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=task.corpus.names_from_documents,
        view=view,
    )
    _require_kept(claim, epsilon)
    claim = found.added_to(claim)
    made = TableCheckpoint(
        weights=weights,
        transitions=task.transitions().astype(np.float32),
        tags=task.corpus.names,
        scheme=task.scheme,
        claim=replace(
            claim,
            training={**claim.training, **task.training, "bound": bound},
            data_accesses=(*claim.data_accesses, *accesses),
        ),
    )
    out.mkdir(parents=True, exist_ok=True)
    table_checkpoint.save(out / CHECKPOINT, made)
    return made


def _require_kept(claim: Claim, epsilon: float) -> None:
    """Refuses a release whose own receipt gives more epsilon than was asked for."""
    [guarantee] = claim.guarantees
    if guarantee.epsilon is None or guarantee.epsilon > epsilon * (1 + DIFFERENCE):
        raise PrivacyError(
            f"The release that was executed spends epsilon {guarantee.epsilon}; {epsilon:g} was "
            "asked for. A claim is made of what ran: nothing is released.",
            code="NOT_AS_PLANNED",
        )


def _audited_documents(
    task: TableTask, plan: PrivacyPlan, public: PublicText, settings: Settings
) -> Found:
    """Audits `protect_documents` itself, as a twin."""
    twin = twins.twin_of(plan)

    def recipe(corpus: Corpus, out: Path) -> TableCheckpoint:
        return protect_documents(
            task.twin(corpus),
            twin,
            public=public,
            out=out,
            name="invented documents",
            settings=settings,
            audited=False,
        )

    return private_audits.of_documents(
        task.invented(),
        task.scheme,
        task.scales(public),
        recipe,
        whole=task.is_of_whole_texts,
    )


def _audited_terms(task: TableTask, epsilon: float, delta: float, bound: float) -> Found:
    """Audits `protect_terms` itself, as a twin."""

    def recipe(corpus: Corpus, out: Path) -> TableCheckpoint:
        return protect_terms(
            task.twin(corpus),
            epsilon=min(twins.EPSILON, epsilon),
            delta=delta,
            out=out,
            name="invented terms",
            bound=bound,
            audited=False,
        )

    return private_audits.of_terms(task.scheme, recipe)


def score(table: TableCheckpoint, corpus: Corpus) -> Score:
    """Returns how well a table labels the items of other documents."""
    weights = HashedTable(
        weights=table.weights, transitions=table.transitions.astype(np.float64), scale=None
    )
    features = corpus.features(table.scheme, table.clusters)
    found = viterbi(item_scores(features, weights), corpus.documents, weights.transitions)
    outside = corpus.names.index(OUTSIDE)
    given, there = found != outside, corpus.labels != outside
    hits = int((there & (found == corpus.labels)).sum())
    return Score(
        precision=hits / max(1, int(given.sum())),
        recall=hits / max(1, int(there.sum())),
        f1=2 * hits / max(1, int(given.sum() + there.sum())),
        items=int(there.sum()),
    )
