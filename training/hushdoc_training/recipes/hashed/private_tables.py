"""Private tables: a corpus becomes a table that may be given away, with the claim it carries.

Two guarantees. `document` is differential privacy of whole documents: DP-SGD. `term` is
differential privacy of all places of one term, where each row is computed from its own counts
alone. Tables of the second go with transitions that are public (`private_fitting.transitions_of`);
learned ones would be a release of their own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Gaussian
from hushdoc.certificate import guarantees
from hushdoc.certificate.claim import Claim, DataAccess, Guarantee, PublicData
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.crf import private_fitting
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start
from hushdoc_training.crf.term_release import LogOddsTable, released, row_mechanism, rows_of_a_term
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PROFILE_DELTAS, PrivacyPlan
from hushdoc_training.randomness.secret_stream import RNG, SecretStream
from hushdoc_training.receipt import NOISE_DISTRIBUTIONS

if TYPE_CHECKING:
    from hushdoc_training.ledger.runs import LedgerStatement

FLOATING_POINT = NOISE_DISTRIBUTIONS["discrete-gaussian"]
TRANSCRIPT = "release"
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
    return table, document_claim(
        plan,
        name,
        public_data,
        labels_from_documents=corpus.names_from_documents,
        hyperparameter_tuning=hyperparameter_tuning,
        unit_definition=unit_definition,
        training={
            **(training or {}),
            "features": scheme.to_dict(),
            "unseen_scale": unseen_scale,
        },
    )


def fit_documents(
    corpus: Corpus,
    scheme: FeatureScheme,
    plan: PrivacyPlan,
    *,
    public: Features,
    settings: Settings,
    unseen_scale: float,
) -> PrivateTable:
    """Returns a table trained by DP-SGD with a document as one record; see `train_documents`."""
    require_documents(plan)
    return private_fitting.fit_private(
        corpus.features(scheme),
        corpus.labels,
        sequences=corpus.documents,
        records=records_of(corpus),
        start=Start(
            tags=corpus.names,
            scales=private_fitting.public_scales(public, scheme.rows, unseen_scale=unseen_scale),
            transitions=private_fitting.transitions_of(corpus.names),
        ),
        plan=plan,
        settings=settings,
        stream=SecretStream(),
    )


def require_documents(plan: PrivacyPlan) -> None:
    """Raises ValueError where the plan is for another unit than documents."""
    if plan.privacy_unit != "document":
        raise ValueError(f"The plan's unit is '{plan.privacy_unit}'; expected 'document'.")


def corpus_digest(corpus: Corpus) -> str:
    """Returns a digest of the tokens and labels of a corpus, whatever the order of its documents.

    A ledger knows documents by it.
    """
    ends = records_of(corpus).tolist()
    each = sorted(
        hashlib.sha256(
            json.dumps(
                [
                    corpus.level,
                    corpus.sentences_of(first, last),
                    [corpus.names[label] for label in corpus.labels[first:last].tolist()],
                ]
            ).encode()
        ).digest()
        for first, last in itertools.pairwise(ends)
    )
    return hashlib.sha256(b"".join(each)).hexdigest()


def records_of(corpus: Corpus) -> npt.NDArray[np.int64]:
    """Returns where each document begins, in items, and the number of items at the end.

    A document whose sequences do not stand together would be two records: a ValueError.
    """
    first = np.flatnonzero(np.diff(corpus.owners, prepend=-1))
    if len(np.unique(corpus.owners)) != len(first):
        raise ValueError("The sequences of each document must stand together in the corpus.")
    return np.append(corpus.documents[first], corpus.documents[-1])


def document_claim(
    plan: PrivacyPlan,
    name: str,
    public_data: tuple[PublicData, ...],
    *,
    hyperparameter_tuning: str = "none",
    unit_definition: str | None = None,
    training: Mapping[str, Any],
    ledger: LedgerStatement | None = None,
    assumes: tuple[str, ...] = (),
    private_reads: tuple[str, ...] = (),
    labels_from_documents: bool = False,
) -> Claim:
    """Returns the claim of a table trained under a plan: kind dp, unit document."""
    claim = claims.private(
        plan,
        name,
        public_data,
        training=training,
        hyperparameter_tuning=hyperparameter_tuning,
        ledger=ledger,
        assumes=assumes,
        private_reads=private_reads,
        labels_from_documents=labels_from_documents,
    )
    guarantees = tuple(
        replace(
            guarantee,
            floating_point=FLOATING_POINT,
            unit_definition=unit_definition or guarantee.unit_definition,
        )
        for guarantee in claim.guarantees
    )
    return replace(claim, guarantees=guarantees, releases=("hash-table",))


def release_terms(
    table: LogOddsTable,
    *,
    noise_std: float,  # of the noise on every cell
    delta: float,
    name: str,  # what the protected documents are called
    public_data: tuple[PublicData, ...] = (),  # what clusters were made from, if there are some
    items: str = "sentences",  # what has labels, in words
    labels_from_documents: bool = False,  # whether the documents say which labels there are
) -> tuple[npt.NDArray[np.float32], Claim]:
    """Returns a table of `term_release.log_odds` with noise, and its claim: kind dp, unit term.

    The guarantee holds for no other table: a TypeError.
    """
    if not isinstance(table, LogOddsTable):
        raise TypeError(
            f"The table is a {type(table).__name__}; expected one of term_release.log_odds, whose "
            "rows are each computed from their own counts. Train any other by DP-SGD."
        )
    rows = rows_of_a_term(table.scheme)
    event = row_mechanism(bound=table.bound, noise_std=noise_std, rows=rows)
    guarantee = replace(
        _guarantee(event, delta),
        kind="dp",
        unit_definition=f"all places of one term in all documents, emptied; {items}, their labels "
        "and all other terms stay",
        assumes=(
            "each row was learned from its own counts alone",
            f"how many {items} there are and which labels they have is public",
        ),
    )
    claim = _claim(
        guarantee,
        event,
        name,
        public_data,
        f"a term is in at most {rows} rows; each lies in a ball of radius {table.bound:g}",
        items=items,
        labels_from_documents=labels_from_documents,
        caveats=(
            "A sentence or a document is many terms, and is protected far less than a term.",
            f"The labels of the {items} are not protected: they count as public.",
        ),
    )
    return released(table, noise_std=noise_std, stream=SecretStream()), claim


def _guarantee(event: Gaussian, delta: float) -> Guarantee:
    """Returns the guarantee of one release of noise, without its unit."""
    return guarantees.differential_privacy(
        event,
        lambda point: _epsilon(event, point),
        delta,
        accountant="pld",
        transcript=TRANSCRIPT,
        profile=PROFILE_DELTAS,
        observes=claims.OBSERVES,
        knows="all rows but those in question, all settings, and how training works",
        unit="token-term",
        unit_definition="",
        adjacency="zero-out",
        composition="one release of one table",
        covers_all_private_accesses=True,
        sampling_as_implemented="full-batch",
        hyperparameter_tuning="none",
        rng="csprng",
        floating_point=FLOATING_POINT,
    )


def _epsilon(event: Gaussian, delta: float) -> float:
    found = pld.epsilon(event, delta, adjacency="zero-out")
    if not math.isfinite(found):
        raise ValueError(f"{event} has no finite epsilon at delta {delta:g}; raise the noise.")
    return found


def _claim(
    guarantee: Guarantee,
    event: Gaussian,
    name: str,
    public_data: tuple[PublicData, ...],
    contribution_bound: str,
    *,
    items: str,
    labels_from_documents: bool,
    caveats: tuple[str, ...],
) -> Claim:
    base = claims.not_private(name, public_data, training={"noise": RNG})
    [protected] = base.protected_data
    [unit] = protected.units
    return replace(
        base,
        protected_data=(
            replace(
                protected,
                units=(replace(unit, unit="token-term"),),
                contribution_bound=contribution_bound,
            ),
        ),
        data_accesses=(
            DataAccess(
                data=name, purpose="training", accounted_in=(TRANSCRIPT,), treatment="accounted"
            ),
            DataAccess(
                data=name,
                purpose=f"number of {items} and their labels",
                accounted_in=(),
                treatment="declared-public",
            ),
            *claims.label_access(name, labels_from_documents),
        ),
        releases=("hash-table",),
        guarantees=(guarantee,),
        transcripts={TRANSCRIPT: event},
        caveats=caveats,
    )
