"""What a private table learns to find: clauses in documents, or the class of each whole text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from hushdoc.certificate.claim import Claim
from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import private_fitting, private_linear, term_release, whole_texts
from hushdoc_training.crf.chain import Floats
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import PrivateTable, Settings
from hushdoc_training.crf.term_release import LogOddsTable
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import canary_corpora, classifier, private_tables
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.table_checkpoint import TableCheckpoint

Charge = Callable[[int], None]
"""Charges steps for good, up to the one of this number."""


class TableTask(Protocol):
    """A corpus and what is learned from it."""

    @property
    def corpus(self) -> Corpus: ...  # noqa: D102
    @property
    def scheme(self) -> FeatureScheme: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def items(self) -> str: ...  # noqa: D102
    @property
    def training(self) -> Mapping[str, Any]: ...  # noqa: D102

    def require_learnable(self) -> None:
        """Raises AnnotationError where there is nothing to learn."""

    @property
    def started_from(self) -> Claim | None:
        """The claim of the released table that training goes on from, if there is one."""

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        """Trains by DP-SGD with a document as one record, its steps charged before the first."""

    def scales(self, public: PublicText) -> Floats:
        """Returns the scale of each row."""

    def invented(self) -> Corpus:
        """Returns invented documents such as the task learns from, beside an audit's canaries."""

    def twin(self, corpus: Corpus) -> TableTask:
        """Returns the same task on other documents, from the beginning."""

    @property
    def is_of_whole_texts(self) -> bool: ...  # noqa: D102

    def log_odds(self, bound: float) -> LogOddsTable:
        """Computes each row from its own counts."""

    def transitions(self) -> Floats:
        """Returns transitions that are public."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Clauses:
    """Clauses or entities of documents: every item has a label. The scheme has no clusters."""

    corpus: Corpus
    scheme: FeatureScheme
    title: str = "clauses"
    items: str = "sentences"
    training: Mapping[str, Any] = field(default_factory=dict)

    def require_learnable(self) -> None:
        """Raises AnnotationError where there is nothing to learn."""
        if not len(self.corpus.labels):
            raise AnnotationError(
                f"The documents have no {self.corpus.level}s to learn from; expected some. Give "
                "documents with text."
            )

    @property
    def started_from(self) -> Claim | None:
        """None: training begins anew."""
        return None

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        """Trains by DP-SGD with a document as one record, its steps charged before the first."""
        return private_tables.fit_documents(
            self.corpus,
            self.scheme,
            plan,
            public=public.features,
            settings=settings,
            unseen_scale=public.unseen_scale,
            charge=charge,
        )

    def scales(self, public: PublicText) -> Floats:
        """Returns the scale of each row."""
        return private_fitting.public_scales(
            public.features, self.scheme.rows, unseen_scale=public.unseen_scale
        )

    def invented(self) -> Corpus:
        """Returns invented documents such as the task learns from, beside an audit's canaries."""
        return canary_corpora.contracts(self.scheme.level)

    def twin(self, corpus: Corpus) -> Clauses:
        """Returns the same task on other documents, from the beginning."""
        return replace(self, corpus=corpus)

    @property
    def is_of_whole_texts(self) -> bool:
        """Whether a document has one label, or each of its items."""
        return False

    def log_odds(self, bound: float) -> LogOddsTable:
        """Computes each row from its own counts."""
        return term_release.log_odds(
            self.corpus.sentences,
            self.corpus.labels,
            self.scheme,
            num_labels=len(self.corpus.names),
            bound=bound,
        )

    def transitions(self) -> Floats:
        """Returns transitions that are public."""
        return private_fitting.transitions_of(self.corpus.names)


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeTexts:
    """The class of each whole text, of two at least, by tokens alone.

    The corpus is made by `whole_texts.class_corpus`; where terms are to be protected, with its
    `wordless` texts. Training goes on from the released table, if there is one; both are added up.
    """

    corpus: Corpus
    scheme: FeatureScheme
    released: TableCheckpoint | None = None
    title: str = "classifier"
    items: str = "texts"
    training: Mapping[str, Any] = field(
        default_factory=lambda: {"transitions": classifier.ONE_CLASS}
    )

    def require_learnable(self) -> None:
        """Raises AnnotationError where there is nothing to learn."""
        classifier.require_declared_classes(self.corpus)

    @property
    def started_from(self) -> Claim | None:
        """The claim of the released table that training goes on from, if there is one."""
        return None if self.released is None else self.released.claim

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        """Trains by DP-SGD with a document as one record, its steps charged before the first."""
        table = private_linear.fit_private_linear(
            whole_texts.whole(self.corpus.features(self.scheme), self.corpus),
            whole_texts.classes(self.corpus),
            names=self.corpus.names,
            scales=self.scheme.rows if public.counted else self.scales(public),
            plan=plan,
            stream=SecretStream(),
            settings=settings,
            weights=None if self.released is None else self.released.weights,
            unit=self.corpus.unit,
            charge=charge,
        )
        return replace(table, transitions=self.transitions().astype(np.float32))

    def scales(self, public: PublicText) -> Floats:
        """Returns the scale of each row; of rows that were counted that of most."""
        if public.counted:
            return np.ones(self.scheme.rows)
        return whole_texts.rarity_scales(
            public.features, self.scheme.rows, unseen_scale=public.unseen_scale
        )

    def invented(self) -> Corpus:
        """Returns invented documents such as the task learns from, beside an audit's canaries."""
        return canary_corpora.classes()

    def twin(self, corpus: Corpus) -> WholeTexts:
        """Returns the same task on other documents, from the beginning."""
        return replace(self, corpus=corpus, released=None)

    @property
    def is_of_whole_texts(self) -> bool:
        """Whether a document has one label, or each of its items."""
        return True

    def log_odds(self, bound: float) -> LogOddsTable:
        """Computes each row from its own counts."""
        return term_release.log_odds(
            whole_texts.tokens(self.corpus),
            whole_texts.classes(self.corpus),
            self.scheme,
            num_labels=len(self.corpus.names),
            bound=bound,
        )

    def transitions(self) -> Floats:
        """Returns transitions that are public."""
        return whole_texts.one_class(self.corpus.names).astype(np.float64)
