"""Private tables: a corpus becomes a table that may be given away, with the claim it carries.

Two guarantees. `document` is differential privacy of whole documents: DP-SGD. `term` is
differential privacy of all places of one term, where each row is computed from its own counts
alone. Tables of the second go with transitions that are public (`private_fitting.transitions_of`);
learned ones would be a release of their own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training import duplicates
from hushdoc_training.crf import private_fitting
from hushdoc_training.crf.chain import Floats, Grouping
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start
from hushdoc_training.crf.term_release import LogOddsTable, released, rows_of_a_term
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.runs import receipts
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.receipts import Declared

RELEASES = ("hash-table",)
RARITY, STAYING = 1.5, 3.0
"""What a run of sentences with a label costs at the start, and each sentence more; chosen, as
`private_runs.CLAUSES`, by `benchmarks/clause_choices.py`."""

_DEFAULTS = Settings()


def train_documents(
    corpus: Corpus,
    scheme: FeatureScheme,
    plan: PrivacyPlan,
    *,
    public: Features,
    name: str,
    public_data: tuple[PublicData, ...],
    settings: Settings = _DEFAULTS,
    hyperparameter_tuning: str = "none",
    unit_definition: str | None = None,
    training: Mapping[str, Any] | None = None,
    unseen_scale: float = private_fitting.UNSEEN_SCALE,
) -> tuple[PrivateTable, Claim]:
    """Returns a table trained by DP-SGD with a document as one record, and its claim.

    It charges no ledger; `private_runs.protect_documents` does.

    Args:
        corpus: Labelled items; all sequences of one owner are one record.
        scheme: What the features are, without clusters.
        plan: What the guarantee is made from; of the unit "document".
        public: Features of public sentences by the same scheme: they scale the rows.
        name: What the protected documents are called.
        public_data: What the public sentences are.
        settings: Of training.
        hyperparameter_tuning: One of `vocabulary.TUNINGS`: on what the settings were chosen.
        unit_definition: What a document is, where it is not what the word says.
        training: More settings, for people.
        unseen_scale: `private_fitting.public_scales` of rows that the public sentences do not use.

    Raises:
        ValueError: The plan is for another unit than documents.
    """
    table = fit_documents(
        corpus, scheme, plan, public=public, settings=settings, unseen_scale=unseen_scale
    )
    plan.require_executed(table.receipt)
    declared = Declared(
        name=name,
        public_data=public_data,
        labels_from_documents=corpus.names_from_documents,
        hyperparameter_tuning=hyperparameter_tuning,
        accesses=claims.unaccounted(name, READING),
        assumes=(READABLE,),
        unit_definition=unit_definition,
        training={
            **(training or {}),
            "features": scheme.to_dict(),
            "unseen_scale": unseen_scale,
        },
        releases=RELEASES,
    )
    return table, receipts.claim(
        table.receipt, declared, delta=plan.delta, accountant=plan.accountant
    )


def fit_documents(
    corpus: Corpus,
    scheme: FeatureScheme,
    plan: PrivacyPlan,
    *,
    public: Features,
    settings: Settings,
    unseen_scale: float,
    charge: Callable[[int], None] | None = None,
) -> PrivateTable:
    """Returns a table trained by DP-SGD with a document as one record; see `train_documents`."""
    require_documents(plan)
    return private_fitting.fit_private(
        corpus.features(scheme),
        corpus.labels,
        sequences=corpus.documents,
        records=Grouping(ends=records_of(corpus), unit=corpus.unit),
        start=Start(
            tags=corpus.names,
            scales=private_fitting.public_scales(public, scheme.rows, unseen_scale=unseen_scale),
            transitions=_transitions(corpus),
        ),
        plan=plan,
        settings=settings,
        stream=SecretStream(),
        charge=charge,
    )


def _transitions(corpus: Corpus) -> Floats:
    """Returns what training begins with: runs of sentences are held less rare than of tokens."""
    if corpus.level == "token":
        return private_fitting.transitions_of(corpus.names)
    return private_fitting.transitions_of(corpus.names, rarity=RARITY, staying=STAYING)


def require_documents(plan: PrivacyPlan) -> None:
    """Raises ValueError where the plan is for another unit than documents."""
    if plan.privacy_unit != "document":
        raise ValueError(f"The plan's unit is '{plan.privacy_unit}'; expected 'document'.")


def corpus_digest(corpus: Corpus) -> str:
    """Returns a digest of the tokens and labels of a corpus, whatever the order of its documents.

    A ledger knows documents by it.
    """
    ends = records_of(corpus).tolist()
    return duplicates.digest_of(
        json.dumps(
            [
                corpus.level,
                corpus.sentences_of(first, last),
                [corpus.names[label] for label in corpus.labels[first:last].tolist()],
            ]
        ).encode()
        for first, last in itertools.pairwise(ends)
    )


def records_of(corpus: Corpus) -> npt.NDArray[np.int64]:
    """Returns where each document begins, in items, and the number of items at the end.

    A document whose sequences do not stand together would be two records: a ValueError.
    """
    first = np.flatnonzero(np.diff(corpus.owners, prepend=-1))
    if len(np.unique(corpus.owners)) != len(first):
        raise ValueError("The sequences of each document must stand together in the corpus.")
    return np.append(corpus.documents[first], corpus.documents[-1])


def release_terms(
    table: LogOddsTable,
    *,
    noise_std: float,  # of the noise on every cell
    delta: float,
    name: str,  # what the protected documents are called
    public_data: tuple[PublicData, ...] = (),  # what clusters were made from, if there are some
    items: str = "sentences",  # what has labels, in words
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    labels_from_documents: bool = False,  # whether the documents say which labels there are
    view: PrivateView | None = None,  # notes who reads scores on private documents
) -> tuple[npt.NDArray[np.float32], Claim]:
    """Returns a table of `term_release.log_odds` with noise, and its claim: kind dp, unit term.

    The guarantee holds for no other table: a TypeError.
    """
    if not isinstance(table, LogOddsTable):
        raise TypeError(
            f"The table is a {type(table).__name__}; expected one of term_release.log_odds, whose "
            "rows are each computed from their own counts. Train any other by DP-SGD."
        )
    noisy = released(table, noise_std=noise_std, stream=SecretStream())
    declared = Declared(
        name=name,
        public_data=public_data,
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=labels_from_documents,
        accesses=claims.unaccounted(
            name, {f"number of {items} and their labels": "declared-public"}
        ),
        unit_definition=f"all places of one term in all {items}, emptied after they were cut into "
        f"tokens; {items}, such as are left without a token too, their labels and all other terms "
        "stay",
        assumes=(
            "each row was learned from its own counts alone",
            f"how many {items} there are and which labels they have is public",
        ),
        contribution_bound=f"a term is in at most {rows_of_a_term(table.scheme)} rows; each lies "
        f"in a ball of radius {table.bound:g}",
        caveats=(
            "A sentence or a document is many terms, and is protected far less than a term.",
            f"The labels of the {items} are not protected: they count as public.",
        ),
        releases=RELEASES,
    )
    return noisy.weights, receipts.claim(noisy.receipt, declared, delta=delta, view=view)
