"""Simulators: where the pages come from that documents vote for: the generator, or a public folder.

Private Evolution needs two deeds of a simulator (arXiv 2502.05505): random pages, and pages that
resemble given ones. The generator redraws some factors of a page; in a folder of public pages,
those resemble a page that are nearest to it in the embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc.arguments import short_repr
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import AnnotationError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc.system.progress import TaskProgress
from hushdoc_training import chosen_checkpoint, duplicates, synthetic_checkpoint
from hushdoc_training.invented import released, specification
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.specification import FACTORS, Specification
from hushdoc_training.recipes.synthesis import document_points
from hushdoc_training.recipes.synthesis import settings as settings_of
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.synthesis import embedding
from hushdoc_training.synthesis.ballots import Pool
from hushdoc_training.synthetic_checkpoint import SyntheticCheckpoint

Floats = npt.NDArray[np.float64]
Seen = Callable[[int, int], None]
Item = TypeVar("Item", bound=Hashable)

NONE_TAKEN_OUT = (
    "no page that others know as public was taken out of the public ones because a protected "
    "document is like it; its absence would tell so, without noise"
)
ASSUMES = (
    "none of the documents in question is, by its words, one of the public pages or nearly a copy "
    "of one: a run with such a document is refused, which is no noised output",
    NONE_TAKEN_OUT,
)
COMPARED = (
    "comparison with the public pages: a run is refused unless no document is like one of them"
)
NOT_AMONG_THEM = (
    "A run is refused whose public pages hold a protected document, or by its words nearly a copy "
    "of one. That this one was not refused says of each public page, without noise, that it is "
    "none of them; the guarantee covers no document that is."
)

_VARIED = (0.35, 0.25, 0.18, 0.12)
"""How far children are from their parents, by the round; then the last: the probability of each
factor to be drawn anew, and the share of a folder's pages among which a child is."""

_FEWEST = 4
"""Pages at least among which a child is."""


@dataclass(kw_only=True)
class Proposal(Generic[Item]):
    """What the votes have led to: odds of values, or parents with their shares.

    Attributes:
        weights: Odds of factors' values, where the generator has any; those of the prior at first.
        parents: Pages to vary; none at first, and none where values were voted for.
        shares: How often each parent is varied.
        words: Words that were found, with the share of documents that have each.
        rounds: How many times it was made anew.
    """

    weights: dict[str, list[float]] = field(default_factory=dict)
    parents: tuple[Item, ...] = ()
    shares: Floats = field(default_factory=lambda: np.zeros(0))
    words: dict[str, float] = field(default_factory=dict)
    rounds: int = 0

    @property
    def varied(self) -> float:
        """How far children are from their parents."""
        return _VARIED[min(max(self.rounds, 1), len(_VARIED)) - 1]

    def parent(self, rng: Draws) -> Item | None:
        """Returns a parent drawn by the shares; None where there is none."""
        if not self.parents:
            return None
        ends = np.cumsum(self.shares)
        return self.parents[int(np.searchsorted(ends, rng.unit() * ends[-1], "right"))]


class Simulator(Protocol[Item]):
    """What draws public pages, embeds them, and hands those of a release to export."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a claim says of it, for people."""
        ...

    @property
    def public_data(self) -> tuple[PublicData, ...]:
        """What a claim says of the documents that it draws from."""
        ...

    @property
    def assumes(self) -> tuple[str, ...]:
        """What must be true of the pages for a guarantee to hold."""
        ...

    @property
    def treatments(self) -> Mapping[str, str]:
        """For what documents are read besides votes, and how that is accounted for."""
        ...

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of the claim must know besides."""
        ...

    def require_fitting(self, documents: Sequence[LabelledDocument]) -> None:
        """Raises where these documents may not vote for its pages."""
        ...

    def start(self) -> Proposal[Item]:
        """Returns the proposal before anybody voted."""
        ...

    def drawn(self, proposal: Proposal[Item], count: int, *key: int) -> tuple[Item, ...]:
        """Returns so many pages, none twice; the key decides which."""
        ...

    def pool_of(self, items: Sequence[Item], seen: Seen = ...) -> Pool:
        """Returns pages to vote for, embedded."""
        ...

    def save(self, folder: Path, items: Sequence[Item], claim: Claim) -> None:
        """Writes the checkpoint of a release."""
        ...


def unseen(done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, kw_only=True)
class Generator:
    """The generator of invented documents; its pages are specifications."""

    settings: EvolutionSettings
    public_data: tuple[PublicData, ...] = ()
    assumes: tuple[str, ...] = ()
    treatments: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Its version, and what is asked of it."""
        return {
            "generator": specification.VERSION,
            "labels": self.settings.labels,
            "document_types": self.settings.document_types,
        }

    def require_fitting(self, documents: Sequence[LabelledDocument]) -> None:
        """Any document may vote: nothing of a private one is in the generator."""

    def start(self) -> Proposal[Specification]:
        """Returns the prior."""
        return Proposal(weights=settings_of.prior(self.settings))

    def drawn(
        self, proposal: Proposal[Specification], count: int, *key: int
    ) -> tuple[Specification, ...]:
        """Returns so many specifications, each with a content of its own."""
        made: dict[str, Specification] = {}
        number = 0
        while len(made) < count:
            rng = Draws(*key, number)
            parent = proposal.parent(rng)
            one = specification.vary(
                parent,
                rng,
                share=proposal.varied if parent else 1.0,
                weights=proposal.weights,
                words=proposal.words,
            )
            made.setdefault(one.id, one)
            number += 1
        return tuple(made.values())

    def pool_of(self, items: Sequence[Specification], seen: Seen = unseen) -> Pool:
        """Returns pages to vote for, laid out and embedded."""
        features, points = self.settings.features, []
        made = released.with_image if embedding.reads_images(features) else released.document_of
        for one in items:
            labelled = made(one, self.settings.labels)
            points.append(document_points.point(labelled.document, features))
            seen(len(points), len(items))
        return Pool(
            points=np.array(points),
            levels=np.array([one.levels for one in items], dtype=np.int64),
            sizes=tuple(map(len, FACTORS.values())),
            weights=settings_of.weights_of_factors(),
        )

    def save(self, folder: Path, items: Sequence[Specification], claim: Claim) -> None:
        """Writes specifications; pages are drawn from them where they are exported."""
        made = SyntheticCheckpoint(
            specifications=tuple(items), labels=self.settings.labels, claim=claim
        )
        synthetic_checkpoint.save(folder, made)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicPages:
    """Public documents of one page each; a page is its place among them.

    Attributes:
        documents: One of all that have the same words.
        points: Their points, shape [M, D].
        public_data: What a claim says of them.
    """

    documents: tuple[LabelledDocument, ...]
    points: Floats
    public_data: tuple[PublicData, ...]
    assumes: tuple[str, ...] = ASSUMES
    treatments: Mapping[str, str] = field(default_factory=lambda: {COMPARED: "declared-public"})
    caveats: tuple[str, ...] = (NOT_AMONG_THEM,)

    @classmethod
    def of(
        cls,
        documents: Sequence[LabelledDocument],
        settings: EvolutionSettings,
        *,
        name: str,
        overlap: str,
        quiet: bool = True,
    ) -> PublicPages:
        """Returns the pages of public documents, each looked at once.

        Raises:
            AnnotationError: A document has several pages, no image or no words, or there are fewer
                than are asked for.
            InputError: An image can't be read.
            ValueError: The vote is one for factors, which public pages have not.
        """
        if settings.vote == "factors":
            raise ValueError("vote is 'factors', which public pages have none of: pages or moments")
        for labelled in documents:
            chosen_checkpoint.require_one_page(labelled)
        kept = distinct(documents)
        points = []
        with TaskProgress("public page", quiet=quiet) as progress:
            for labelled in kept:
                chosen_checkpoint.image_of(labelled.document.pages[0])
                found = document_points.point(labelled.document, settings.features)
                points.append(np.nan_to_num(found))  # a page that is nowhere is at 0
                progress.show(len(points), len(kept))
        if len(kept) < max(settings.documents, settings.nearest):
            raise AnnotationError(
                f"There are {len(kept)} public pages with different words; {settings.documents} "
                f"are to be released, and each document votes for {settings.nearest}. Give more "
                "pages, or ask for fewer."
            )
        data = PublicData(
            name=name,
            uses=("pages that documents vote for", "released pages"),
            digest=chosen_checkpoint.digest(kept),
            privacy_status="declared public by the trainer",
            overlap_with_protected=overlap,
        )
        return cls(documents=tuple(kept), points=np.array(points), public_data=(data,))

    @property
    def facts(self) -> dict[str, Any]:
        """How many there are."""
        return {"public_pages": len(self.documents)}

    def require_fitting(self, documents: Sequence[LabelledDocument]) -> None:
        """Raises where a public page is a private one, or nearly a copy."""
        asked, private = (
            [duplicates.words_of(_texts(labelled)) for labelled in side]
            for side in (self.documents, documents)
        )
        found = duplicates.look_alikes(asked, private)
        copies = [
            one.document.id for one, at in zip(self.documents, found, strict=True) if at is not None
        ]
        if copies:
            raise PrivacyError(
                f"The public document {short_repr(copies[0])} is one of the protected documents, "
                f"or nearly a copy of one; of {len(self.documents)} public pages {len(copies)} "
                "are. What is released would show it as it is. If others know it as public, take "
                "it out of the protected documents: its absence from the public pages would tell "
                "that it is protected. If nobody does, take it out of the public pages.",
                code="PRIVATE_PAGE_IS_PUBLIC",
            )

    def start(self) -> Proposal[int]:
        """Returns the proposal of any page."""
        return Proposal()

    def drawn(self, proposal: Proposal[int], count: int, *key: int) -> tuple[int, ...]:
        """Returns so many different pages: near ones of the parents, or any; all where too few."""
        total = len(self.points)
        free = np.ones(total, dtype=bool)
        around = max(_FEWEST, round(proposal.varied * total / _FEWEST))
        for number in range(min(count, total)):
            rng = Draws(*key, number)
            parent = proposal.parent(rng)
            if parent is None:
                order = np.flatnonzero(free)
                place = int(order[rng.integer(0, len(order) - 1)])
            else:
                apart = np.square(self.points - self.points[parent]).sum(axis=1)
                order = np.argsort(apart, kind="stable")
                order = order[free[order]]
                place = int(order[rng.integer(0, min(around, len(order)) - 1)])
            free[place] = False
        return tuple(np.flatnonzero(~free).tolist())

    def pool_of(self, items: Sequence[int], seen: Seen = unseen) -> Pool:
        """Returns pages to vote for."""
        return Pool(
            points=self.points[list(items)],
            levels=np.zeros((len(items), 0), dtype=np.int64),
            sizes=(),
            weights=np.zeros(0),
        )

    def save(self, folder: Path, items: Sequence[int], claim: Claim) -> None:
        """Writes the pages with their images."""
        chosen_checkpoint.save(folder, [self.documents[place] for place in items], claim)


def distinct(documents: Sequence[LabelledDocument]) -> list[LabelledDocument]:
    """Returns one of all public documents that have the same words."""
    return duplicates.distinct(
        documents, texts=_texts, content=chosen_checkpoint.content, told=False
    )


def _texts(labelled: LabelledDocument) -> list[str]:
    return [word.text for page in labelled.document.pages for word in page.words]
