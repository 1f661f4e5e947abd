"""Kinds of whole texts by a private table: DP-SGD of texts, or one release of noise for terms.

`protect_documents` has a text as one record, and is charged to the ledger of the texts where one is
kept; `protect_terms` counts and adds noise once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushdoc.accounting import calibration
from hushdoc.certificate.claim import Claim, DataAccess, PublicData
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.crf import private_linear, term_release, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import classifier, private_audits, private_tables, updates
from hushdoc_training.runs import account as budget
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.table_checkpoint import TableCheckpoint

SETTINGS = replace(private_linear.LINEAR, total_learning_rate=1500.0)
"""Of DP-SGD."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicText:
    """Public texts that scale the rows of a private table.

    Attributes:
        features: Of each as a whole, by the table's scheme.
        unseen_scale: `whole_texts.rarity_scales` of rows that they do not use.
        data: What the certificate says of them.
    """

    features: Features
    unseen_scale: float
    data: PublicData


def protect_documents(
    corpus: Corpus,
    own: FeatureScheme,
    plan: PrivacyPlan,
    *,
    public: PublicText,
    out: Path,
    name: str,
    settings: Settings = SETTINGS,
    hyperparameter_tuning: str = "none",
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    released: TableCheckpoint | None = None,
    accesses: tuple[DataAccess, ...] = (),
    audited: bool = True,
) -> TableCheckpoint:
    """Trains by DP-SGD with a text as one record, and writes `out/checkpoint`.

    Args:
        corpus: Texts of at least two kinds.
        own: What their features are.
        plan: What the guarantee is made from; of the unit "document".
        public: Scales the rows.
        out: A new folder for the run.
        name: What the certificate calls the texts.
        settings: Of training.
        hyperparameter_tuning: One of `vocabulary.TUNINGS`: on what the settings were chosen.
        ledger: The budget of the texts. All steps are charged at once, before the first.
        documents_changed: Texts were added, removed or relabelled since the ledger's last run.
        released: The table that training goes on from, if there is one; both are added up.
        accesses: How else the texts are read, for the certificate.
        audited: Whether the same training of invented texts is attacked, for the certificate.

    Raises:
        AnnotationError: There is nothing to learn.
        CheckpointError: The released table does not protect documents.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        OutputExistsError: The folder holds something.
        PrivacyError: The ledger has no room for the run, or nobody would trust its certificate.
        ValueError: The plan is for another unit than documents.
    """
    classifier.require_classes(corpus, released)
    if plan.privacy_unit != "document":
        raise ValueError(f"The plan's unit is '{plan.privacy_unit}'; expected 'document'.")
    stated: dict[str, Any] = {
        "public_data": (public.data,),
        "hyperparameter_tuning": hyperparameter_tuning,
        "training": {
            **asdict(settings),
            "transitions": classifier.ONE_CLASS,
            "features": own.to_dict(),
            "unseen_scale": public.unseen_scale,
        },
    }

    def claimed(runs: LedgerStatement | None) -> Claim:
        claim = private_tables.document_claim(plan, name, ledger=runs, **stated)
        return claim if released is None else updates.added(claim, released.claim)

    alone = claimed(None)
    budget.require_certifiable(alone)
    digest = private_tables.corpus_digest(corpus)
    if ledger is not None:  # before the folder is taken
        runs = budget.require_room(ledger, plan, digest, documents_changed=documents_changed)
        budget.require_certifiable(claimed(runs))
    asked = {"mode": "private", "task": "classifier", **asdict(plan), **stated["training"]}
    run = Run.open(out, asked, resume=False)
    account = budget.join(ledger, run, plan, alone, documents=digest, title=f"classifier, in {out}")
    account.charge(plan.steps)
    scales = whole_texts.rarity_scales(public.features, own.rows, unseen_scale=public.unseen_scale)
    table = private_linear.fit_private_linear(
        whole_texts.whole(corpus.features(own), corpus),
        whole_texts.kinds(corpus),
        names=corpus.names,
        scales=scales,
        plan=plan,
        stream=SecretStream(),
        settings=settings,
        weights=None if released is None else released.weights,
    )
    claim = claimed(account.statement())
    if audited:
        found = private_audits.attacks_on_whole_texts(own, plan, scales=scales, settings=settings)
        claim = private_audits.with_attacks(claim, found)
    made = classifier.written(table.weights, corpus, own, claim, accesses, out)
    account.close()
    return made


def protect_terms(
    corpus: Corpus,
    own: FeatureScheme,
    *,
    epsilon: float,
    delta: float,
    out: Path,
    name: str,
    bound: float = 1.0,
    accesses: tuple[DataAccess, ...] = (),
    audited: bool = True,
) -> TableCheckpoint:
    """Counts, adds noise once and writes `out/checkpoint`.

    Args:
        corpus: Texts of at least two kinds.
        own: Tokens alone, so that a term has one row.
        epsilon: Of all places of one term.
        delta: At which it holds.
        out: A new folder for the run.
        name: What the certificate calls the texts.
        bound: Length of a row, a public constant.
        accesses: How else the texts are read, for the certificate.
        audited: Whether the same release of invented terms is attacked, for the certificate.

    Raises:
        AnnotationError: There is nothing to learn.
        OutputExistsError: A checkpoint stands there already.
        ValueError: The scheme has pairs of tokens, or epsilon is no positive number.
    """
    classifier.require_classes(corpus)
    multiplier = calibration.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=1, accountant="pld"
    )
    noise_std = 2 * bound * float(np.sqrt(term_release.rows_of_a_term(own))) * multiplier
    table = term_release.log_odds(
        texts_of(corpus), whole_texts.kinds(corpus), own, num_labels=len(corpus.names), bound=bound
    )
    weights, claim = private_tables.release_terms(
        table, noise_std=noise_std, delta=delta, name=name, items="texts"
    )
    if audited:
        found = private_audits.attacks_on_terms(own, bound=bound, noise_std=noise_std)
        claim = private_audits.with_attacks(claim, found)
    claim = replace(
        claim,
        training={**claim.training, "bound": bound, "transitions": classifier.ONE_CLASS},
    )
    return classifier.written(weights, corpus, own, claim, accesses, out)


def texts_of(corpus: Corpus) -> list[list[str]]:
    """Returns the tokens of each text.

    Args:
        corpus: Made by `whole_texts.class_corpus`.
    """
    ends = corpus.documents.tolist()
    return [
        [token for tokens in corpus.sentences[first:last] for token in tokens]
        for first, last in zip(ends[:-1], ends[1:], strict=True)
    ]
