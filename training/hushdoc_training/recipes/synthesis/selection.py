"""Selection: private votes choose, for each class, public page images that are like its pages.

Private Evolution with a simulator (arXiv 2502.05505) for images: the simulator is public pages, of
whatever kinds, and slightly moved copies of them. Each private document votes with its own point in
the cells of its class; noise is added to the sum once, and pages are taken whose mean point is near
the noisy mean of a class. So a classifier can learn from them what tells the classes apart, though
they are pages of other kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from hushdoc import arguments
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import AnnotationError, EmptyDocumentError
from hushdoc.synthetic_documents import MOVED
from hushdoc.system import atomic_files
from hushdoc.system.progress import TaskProgress
from hushdoc.viewing.rendition import as_png
from hushdoc_training import drawn_checkpoint, duplicates
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.votes import PrivateVotes
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.synthesis import evolution, page_squares, public_images
from hushdoc_training.recipes.synthesis.settings import require_within
from hushdoc_training.runs import state
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import READABLE, READING, SYNTHETIC_DOCUMENTS
from hushdoc_training.runs.document_units import SAME_IMAGES
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun
from hushdoc_training.runs.run_folder import SETTINGS
from hushdoc_training.synthesis import page_points, proposals
from hushdoc_training.synthesis.page_points import CELLS, PagePoints

Floats = npt.NDArray[np.float64]
Key = tuple[int, int, int]
"""Of a released page: seed, number of the public page, and of its copy."""

CONTRIBUTION = (
    "all documents with the same images are one record and cast one vote of Euclidean norm at most "
    "1 in each round: the mean of the points of its pages, in the cells of its class, and a count "
    "of the class; a document without pages, or of a class that was not declared, casts the vector "
    "0, and how many do is not released"
)
ASSUMES = (
    "the classes, how pages become points, the public pages, the number of rounds and the size of "
    "the data set were chosen without looking at the documents",
)
COUNTED = 0.1
"""Share of a vote's squared norm that counts its class; the point has the rest."""

FEWEST = 0.1
"""Least count of a class, as a share of equal ones: noise can take more away than there is."""

_DRAWN, _SIDE = "drawn", 64
MOST_COPIES, MOST_SIDE = 64, 1024


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """What is chosen: public constants, chosen without looking at the protected documents.

    Attributes:
        classes: Names of the classes, declared public.
        pages: How many pages are released, as many of each class.
        copies: How many moved copies of each public page may be chosen besides.
        side: Of a released page in pixels, a multiple of CELLS.
        seed: Keys how copies are moved; noise has no seed.
    """

    classes: tuple[str, ...]
    pages: int = 1000
    copies: int = 4
    side: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where a setting is out of range."""
        least = max(1, len(self.classes))
        require_within(self, pages=(least, drawn_checkpoint.MOST_PAGES), copies=(0, MOST_COPIES))
        require_within(self, side=(CELLS, MOST_SIDE), seed=(0, 2**31 - 1))
        if self.side % CELLS:
            raise ValueError(f"side is {self.side}; expected a multiple of {CELLS}.")
        if not self.classes or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"classes are {self.classes}; expected some, and no name twice.")
        for name in self.classes:
            arguments.text(name, what="a class")


@dataclass(frozen=True, kw_only=True)
class PublicImages:
    """Public pages to choose among.

    Attributes:
        documents: Of any class.
        name: What a certificate calls them.
        overlap: How far they may hold protected documents, one of `claim.OVERLAPS`.
        privacy_status: Why they are public.
        invented: Whether they were invented for this run, so that none can be a protected one; else
            a run is refused where the file of one is.
    """

    documents: Sequence[ImageDocument]
    name: str
    overlap: str
    privacy_status: str = "declared public by the trainer"
    invented: bool = False

    @property
    def data(self) -> PublicData:
        """What a claim says of them."""
        return PublicData(
            name=self.name,
            uses=("pages that documents vote for", "released pages"),
            digest=f"sha256:{page_squares.digest(self.documents)}",
            privacy_status=self.privacy_status,
            overlap_with_protected=self.overlap,
        )


def select(
    documents: Sequence[ImageDocument],
    public: PublicImages,
    plan: PrivacyPlan,
    settings: SelectionSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Takes all rounds of private votes and writes `out/checkpoint`.

    Raises:
        AnnotationError: An image can't be read, or there are fewer public pages and copies than are
            to be released.
        CheckpointError: There is nothing to resume, or no round was saved and none is left.
        EmptyDocumentError: There is no document.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        OutputExistsError: The folder holds something.
        PrivacyError: The ledger has no room for the run, its certificate would not be trusted, or a
            public page is a protected one.
        ValueError: The plan is not one of votes of whole documents.
    """
    evolution.require_votes(plan)
    if not documents:
        raise EmptyDocumentError("There is no document to vote. Check the data path.")
    if not public.invented:
        public_images.require_apart(public_images.files_of(public.documents), documents)
    candidates = Candidates(public, settings, quiet=quiet)
    declared = Declared(
        name=name,
        public_data=(public.data,),
        training={
            "method": "selection of public pages by private votes",
            "points": page_points.VERSION,
            "public_documents": len(public.documents),
            **asdict(settings),
        },
        hyperparameter_tuning=hyperparameter_tuning,
        accesses=claims.unaccounted(
            name, READING | ({} if public.invented else public_images.TREATMENTS)
        ),
        assumes=(*ASSUMES, READABLE, *(() if public.invented else public_images.ASSUMES)),
        releases=("synthetic-records",),
        contribution_bound=CONTRIBUTION,
        unit_definition=SAME_IMAGES,
        caveats=(
            duplicates.IMAGES_CAVEAT,
            *(() if public.invented else (public_images.NOT_AMONG_THEM,)),
        ),
        what=SYNTHETIC_DOCUMENTS,
    )
    terms = Terms(
        declared=declared,
        documents=page_squares.digest(documents),
        title=f"selection, in {out}",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    recipe = RecipeRun(
        out=out,
        plan=plan,
        terms=terms,
        settings={
            "mode": "selection",
            **asdict(settings),
            "public": public.data.digest,
            "points": candidates.digest,  # on another processor, directions may turn
            "claim": terms.digest(plan),
            "documents": terms.documents,
        },
        resume=resume,
        quiet=quiet,
    )
    recipe.announce()
    if (ended := recipe.ended()) is not None:
        return ended
    records = Records([[vote] for vote in candidates.votes_of(documents)], unit="document")
    run = recipe.open()
    with state.locked(run.folder / SETTINGS):
        return _take_rounds(run, records, candidates, settings, declared.training)


def _take_rounds(
    run: PrivateRun,
    records: Records[Floats],
    candidates: Candidates,
    settings: SelectionSettings,
    declared: Mapping[str, Any],
) -> Outcome:
    charged, taken = evolution.taken(run)
    view = PrivateView()
    run.keep_reads_of(view)
    receipt = taken[max(taken)][1] if taken else None
    votes = PrivateVotes(
        run.plan, records, charge=run.charge, charged=charged, receipt=receipt, view=view
    )
    sums = [found for found, _ in taken.values()]
    with state.interrupts() as interrupted:
        for number in range(charged + 1, run.plan.steps + 1):
            sums.append(votes.sums(lambda vote: vote, candidates.cells))
            evolution.save_sums(run.folder, number, sums[-1], votes.receipt)
            if interrupted():
                return Outcome(charged=votes.charged, interrupted=True)
    mean = np.mean(sums, axis=0)
    chosen = candidates.chosen(mean)
    claim = run.claim(
        votes.receipt,
        training={**declared, **class_counts(mean, votes.deviation, len(sums), run.plan, settings)},
    )
    run.finish(lambda folder: candidates.save(folder, chosen, claim))
    return Outcome(charged=votes.charged, interrupted=False)


class Candidates:
    """Public pages and moved copies of them, as squares, as points and as files.

    Attributes:
        cells: How many numbers a vote has: for each class a count and a point.
        digest: Of all points, rounded.
    """

    def __init__(self, public: PublicImages, settings: SelectionSettings, *, quiet: bool) -> None:
        """Reads every public page once; an AnnotationError says where there are too few."""
        self._documents, self._settings = public.documents, settings
        with TaskProgress("public page", quiet=quiet) as progress:
            squares = _squares(public.documents, _SIDE, progress)
        every = [square for own in squares for square in own]
        if len(every) * (1 + settings.copies) < settings.pages:
            raise AnnotationError(
                f"There are {len(every)} public pages with {settings.copies} copies each; "
                f"{settings.pages} are to be released. Give more pages, or ask for fewer."
            )
        self._places = [
            (at, copy) for at in range(len(every)) for copy in range(settings.copies + 1)
        ]
        pool = np.stack([_moved(every[at], (settings.seed, at, copy)) for at, copy in self._places])
        self._points_of = PagePoints.fitted(pool)
        self._points = self._points_of(pool)
        rounded = np.round(self._points, 3) + 0.0
        self.digest = hashlib.sha256(rounded.tobytes()).hexdigest()
        self.cells = len(settings.classes) * (1 + self._points_of.size)

    def votes_of(self, documents: Sequence[ImageDocument]) -> list[Floats]:
        """Returns the vote of each document; of all with the same images one votes."""
        with TaskProgress("document", quiet=True) as progress:
            kept = page_squares.distinct(documents)
            return [
                self._vote(one.label, own)
                for one, own in zip(kept, _squares(kept, _SIDE, progress), strict=True)
            ]

    def _vote(self, label: str, pages: Sequence[page_points.Squares]) -> Floats:
        vote = np.zeros((len(self._settings.classes), 1 + self._points_of.size))
        if pages and label in self._settings.classes:
            point = self._points_of(np.stack(pages)).mean(axis=0)
            place = self._settings.classes.index(label)
            vote[place] = [np.sqrt(COUNTED), *(np.sqrt(1 - COUNTED) * point)]
        return vote.ravel()

    def chosen(self, sums: Floats) -> list[tuple[str, int]]:
        """Returns class and place of each page to release, by turns; none is of two classes."""
        classes = self._settings.classes
        goals = means_of(sums, len(classes))
        free = np.arange(len(self._points))
        each: list[list[int]] = []
        for number, goal in enumerate(goals):
            count = len(range(number, self._settings.pages, len(classes)))
            taken = proposals.herded(goal, self._points[free], count)
            each.append(free[taken].tolist())
            free = np.delete(free, taken)
        return [
            (classes[number % len(classes)], each[number % len(classes)][number // len(classes)])
            for number in range(self._settings.pages)
        ]

    def save(self, folder: Path, chosen: Sequence[tuple[str, int]], claim: Claim) -> None:
        """Writes the pages, beside the checkpoint that it writes of them."""
        images = folder.parent / _DRAWN
        images.mkdir(exist_ok=True)
        every = pages_of(self._documents)
        prompts = []
        for number, (label, place) in enumerate(chosen):
            at, copy = self._places[place]
            shades = moved_page(*every[at], self._settings.side, (self._settings.seed, at, copy))
            content = as_png(Image.fromarray(shades))
            atomic_files.write_file(drawn_checkpoint.image_path(images, number), content)
            prompts.append({"label": label, "page": at, "copy": copy})
        drawn_checkpoint.save(folder, method=MOVED, prompts=prompts, images=images, claim=claim)


def pages_of(documents: Sequence[ImageDocument]) -> list[tuple[ImageDocument, int]]:
    """Returns each page of public documents, in the order that a specification counts them in."""
    return [(one, place) for one in documents for place in range(len(one.pages))]


def moved_page(document: ImageDocument, place: int, side: int, key: Key) -> npt.NDArray[np.uint8]:
    """Returns a page as it is released: in shades of gray, moved as seed, page and copy say."""
    with TaskProgress("page", quiet=True) as progress:
        ((square,),) = _squares(
            [replace(document, pages=document.pages[place:][:1])], side, progress
        )
    return np.round((_moved(square, key) + 1) * 127.5).astype(np.uint8)


def class_counts(
    sums: Floats, deviation: float, rounds: int, plan: PrivacyPlan, settings: SelectionSettings
) -> dict[str, Any]:
    """Returns about how many documents each class has, by the noisy sum, and the noise in it."""
    unit = plan.expected_records / np.sqrt(COUNTED)
    found = sums.reshape(len(settings.classes), -1)[:, 0] * unit
    counts = (np.round(found, 1) + 0.0).tolist()  # no -0.0
    return {
        "noisy_class_counts": dict(zip(settings.classes, counts, strict=True)),
        "class_count_deviation": round(float(deviation * unit / np.sqrt(rounds)), 1),
    }


def means_of(sums: Floats, classes: int) -> Floats:
    """Returns the mean point of each class, shape [classes, D], of the noisy sum over the divisor.

    The sum is divided by the noisy count, which is at least FEWEST of an equal share.
    """
    found = sums.reshape(classes, -1)
    counts = np.maximum(found[:, :1] / np.sqrt(COUNTED), FEWEST / classes)
    return found[:, 1:] / np.sqrt(1 - COUNTED) / counts


def _moved(square: page_points.Squares, key: Key) -> page_points.Squares:
    """Returns a public square as a copy of it; copy 0 is the page itself."""
    return page_points.varied(square, np.random.default_rng(key)) if key[-1] else square


def _squares(
    documents: Sequence[ImageDocument], side: int, progress: TaskProgress
) -> list[list[page_points.Squares]]:
    found = page_squares.squares_of(documents, side, classes={}, layout=False, seen=progress.show)
    return [[square.shades for square in own] for own in found]
