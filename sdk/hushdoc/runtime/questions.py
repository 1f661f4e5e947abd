"""Questions about pages to model inputs; training and run time share this code.

The settings that shaped a model's training (`Asking`) are part of its artifact, so an application
asks it exactly as it was trained. A row is one question with one window of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hushdoc.arguments import short_repr
from hushdoc.document.limits import check_word
from hushdoc.document.page import BOX_SCALE, Page
from hushdoc.errors import InputError, LimitExceededError
from hushdoc.runtime import windows
from hushdoc.runtime.encoding import PIXELS, EncodedPage, Encoder, IntArray, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing, Pixels
from hushdoc.runtime.scoring import Scoring, settings_errors
from hushdoc.runtime.windows import Window

KINDS = ("pointer", "vt5")
PLACE = "{question}"
"""What a prompt has in the question's place."""

VT5_PROMPT = f"question: {PLACE}  context: "
"""The prompt of Tito et al. 2024, which is the one that T5 was trained with on questions."""

MAX_CHARACTERS = 10_000
"""Longest question that a tokenizer gets; one of `max_question` tokens is far shorter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How questions and words become inputs; part of the artifact's signed manifest.

    Attributes:
        kind: "pointer" for [CLS] window [SEP] and each question as [CLS] question [SEP], whose
            answer is a run of the window's words; "vt5" for prompt, window and end token, whose
            answer a decoder writes.
        prompt: For "vt5", the text with "{question}" that stands before the words; else empty.
        lowercase: Whether questions and words are made lower-case before they are encoded.
        lowercase_questions: The same of questions alone, of which T5's own weights read the case;
            None: as `lowercase` says.
        box_scale: What the boxes' largest coordinate is to the model: 1000, or 1 for weights of
            the reference implementation of VT5.
        box_level: "word" for each word's own box, "segment" for its segment's.
        word_order: "given" or "reading", as `Preprocessing` has it.
        max_tokens: Tokens in one row: window and special ones, and for "vt5" the question.
        overlap: Tokens that neighbouring windows share at run time.
        max_question: Most tokens of a question, its prompt included; a longer one is refused.
        max_answer: Most tokens of an answer.
        cls_id, sep_id: Token ids that open and close a pointer's windows and questions.
        eos_id: Token id that ends a row and an answer of "vt5".
        pad_id: Token id that fills a batch, and with which a decoder begins.
        scores: How scores are calibrated, and their threshold; None for raw scores.
        image: How a page's image becomes an input beside the words of "vt5"; None where none is
            read.
    """

    kind: str
    prompt: str = ""
    lowercase: bool = False
    lowercase_questions: bool | None = None
    box_scale: int = BOX_SCALE
    box_level: str = "word"
    word_order: str = "given"
    max_tokens: int = 512
    overlap: int = 64
    max_question: int = 128
    max_answer: int = 32
    cls_id: int | None = None
    sep_id: int | None = None
    eos_id: int | None = None
    pad_id: int
    scores: Scoring | None = None
    image: ImagePreprocessing | None = None

    def __post_init__(self) -> None:
        """Refuses settings that no row can satisfy."""
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}; expected one of {KINDS}.")
        points = self.kind == "pointer"
        special = (self.cls_id, self.sep_id) if points else (self.eos_id,)
        foreign = (self.eos_id,) if points else (self.cls_id, self.sep_id)
        if None in special or any(found is not None for found in foreign):
            raise ValueError(
                f"cls_id, sep_id and eos_id are {self.cls_id}, {self.sep_id} and {self.eos_id}; a "
                "pointer has the first two, VT5 the last one."
            )
        if self.prompt.count(PLACE) != (0 if points else 1) or (points and self.prompt):
            raise ValueError(
                f'prompt is {self.prompt!r}; expected a text with one "{PLACE}" for VT5, and none '
                "for a pointer."
            )
        if points and (self.image is not None or self.box_scale != BOX_SCALE):
            raise ValueError(
                f"An image or the box_scale {self.box_scale} is given; a pointer reads words and "
                f"boxes to {BOX_SCALE} alone."
            )
        if self.box_level == "none" or self.box_scale not in (1, BOX_SCALE):
            raise ValueError(
                f"box_level is {self.box_level!r} and box_scale {self.box_scale}; expected boxes "
                f"of words or segments, to 1 or {BOX_SCALE}."
            )
        if min(self.max_question, self.max_answer) < 1 or self.least_capacity < 1:
            raise ValueError(
                f"Rows of {self.max_tokens} tokens hold no window, beside a question of "
                f"{self.max_question} with VT5; answers have up to {self.max_answer}. Expected "
                "more tokens, or shorter questions."
            )
        self.of_pages  # noqa: B018  # refuses what no encoder takes

    @property
    def num_special(self) -> int:
        """How many special tokens a row holds."""
        return 2 if self.kind == "pointer" else 1

    @property
    def least_capacity(self) -> int:
        """How many word tokens a window holds, with VT5 beside the longest question."""
        beside = 0 if self.kind == "pointer" else self.max_question
        return self.max_tokens - beside - self.num_special

    @property
    def of_pages(self) -> Preprocessing:
        """How the words of pages are encoded, whatever is asked; fit for `laid_out`, `in_order`.

        A word of more tokens than a window holds beside the longest question is cut.
        """
        return Preprocessing(
            max_tokens=self.least_capacity + 2,
            overlap=self.overlap,
            box_level=self.box_level,
            word_order=self.word_order,
            cls_id=self.cls_id or 0,
            sep_id=self.sep_id or 0,
            pad_id=self.pad_id,
            image=self.image,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest; what is None has no key."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        parts = {name: data.pop(name) for name in ("scores", "image")}
        data |= {name: part.to_dict() for name, part in parts.items() if part is not None}
        return {name: value for name, value in data.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Asking:
        """Returns the settings in a manifest; ArtifactError where a key or type is wrong."""
        with settings_errors("The preprocessing contract"):
            for item in fields(cls):
                value = data.get(item.name)
                wanted = {"int": int, "str": str, "bool": bool}
                kind = wanted.get(str(item.type).removesuffix(" | None"))
                if value is None and (item.name not in data or "None" in str(item.type)):
                    continue
                if kind is not None and type(value) is not kind:
                    raise TypeError(f"{item.name} must be of the type {kind.__name__}")
            readers = {"scores": Scoring.from_dict, "image": ImagePreprocessing.from_dict}
            parts = {name: read(data[name]) for name, read in readers.items() if name in data}
            return cls(**{**data, **parts})


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QuestionRow:
    """One question with one window of a page: what a model reads at once.

    `question` has the shape [tokens]; [start, stop) are the window's tokens of the page.
    """

    question: IntArray
    page: EncodedPage
    start: int
    stop: int

    @property
    def num_tokens(self) -> int:
        """Tokens of question and window."""
        return len(self.question) + self.stop - self.start


AnyRow = TypeVar("AnyRow")


def by_window(rows: Iterable[AnyRow], asked: Callable[[AnyRow], QuestionRow]) -> list[list[AnyRow]]:
    """Returns rows of the same window together, in the order of their first; `asked` is theirs."""
    found: dict[tuple[int, int, int], list[AnyRow]] = {}
    for row in rows:
        one = asked(row)
        found.setdefault((id(one.page), one.start, one.stop), []).append(row)
    return list(found.values())


class QuestionEncoder:
    """A tokenizer with the settings of a model that answers questions; holds no state."""

    def __init__(self, tokenizer_json: str | bytes | Path, asking: Asking) -> None:
        """Reads a Hugging Face `tokenizer.json`: its content, or the path of the file."""
        self.asking = asking
        self._encoder = Encoder(tokenizer_json, asking.of_pages)

    def page(self, page: Page) -> EncodedPage:
        """Returns the page's tokens, which are the same for all questions."""
        lower = self.asking.lowercase
        return self._encoder.encode(page, [w.text.lower() for w in page.words] if lower else None)

    def question(self, text: str) -> IntArray:
        """Returns a question's tokens, shape [tokens], for "vt5" with the prompt around them.

        Raises:
            InputError: It is no text, blank, or not valid Unicode, or holds control characters.
            LimitExceededError: It has more than `max_question` tokens.
        """
        asking = self.asking
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"The question is {short_repr(text)}; expected a text that is not blank. Ask such "
                'as "What is the total?".'
            )
        if len(text) > MAX_CHARACTERS:
            raise self._too_long(f"{len(text)} characters")
        # Line ends and tabs part words, as spaces do.
        text = check_word(" ".join(text.split()), where="question")
        own = asking.lowercase_questions
        text = text.lower() if (asking.lowercase if own is None else own) else text
        if asking.prompt:
            text = asking.prompt.replace(PLACE, text)
        ids = self._encoder.text_ids(text)
        if not len(ids):
            raise InputError(
                f"The model's tokenizer knows no part of the question {short_repr(text)}. Ask in "
                "the script of the documents it was trained on."
            )
        if len(ids) > asking.max_question:
            raise self._too_long(f"{len(ids)} tokens")
        return ids

    def answer(self, text: str) -> IntArray:
        """Returns the tokens that a decoder learns to write, end token last, shape [tokens].

        A longer answer than `max_answer` tokens loses its last ones, and its end token.
        """
        text = text.lower() if self.asking.lowercase else text
        ids = self._encoder.text_ids(" ".join(text.split()))
        end = np.asarray([self.asking.eos_id], dtype=np.int64)
        return np.concatenate([ids, end])[: self.asking.max_answer]

    @property
    def num_tokens(self) -> int:
        """How many tokens the tokenizer knows."""
        return self._encoder.num_tokens

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens that a decoder wrote, without special ones."""
        return self._encoder.text(ids)

    def windows(self, pages: Sequence[EncodedPage], question: IntArray) -> list[Window]:
        """Returns windows that cover all pages, with VT5 beside a question's tokens.

        See `windows.split`. A pointer's are the same for all questions.
        """
        asking = self.asking
        beside = 0 if asking.kind == "pointer" else len(question)
        capacity = asking.max_tokens - beside - asking.num_special
        return windows.cover(pages, capacity=capacity, overlap=asking.overlap)

    def first_token(self, row: QuestionRow) -> int:
        """Returns where the window's tokens begin in a row."""
        return 1 if self.asking.kind == "pointer" else len(row.question)

    def batch(
        self, rows: Sequence[QuestionRow], *, pixel_values: Sequence[Pixels] | None = None
    ) -> dict[str, IntArray | Pixels]:
        """Returns rows as VT5's padded inputs by their names: prompt, window and end token.

        They are int64 of shape [batch, sequence], boxes [batch, sequence, 4]. The image of each
        row's page, where the model reads it, makes [batch, 3, height, width].
        """
        asking = self.asking
        longest = max((row.num_tokens for row in rows), default=0) + asking.num_special
        input_ids = np.full((len(rows), longest), asking.pad_id, dtype=np.int64)
        bbox = np.zeros((len(rows), longest, 4), dtype=np.int64)
        mask = np.zeros((len(rows), longest), dtype=np.int64)
        for number, row in enumerate(rows):
            first = self.first_token(row)
            end = first + row.stop - row.start
            input_ids[number, :first] = row.question
            input_ids[number, first:end] = row.page.ids[row.start : row.stop]
            input_ids[number, [end]] = np.asarray([asking.eos_id])
            bbox[number, :first] = (0, 0, BOX_SCALE, BOX_SCALE)
            words = row.page.boxes[row.start : row.stop]
            bbox[number, first:end] = words * asking.box_scale // BOX_SCALE
            mask[number, : end + 1] = 1
        inputs: dict[str, IntArray | Pixels] = {
            "input_ids": input_ids,
            "bbox": bbox,
            "attention_mask": mask,
        }
        return inputs if pixel_values is None else {**inputs, PIXELS: np.stack(pixel_values)}

    def pointed(self, windows: Sequence[Sequence[QuestionRow]]) -> dict[str, IntArray | Pixels]:
        """Returns windows with their questions as a pointer's padded inputs by their names.

        The rows of each have one window in common. Windows are int64 of shape [batch, sequence],
        their boxes [batch, sequence, 4], questions and their mask [batch, questions, length]. Where
        a window has fewer questions than another, the first token alone stands in their place.
        """
        asking = self.asking
        inputs = self._encoder.batch(
            [(rows[0].page, rows[0].start, rows[0].stop) for rows in windows]
        )
        longest = max((len(row.question) for rows in windows for row in rows), default=0)
        shape = (len(windows), max(map(len, windows), default=0), longest + 2)
        ids = np.full(shape, asking.pad_id, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        special = np.asarray([asking.cls_id, asking.sep_id])
        ids[..., 0], mask[..., 0] = special[0], 1
        for number, rows in enumerate(windows):
            for place, row in enumerate(rows):
                end = len(row.question) + 1
                ids[number, place, 1:end] = row.question
                ids[number, place, end] = special[1]
                mask[number, place, : end + 1] = 1
        return {**inputs, "question_ids": ids, "question_mask": mask}

    def _too_long(self, found: str) -> LimitExceededError:
        return LimitExceededError(
            f"The question has {found}; this model reads {self.asking.max_question} tokens of one, "
            "and none is cut. Ask in fewer words."
        )
