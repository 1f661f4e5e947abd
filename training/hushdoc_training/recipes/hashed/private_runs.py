"""Runs of private tables: labelled documents become a checkpoint with a guarantee, or none at all.

`document` protects whole documents by DP-SGD, charged to their ledger where one is kept; `term`
protects all places of one term by one release of noise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from hushdoc.accounting import calibration
from hushdoc.certificate.claim import DataAccess
from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import private_fitting, term_release
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import private_audits, private_tables
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.runs import account as budget
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.table_checkpoint import TableCheckpoint

DELTA = 1e-5
BOUND = 1.0
"""Length of a row of a table with noise; a public constant."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a table finds what people marked, item by item.

    Attributes:
        precision: Share of the labels given that are right.
        recall: Share of the labels there that were given.
        f1: Their harmonic mean.
        items: Items with a label.
    """

    precision: float
    recall: float
    f1: float
    items: int


def protect_documents(
    corpus: Corpus,
    scheme: FeatureScheme,
    plan: PrivacyPlan,
    *,
    public: PublicText,
    out: Path,
    name: str,
    settings: Settings,
    hyperparameter_tuning: str = "none",
    unit_definition: str | None = None,
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    accesses: tuple[DataAccess, ...] = (),
    audited: bool = True,
) -> TableCheckpoint:
    """Trains by DP-SGD and writes `out/checkpoint`.

    Args:
        corpus: Labelled documents.
        scheme: What their features are, without clusters.
        plan: What the guarantee is made from; of the unit "document".
        public: Scales the rows.
        out: A new folder for the run.
        name: What the certificate calls the documents.
        settings: Of training.
        hyperparameter_tuning: One of `vocabulary.TUNINGS`: on what the settings were chosen.
        unit_definition: What a document is, where it is not what the word says.
        ledger: The budget of the documents. All steps are charged at once, before the first.
        documents_changed: Documents were added, removed or relabelled since the ledger's last run.
        accesses: How else the documents are read, for the certificate.
        audited: Whether the same training of invented documents is attacked, for the certificate.

    Raises:
        AnnotationError: There is nothing to learn.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        OutputExistsError: The folder holds something.
        PrivacyError: The ledger has no room for the run, or nobody would trust its certificate.
    """
    _require_items(corpus)
    training = {
        **asdict(settings),
        "features": scheme.to_dict(),
        "unseen_scale": public.unseen_scale,
    }
    alone = private_tables.document_claim(
        plan,
        name,
        public.data,
        hyperparameter_tuning=hyperparameter_tuning,
        unit_definition=unit_definition,
        training=training,
    )
    budget.require_certifiable(alone)
    digest = private_tables.corpus_digest(corpus)
    if ledger is not None:  # before the folder is taken
        budget.require_room(ledger, plan, digest, documents_changed=documents_changed)
    run = Run.open(out, {"mode": "private", **asdict(plan), **training}, resume=False)
    account = budget.join(ledger, run, plan, alone, documents=digest, title=f"clauses, in {out}")
    table, claim = private_tables.train_documents(
        corpus,
        scheme,
        plan,
        public=public.features,
        name=name,
        public_data=public.data,
        settings=settings,
        hyperparameter_tuning=hyperparameter_tuning,
        unit_definition=unit_definition,
        training=asdict(settings),
        account=account,
        unseen_scale=public.unseen_scale,
    )
    if audited:
        found = private_audits.attacks_on_documents(
            scheme,
            plan,
            public=public.features,
            settings=settings,
            unseen_scale=public.unseen_scale,
        )
        claim = private_audits.with_attacks(claim, found)
    made = TableCheckpoint(
        weights=table.weights,
        transitions=table.transitions,
        tags=table.tags,
        scheme=scheme,
        claim=replace(claim, data_accesses=(*claim.data_accesses, *accesses)),
    )
    table_checkpoint.save(out / "checkpoint", made)
    account.close()
    return made


def protect_terms(
    corpus: Corpus,
    scheme: FeatureScheme,
    *,
    epsilon: float,
    delta: float = DELTA,
    out: Path,
    name: str,
    bound: float = BOUND,
    accesses: tuple[DataAccess, ...] = (),
    audited: bool = True,
) -> TableCheckpoint:
    """Counts, adds noise once and writes `out/checkpoint`.

    Args:
        corpus: Labelled documents whose items are sentences.
        scheme: Tokens alone, so that a term has a bounded number of rows.
        epsilon: Of all places of one term.
        delta: At which it holds.
        out: A new folder for the run.
        name: What the certificate calls the documents.
        bound: Length of a row, a public constant.
        accesses: How else the documents are read, for the certificate.
        audited: Whether the same release of invented terms is attacked, for the certificate.

    Raises:
        AnnotationError: There is nothing to learn.
        OutputExistsError: A checkpoint stands there already.
        ValueError: The scheme has pairs of tokens, or epsilon is no positive number.
    """
    _require_items(corpus)
    multiplier = calibration.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=1, accountant="pld"
    )
    rows = term_release.rows_of_a_term(scheme)
    table = term_release.log_odds(
        corpus.sentences,
        corpus.labels,
        scheme,
        num_labels=len(corpus.names),
        bound=bound,
    )
    noise_std = 2 * bound * float(np.sqrt(rows)) * multiplier
    weights, claim = private_tables.release_terms(
        table, noise_std=noise_std, delta=delta, name=name
    )
    if audited:
        found = private_audits.attacks_on_terms(scheme, bound=bound, noise_std=noise_std)
        claim = private_audits.with_attacks(claim, found)
    made = TableCheckpoint(
        weights=weights,
        transitions=private_fitting.transitions_of(corpus.names).astype(np.float32),
        tags=corpus.names,
        scheme=scheme,
        claim=replace(claim, data_accesses=(*claim.data_accesses, *accesses)),
    )
    out.mkdir(parents=True, exist_ok=True)
    table_checkpoint.save(out / "checkpoint", made)
    return made


def score(table: TableCheckpoint, corpus: Corpus) -> Score:
    """Returns how well a table labels the items of other documents.

    Args:
        table: Of the corpus's labels.
        corpus: Labelled documents.
    """
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


def _require_items(corpus: Corpus) -> None:
    if not len(corpus.labels):
        raise AnnotationError(
            f"The documents have no {corpus.level}s to learn from; expected some. Give documents "
            "with text."
        )
