"""Questions about documents: a document and a question in, an answer with its place out.

A model is built only from an artifact that passed every check, and holds no state between
calls: many threads may share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Literal, Self

from hushdoc import arguments
from hushdoc.artifact.artifact import Artifact
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import InputError
from hushdoc.runtime import images, matching, pointing, windows, writing
from hushdoc.runtime.answers import Answer, Answers, Candidate, Reading
from hushdoc.runtime.asynchronous import in_thread
from hushdoc.runtime.encoding import IntArray, in_order, laid_out
from hushdoc.runtime.extraction import Failure, StageClock
from hushdoc.runtime.graph_batches import open_graph, output_width
from hushdoc.runtime.model import Model, require_class, require_pages
from hushdoc.runtime.pointing import Pointer
from hushdoc.runtime.questions import QuestionEncoder, QuestionRow
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime
from hushdoc.runtime.streaming import Item, answers, document_of, opener
from hushdoc.runtime.writing import Writer
from hushdoc.viewing.rendition import require_pillow

TASK = "docvqa"

OWN_SCORES = (
    "Scores are the model's own: its calibration was measured on answers in words of the page, one "
    "to a question (top_k=1), and holds for no others. The threshold is applied all the same."
)
"""The warning where a model that writes answers is asked otherwise than its calibration was."""

SPARE = 4
"""Candidates of a pointer's window for each that is wanted, as equal texts count once."""


class DocVQAModel(Model):
    """A verified model that answers questions about documents.

    Attributes:
        certificate: What its signer certifies about its privacy.
        asking: How questions and words become its inputs.
    """

    def __init__(
        self,
        *,
        certificate: Certificate,
        encoder: QuestionEncoder,
        reader: Pointer | Writer,
        device: str,
    ) -> None:
        """Keeps the checked parts; use `load`."""
        self.certificate = certificate
        self.asking = encoder.asking
        self.device = device
        self._encoder = encoder
        self._reader = reader

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""
        require_class(artifact.certificate.model, "DocVQAModel")
        asking = writing.asking_of(artifact.manifest)
        if asking.image is not None:
            require_pillow()
        encoder = QuestionEncoder(artifact.read("tokenizer.json"), asking)
        reader: Pointer | Writer
        if asking.kind == "pointer":
            session = open_graph(artifact, pointing.INPUTS, device=device, runtime=runtime)
            output_width(session, ("batch", "sequence", "questions"), width=2, what="a pointer")
            reader = Pointer(encoder, session)
        else:
            graphs = writing.open_graphs(artifact, asking, device=device, runtime=runtime)
            reader = Writer(encoder, graphs)
        certificate = artifact.certificate
        return cls(certificate=certificate, encoder=encoder, reader=reader, device=device)

    @property
    def scoring(self) -> Scoring | None:
        """How scores are calibrated, and their threshold; None for raw scores."""
        return self.asking.scores

    @property
    def writes(self) -> bool:
        """Whether it writes its answers, or points at words of the page."""
        return self.asking.kind != "pointer"

    def _extent(self) -> str:
        return f"answers of up to {self.asking.max_answer} tokens"

    def ask(
        self, document: Item, question: str, *, top_k: int = 1, grounded: bool = True
    ) -> Answers:
        """Returns the answer to a question; pages longer than a window are read in several.

        Args:
            document: A document, the path of a file that `hushdoc.open_document` reads, or a
                function that returns a document, such as `partial(open_document, content)`. Where
                the model reads images, each page with words needs one.
            question: In the language of the documents that the model was trained on.
            top_k: How many candidates are returned, best first. A model that writes its answers
                follows as many at once.
            grounded: Whether a model that writes its answers may write words of the page alone.
                Otherwise it writes what it likes, and `evidence` says whether that stands on the
                page.

        Raises:
            EmptyDocumentError: The document has no page or no word.
            BoxError: A box is NaN, swapped or off its page.
            InputError: It is no document, a page has no area, a word can't be used, a page has no
                image (NO_IMAGE) and the model reads it, the question is no text, blank, or holds
                control characters, or a pointer is asked to write freely. A path raises what
                `hushdoc.open_document` does.
            TaskMismatchError: The document is a plain text, and the model reads pages.
            LimitExceededError: The question has more tokens than the model reads, or the runtime's
                memory limit is too small for one window.
            ModelClosedError: The model was closed.
        """
        return self.ask_all(document, [question], top_k=top_k, grounded=grounded)[0]

    def ask_all(
        self,
        document: Item,
        questions: Iterable[str],
        *,
        top_k: int = 1,
        grounded: bool = True,
    ) -> tuple[Answers, ...]:
        """Returns the answer to each question, in their order.

        Each page is encoded, and its image drawn and encoded, once for all questions.

        Args:
            document: As for `ask`.
            questions: Several questions about the same document.
            top_k: As for `ask`.
            grounded: As for `ask`.

        Raises:
            HushdocError: As `ask` raises it; a question is refused before the document is opened.
        """
        used = self._in_use()
        used._require_askable(top_k, grounded)
        asked = list(arguments.each(questions, what="The questions", of="texts"))
        tokens = [used._encoder.question(question) for question in asked]
        together = list(zip(asked, tokens, strict=True))
        return used._ask(document_of(document), together, top_k, grounded=grounded)

    def _require_askable(self, top_k: int, grounded: bool) -> None:
        """Raises InputError where the model can't answer so."""
        arguments.integer(top_k, what="top_k")
        if not grounded and not self.writes:
            raise InputError(
                "The model points at words of the page and writes none, so it can't speak freely. "
                "Ask it without grounded=False (--free)."
            )

    def _ask(
        self,
        document: Document,
        asked: Sequence[tuple[str, IntArray]],
        top_k: int,
        *,
        grounded: bool,
    ) -> tuple[Answers, ...]:
        """Returns the answers to questions, each with its tokens."""
        require_pages(document, reads="words and their boxes")
        document.check()
        clock = StageClock()
        settings = self.asking.of_pages
        document, notes = laid_out(document, settings)
        document, numbers = in_order(document, settings)
        pages = [self._encoder.page(page) for page in document.pages]
        rows = [
            {
                QuestionRow(
                    question=tokens, page=pages[part.page], start=part.start, stop=part.stop
                ): part.page
                for part in self._encoder.windows(pages, tokens)
            }
            for _, tokens in asked
        ]
        clock.count("encoding")
        every = {row: number for some in rows for row, number in some.items()}
        readings = self._readings(document, every, top_k, clock, grounded=grounded)
        measured = not self.writes or (grounded and top_k == 1)
        found = [
            self._judged(
                document,
                numbers,
                [(number, readings[row]) for row, number in some.items()],
                measured=measured,
            )
            for some in rows
        ]
        lost = windows.losses(pages, capacity=settings.capacity, numbers=numbers)
        own = () if measured or self.scoring is None else (OWN_SCORES,)
        warnings = (*lost, *notes, *own)
        timings = clock.timings()
        return tuple(
            Answers(
                document_id=document.id,
                question=question,
                best=best,
                candidates=candidates[:top_k],
                coverage=windows.coverage(pages),
                warnings=(*warnings, *self._told_of(cut, candidates[:top_k])),
                timings=timings,
                source=document.source,
                calibrated_on=calibrated_on,
            )
            for (question, _), (best, candidates, cut, calibrated_on) in zip(
                asked, found, strict=True
            )
        )

    def _readings(
        self,
        document: Document,
        rows: Mapping[QuestionRow, int],
        top_k: int,
        clock: StageClock,
        *,
        grounded: bool,
    ) -> dict[QuestionRow, Reading]:
        """Returns what rows of pages are answered with; drawing images counts as encoding."""
        reader, image = self._reader, self.asking.image
        readings: dict[QuestionRow, Reading] = {}
        if isinstance(reader, Pointer):
            readings = reader.read(list(rows), count=SPARE * top_k)
        elif image is None:
            readings = reader.read(list(rows), count=top_k, grounded=grounded)
        else:
            from hushdoc.reading.drawing import kept_open

            page_of = rows.__getitem__
            with kept_open() as draw:
                for number, own in groupby(sorted(rows, key=page_of), key=page_of):
                    pixels = images.pixels_of_page(document, number, image, draw)
                    clock.count("encoding")
                    readings |= reader.read(
                        list(own), count=top_k, grounded=grounded, pixels=pixels
                    )
                    clock.count("model")
        clock.count("model")
        return readings

    def _judged(
        self,
        document: Document,
        numbers: Sequence[Sequence[int]],
        readings: Sequence[tuple[int, Reading]],
        *,
        measured: bool,
    ) -> tuple[Answer, tuple[Answer, ...], set[str], str | None]:
        """Returns the answer of all windows, its candidates, best first, and which texts were cut.

        The last part is what scores were calibrated on. Of equal texts the larger score counts.
        There is no answer where none is likelier in every window than the best, or where the best
        does not reach the threshold. Scores are calibrated where an answer is the likeliest and
        `measured`, one of a kind that a calibration asks for; the threshold holds for all.
        """
        null = min((reading.null_score for _, reading in readings), default=1.0)
        found: dict[str, tuple[Answer, bool]] = {}
        for number, reading in readings:
            for candidate in reading.candidates:
                item = _placed(candidate, document.pages[number], number, numbers[number], null)
                text = str(item.text)
                if text not in found or found[text][0].score < item.score:
                    found[text] = item, candidate.ended
        cut = {text for text, (_, ended) in found.items() if not ended}
        ordered = sorted((item for item, _ in found.values()), key=lambda item: -item.score)
        if not ordered:
            return Answer(text=None, score=0.0, null_score=null), (), cut, None
        raw, scoring, calibrated_on = [item.score for item in ordered], self.scoring, None
        is_answer = raw[0] >= null
        if scoring is not None and is_answer:
            is_answer = scoring.accepts(scoring.calibrate(raw[0]))
            if measured:
                scores = scoring.ranked(raw, left=1 - raw[0])
                ordered = [replace(one, score=s) for one, s in zip(ordered, scores, strict=True)]
                calibrated_on = scoring.fitted_on
        best = ordered[0]
        if not is_answer:
            best = Answer(text=None, score=best.score, null_score=null)
        return best, tuple(ordered), cut, calibrated_on

    def _told_of(self, cut: set[str], candidates: Sequence[Answer]) -> Iterator[str]:
        """Yields a warning for each candidate that was cut."""
        for number, item in enumerate(candidates, start=1):
            if item.text in cut:
                yield (
                    f"Candidate {number} had no end within {self.asking.max_answer} tokens and was "
                    "cut there."
                )

    async def aask(
        self, document: Item, question: str, *, top_k: int = 1, grounded: bool = True
    ) -> Answers:
        """Returns what `ask` does, while the event loop goes on, as `KIEModel.aextract` does.

        Args:
            document: As for `ask`.
            question: As for `ask`.
            top_k: As for `ask`.
            grounded: As for `ask`.

        Raises:
            HushdocError: As `ask` raises it.
        """
        used = self._in_use()
        return await in_thread(
            partial(used.ask, document, question, top_k=top_k, grounded=grounded)
        )

    def ask_many(
        self,
        documents: Iterable[Item],
        question: str,
        *,
        top_k: int = 1,
        grounded: bool = True,
        workers: int = 1,
        on_error: Literal["raise", "collect"] = "raise",
        progress: bool = False,
        reader: str = "here",
    ) -> Iterator[Answers | Failure]:
        """Yields the answer of each document, in their order, as soon as it is known.

        Args:
            documents: Documents, paths of files, or functions that return a document; taken a few
                at a time, so a generator streams.
            question: Asked of each; one that can't be read raises before any document is taken.
            top_k: As for `ask`.
            grounded: As for `ask`.
            workers: How many documents are read at once, each by a thread of its own.
            on_error: "raise" stops at the first document that can't be read; "collect" yields a
                Failure in its place and goes on.
            progress: Whether to report progress on standard error.
            reader: Where files given by their paths are read: "here", or in a "process" of their
                own, one for each worker, within the time and memory of `ReadingLimits`.
        """
        used = self._in_use()
        used._require_askable(top_k, grounded)
        used._encoder.question(question)
        return answers(
            documents,
            partial(used.ask, question=question, top_k=top_k, grounded=grounded),
            workers=workers,
            on_error=on_error,
            progress=progress,
            opened=opener(reader),
        )


def _placed(
    candidate: Candidate, page: Page, number: int, ids: Sequence[int], null_score: float
) -> Answer:
    """Returns a candidate of a page with its words and boxes; `ids` are the caller's numbers.

    What was written freely has the words that are most like it, if any are.
    """
    words: range | None = candidate.words
    if candidate.text is not None:
        words = matching.most_alike(candidate.text, [word.text for word in page.words])
    if words is None:
        return Answer(text=candidate.text, score=candidate.score, null_score=null_score)
    placed = [page.words[index] for index in words]
    return Answer(
        text=" ".join(word.text for word in placed) if candidate.text is None else candidate.text,
        score=candidate.score,
        page=number,
        word_ids=tuple(ids[index] for index in words),
        boxes=tuple(word.box for word in placed),
        normalized=tuple(
            word.box.normalized(width=page.width, height=page.height) for word in placed
        ),
        null_score=null_score,
        evidence="words" if candidate.text is None else "matched",
    )
