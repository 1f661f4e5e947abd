"""Evolution: private votes steer the generator of invented documents, round by round.

Private Evolution (Lin et al. 2024, arXiv 2305.15560) with a simulator (arXiv 2502.05505): a pool of
public documents is drawn from the present proposal, each private document votes for what resembles
it, noise is added to the sum, and the next proposal is computed from the noisy sum. What is
released is drawn from the last proposal, or chosen from the pools, so nothing of it was ever read
from a private document.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as packed

from hushdoc.arguments import counted
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, CheckpointError
from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc.system.progress import TaskProgress
from hushdoc_training import duplicates
from hushdoc_training.invented.specification import FACTORS, Specification
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS, Records
from hushdoc_training.privacy.votes import PrivateVotes
from hushdoc_training.private_view import PrivateView
from hushdoc_training.receipt import Receipt
from hushdoc_training.recipes.kie import identity
from hushdoc_training.recipes.synthesis import document_points
from hushdoc_training.recipes.synthesis import settings as settings_of
from hushdoc_training.recipes.synthesis.public_words import NO_WORDS, PublicWords
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.recipes.synthesis.simulators import (
    Generator,
    Item,
    Proposal,
    PublicPages,
    Simulator,
)
from hushdoc_training.runs import loop, state
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import READABLE, READING, SYNTHETIC_DOCUMENTS
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun
from hushdoc_training.runs.run_folder import SETTINGS
from hushdoc_training.synthesis import ballots, embedding, proposals
from hushdoc_training.synthesis.ballots import WORDS_SHARE, Pool

Floats = npt.NDArray[np.float64]

NORM = 1.0
"""Euclidean norm of a vote, at most."""

CONTRIBUTION = (
    "each document with all its pages is one record and casts one vote of Euclidean norm at most 1 "
    "in each round; a document that is handed over in memory without words, or with boxes that are "
    "not finite, casts the vector 0, and how many do is not released"
)
ASSUMES = (
    "how documents become points, the pools, the list of words if there is one, the weights of "
    "votes, the thresholds, the number of rounds and the size of the data set were chosen without "
    "looking at the documents",
    READABLE,
    "every protected document that comes from a file has a word, and boxes that are finite, and "
    "neighbouring data sets are of such documents alone: a run with another is refused, which is "
    "no noised output",
)
READ = {
    **READING,
    "reading of labelled documents: a run is refused where a document of a file has no word or a "
    "box that is not finite; it shows nothing else": "not-released",
}

_POOL, _RELEASED, _FITTED = range(3)

_GENERATED = ("labels", "document_types")
"""Settings of invented documents alone."""


def evolve(
    documents: Sequence[LabelledDocument],
    plan: PrivacyPlan,
    settings: EvolutionSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    resume: bool = False,
    quiet: bool = False,
    copies: str = "group",  # one of `duplicates.CHOICES`
    words: PublicWords = NO_WORDS,  # what else may be voted for
    public_pages: PublicPages | None = None,  # what is voted for, instead of invented pages
    public_overlap: str = "unknown",  # how far MiniLM, where it is read, saw protected documents
) -> Outcome:
    """Takes all rounds of private votes and writes `out/checkpoint`.

    A killed run is resumed: rounds that were charged and not saved are lost, and count as spent.

    Raises:
        AnnotationError: There is no document.
        CheckpointError: There is nothing to resume, or no round was saved and none is left.
        InputError: The ledger can't be read, or counts another unit or at another delta, or an
            image can't be read where images are looked at.
        MissingExtraError: MiniLM is looked at, and its package is not installed.
        OutputExistsError: The folder holds something.
        PrivacyError: The ledger has no room for the run, or its certificate would not be trusted.
        ValueError: The plan is not one of votes of whole documents.
    """
    if not documents:
        raise AnnotationError("There is no document to vote. Give a folder or file of documents.")
    require_votes(plan)
    simulator: Simulator[Any] = public_pages or Generator(settings=settings)
    simulator.require_fitting(documents)
    read_images = embedding.reads_images(settings.features)
    grouped = copies == "group"
    declared = _declared(name, settings, hyperparameter_tuning, words, simulator, grouped=grouped)
    read = document_points.public_data(settings.features, public_overlap)
    declared = replace(declared, public_data=(*declared.public_data, *read))
    terms = Terms(
        declared=declared,
        documents=identity.documents_digest(documents),
        title=f"evolution, in {out}",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    recipe = RecipeRun(
        out=out,
        plan=plan,
        terms=terms,
        settings={
            "mode": "evolution",
            "copies": copies,
            **asdict(settings),
            **({"images": identity.images_digest(documents)} if read_images else {}),
        },
        resume=resume,
        quiet=quiet,
    )
    recipe.announce()
    if (ended := recipe.ended()) is not None:
        return ended
    records = _points(documents, copies, words, settings.features)
    run = recipe.open()
    with state.locked(run.folder / SETTINGS):
        return _take_rounds(run, records, settings, words, simulator, quiet=quiet)


def require_votes(plan: PrivacyPlan) -> None:
    """Raises ValueError unless a plan is one of votes of whole documents."""
    if (plan.privacy_unit, plan.clipping_norm, plan.sampling_rate) != ("document", NORM, 1.0):
        raise ValueError(
            f"The plan has the unit '{plan.privacy_unit}', the norm {plan.clipping_norm:g} and the "
            f"sampling rate {plan.sampling_rate:g}; expected 'document', {NORM:g} and 1."
        )


def _declared(
    name: str,
    settings: EvolutionSettings,
    tuning: str,
    words: PublicWords,
    simulator: Simulator[Any],
    *,
    grouped: bool,
) -> Declared:
    """Returns what the claim will say besides what was executed."""
    return Declared(
        name=name,
        public_data=(*simulator.public_data, *words.data),
        training={
            "method": "private evolution with a simulator",
            "embedding": embedding.VERSION,
            **{name: value for name, value in asdict(settings).items() if name not in _GENERATED},
            **simulator.facts,
        },
        hyperparameter_tuning=tuning,
        accesses=claims.unaccounted(name, {**READ, **simulator.treatments}),
        assumes=(*ASSUMES, *simulator.assumes),
        releases=("synthetic-records",),
        contribution_bound=CONTRIBUTION,
        unit_definition=duplicates.defined(UNIT_DEFINITIONS["document"]) if grouped else None,
        caveats=(*((duplicates.CAVEAT,) if grouped else ()), *simulator.caveats),
        what=SYNTHETIC_DOCUMENTS,
    )


def _points(
    documents: Sequence[LabelledDocument], copies: str, words: PublicWords, features: str
) -> Records[Floats]:
    """Returns the point of every document and its words of the list; of copies, of one."""
    kept = list(documents)
    if copies == "group":
        kept = duplicates.distinct(
            kept,
            texts=lambda labelled: (
                word.text for page in labelled.document.pages for word in page.words
            ),
            content=partial(identity.content, images=embedding.reads_images(features)),
            told=False,
        )

    def point(document: Document) -> Floats:
        listed = ballots.presence(embedding.words_of(document), words.words)
        return np.concatenate([document_points.point(document, features), listed])

    return Records([[point(labelled.document)] for labelled in kept], unit="document")


def _take_rounds(
    run: PrivateRun,
    records: Records[Floats],
    settings: EvolutionSettings,
    words: PublicWords,
    simulator: Simulator[Item],
    *,
    quiet: bool,
) -> Outcome:
    charged, saved = taken(run)
    receipt = saved[max(saved)][1] if saved else None
    view = PrivateView()
    run.keep_reads_of(view)
    votes = PrivateVotes(
        run.plan, records, charge=run.charge, charged=charged, receipt=receipt, view=view
    )
    steering = Steering(simulator, settings, words, quiet=quiet)
    with state.interrupts() as interrupted:
        for number in range(1, run.plan.steps + 1):
            if number <= charged and number not in saved:
                continue  # charged, and lost in a kill
            items, pool = steering.pool(number)
            if number in saved:
                sums = saved[number][0]
            else:
                cast = ballots.ballot(settings.vote, pool, nearest=settings.nearest)
                size = ballots.size_of(settings.vote, pool)
                if words.words:
                    cast = ballots.with_words(cast, document_points.size(settings.features))
                sums = votes.sums(cast, size + len(words.words))
                save_sums(run.folder, number, sums, votes.receipt)
            steering.follow(items, pool, sums, votes.deviation, number)
            if interrupted():
                return Outcome(charged=votes.charged, interrupted=True)
    made = steering.release()
    claim = run.claim(votes.receipt)
    run.finish(lambda folder: simulator.save(folder, made, claim))
    return Outcome(charged=votes.charged, interrupted=False)


class Steering(Generic[Item]):
    """Follows the noisy sums, round by round; all of it is post-processing.

    Attributes:
        proposal: What they have led to.
    """

    def __init__(
        self,
        simulator: Simulator[Item],
        settings: EvolutionSettings,
        words: PublicWords = NO_WORDS,
        *,
        quiet: bool = True,
    ) -> None:
        """Begins with the proposal before anybody voted."""
        self.proposal, self._quiet = simulator.start(), quiet
        self._simulator, self._settings, self._words = simulator, settings, words
        self._sums: list[Floats] = []
        self._points: dict[Item, Floats] = {}
        self._goal: Floats = np.zeros(0)

    def pool(self, number: int) -> tuple[tuple[Item, ...], Pool]:
        """Returns the pages of a round."""
        task = f"page to vote for in round {number},"
        return self._drawn(task, self._settings.pool, number, _POOL)

    def follow(
        self, items: tuple[Item, ...], pool: Pool, sums: Floats, deviation: float, number: int
    ) -> None:
        """Makes the proposal anew from a round's noisy sum."""
        settings = self._settings
        if settings.vote != "moments":
            self.proposal = after(
                self.proposal, items, pool, sums, settings, deviation, self._words
            )
            return
        # All rounds measure the same, so pages are fitted to their mean: those that are voted for,
        # and further ones, which are drawn from what was found and cost nothing.
        self._sums.append(sums)
        mean = np.mean(self._sums, axis=0)
        deviation /= len(self._sums) ** 0.5
        for fit in range(settings.fits):
            if fit:
                task = f"page to fit to, {fit} of {settings.fits - 1},"
                items, pool = self._drawn(task, settings.pool, number, _FITTED, fit)
            self._points |= zip(items, pool.points, strict=True)
            every = replace(pool, points=np.array([*self._points.values()]))
            words = self.proposal.words
            self.proposal = after(
                self.proposal, (*self._points,), every, mean, settings, deviation, self._words
            )
            self._goal = self.proposal.shares @ every.points
            if self.proposal.words != words:
                self._points = {}  # pages that lack the words are not released

    def release(self) -> tuple[Item, ...]:
        """Returns the pages to be released."""
        settings = self._settings
        if settings.vote != "moments":
            count = settings.documents
            return self._simulator.drawn(self.proposal, count, settings.seed, 0, _RELEASED)
        items, pool = self._drawn("page to choose from,", settings.documents, 0, _RELEASED)
        self._points |= zip(items, pool.points, strict=True)
        every = (*self._points,)
        points = np.array([*self._points.values()])
        chosen = proposals.herded(self._goal, points, settings.documents)
        return tuple(every[place] for place in chosen)

    def _drawn(self, task: str, count: int, *key: int) -> tuple[tuple[Item, ...], Pool]:
        items = self._simulator.drawn(self.proposal, count, self._settings.seed, *key)
        with TaskProgress(task, quiet=self._quiet) as progress:
            return items, self._simulator.pool_of(items, progress.show)


def first_pool(settings: EvolutionSettings) -> tuple[Specification, ...]:
    """Returns the pages of the first round, which are the same whoever votes."""
    return Steering(Generator(settings=settings), settings).pool(1)[0]


def taken(run: PrivateRun) -> tuple[int, dict[int, tuple[Floats, Receipt]]]:
    """Returns how many rounds are charged, and the sums and receipts of those that were saved."""
    charged = run.read_charges()
    names = (path.stem for path in run.folder.glob("votes-*.safetensors"))
    numbers = sorted(int(name.removeprefix("votes-")) for name in names)
    last = max(numbers, default=0)
    loop.require_state(run.folder, run.plan.steps, charged=charged, restored=last)
    if charged > len(numbers):
        warnings.warn(
            f"Of {counted(charged, 'charged round')} {charged - len(numbers)} left nothing: a kill "
            "came before the votes were saved. All of them stay charged.",
            stacklevel=2,
        )
    return charged, {number: _saved(run.folder, number) for number in numbers}


def after(
    before: Proposal[Item],
    items: tuple[Item, ...],
    pool: Pool,
    sums: Floats,
    settings: EvolutionSettings,
    deviation: float,
    words: PublicWords = NO_WORDS,
) -> Proposal[Item]:
    """Returns the proposal that the noisy sum of a round's votes leads to."""
    rounds, said = before.rounds + 1, before.words
    if words.words:
        sums, of_words = np.split(sums, [-len(words.words)])
        root = np.sqrt(WORDS_SHARE)
        said = said | proposals.shares_of_words(
            of_words / root, words.words, deviation=deviation / root
        )
        sums, deviation = sums / np.sqrt(1 - WORDS_SHARE), deviation / np.sqrt(1 - WORDS_SHARE)
    if settings.vote == "factors":
        found = proposals.shares_of_values(sums, pool.sizes, pool.weights, deviation=deviation)
        weights = {name: odds.tolist() for name, odds in zip(FACTORS, found, strict=True)}
        for name, allowed in settings_of.prior(settings).items():
            weights[name] = [odd * known for odd, known in zip(weights[name], allowed, strict=True)]
        return Proposal(weights=weights, words=said, rounds=rounds)
    if settings.vote == "pages":
        shares = proposals.shares_of_pages(sums, deviation=deviation)
    else:
        shares = proposals.shares_fitted(sums, pool.points)
    return Proposal(weights=before.weights, parents=items, shares=shares, words=said, rounds=rounds)


def _file(folder: Path, number: int) -> Path:
    return folder / f"votes-{number:04d}.safetensors"


def save_sums(folder: Path, number: int, sums: Floats, receipt: Receipt) -> None:
    """Keeps a round's noisy sum, which is released, and the receipt of all up to it."""
    content: bytes = packed({"sums": sums}, metadata={"receipt": receipt.to_json().decode()})
    atomic_files.write_file(_file(folder, number), content)


def _saved(folder: Path, number: int) -> tuple[Floats, Receipt]:
    """Returns what `save_sums` kept of a round."""
    path = _file(folder, number)
    try:
        with safe_open(path, framework="np") as opened:
            metadata: dict[str, Any] = opened.metadata() or {}
            sums: Floats = opened.get_tensor("sums")
        return sums, Receipt.from_json(metadata["receipt"].encode())
    except (OSError, KeyError, SafetensorError) as error:
        raise CheckpointError(
            f"The saved votes '{path}' can't be read: {error}. Start a new run in another folder; "
            "what this one spent stays spent."
        ) from error
