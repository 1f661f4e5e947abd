"""Words to model inputs: tokens, boxes and masks; training and run time share this code.

The settings that shaped a model's training (`Preprocessing`) travel in its artifact, so an
application feeds it exactly what it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document import BOX_SCALE, Document, Page
from hushdoc.errors import ArtifactError, InputError, MissingExtraError
from hushdoc.runtime.scoring import Scoring

IntArray = npt.NDArray[np.int64]

PIECE_CHARACTERS = 1 << 16
"""Longest plain text that the tokenizer gets at once."""

BOX_LEVELS = ("word", "segment")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """How words become inputs; part of the artifact's signed manifest.

    Attributes:
        max_tokens: Tokens in one window, the two special ones included.
        overlap: Tokens that neighbouring windows share at run time.
        box_level: "word" for each word's own box, "segment" for its segment's; then a segment
            holds one field of a label at most, and tags are decoded accordingly.
        cls_id: Token id that opens a window.
        sep_id: Token id that closes it.
        pad_id: Token id that fills a batch.
        scores: How scores are calibrated and when the model abstains; None for raw scores.
    """

    max_tokens: int = 128
    overlap: int = 32
    box_level: str = "word"
    cls_id: int
    sep_id: int
    pad_id: int
    scores: Scoring | None = None

    def __post_init__(self) -> None:
        """Refuses settings no window can satisfy."""
        if self.box_level not in BOX_LEVELS:
            raise ValueError(f"box_level is '{self.box_level}'; expected one of {BOX_LEVELS}.")
        if self.max_tokens < 3 or not 0 <= self.overlap < self.max_tokens - 2:
            raise ValueError(
                f"Windows of {self.max_tokens} tokens with an overlap of {self.overlap} can't "
                "advance; expected max_tokens >= 3 and 0 <= overlap < max_tokens - 2."
            )

    @property
    def capacity(self) -> int:
        """How many word tokens one window holds."""
        return self.max_tokens - 2

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest; without calibration there is no key for it."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        scores = data.pop("scores")
        return data if scores is None else {**data, "scores": scores.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocessing:
        """Returns the settings a manifest holds.

        Raises:
            ArtifactError: A key is unknown, missing or of the wrong type.
        """
        try:
            numbers = ("max_tokens", "overlap", "cls_id", "sep_id", "pad_id")
            if any(type(data[name]) is not int for name in numbers):
                raise TypeError(f"{', '.join(numbers)} must be integers")
            told = data.get("scores")
            scores = None if told is None else Scoring.from_dict(told)
            return cls(**{**data, "scores": scores})
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"The preprocessing contract can't be read: {error}. Export the artifact again "
                "with this version of hushdoc."
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedPage:
    """The tokens of one page.

    Attributes:
        ids: Token ids, shape [tokens].
        boxes: (x0, y0, x1, y1) from 0 to 1000, shape [tokens, 4].
        words: The word each token belongs to, shape [tokens].
        first: Whether a token is the first of its word, shape [tokens].
        num_words: How many words the page has.
        cut_words: Words longer than a whole window, whose last tokens were left out.
    """

    ids: IntArray
    boxes: IntArray
    words: IntArray
    first: npt.NDArray[np.bool_]
    num_words: int
    cut_words: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Windows padded to one length; every array is int64.

    Attributes:
        input_ids: Shape [batch, sequence].
        bbox: Shape [batch, sequence, 4].
        attention_mask: Shape [batch, sequence].
    """

    input_ids: IntArray
    bbox: IntArray
    attention_mask: IntArray

    def to_inputs(self) -> dict[str, IntArray]:
        """Returns the arrays under the names that models know."""
        return {
            "input_ids": self.input_ids,
            "bbox": self.bbox,
            "attention_mask": self.attention_mask,
        }


class Encoder:
    """A tokenizer with its preprocessing; holds no state between calls."""

    def __init__(self, tokenizer_json: str | bytes | Path, preprocessing: Preprocessing) -> None:
        """Reads a Hugging Face `tokenizer.json`.

        Args:
            tokenizer_json: Its content, or the path of the file.
            preprocessing: The settings of the model it feeds.

        Raises:
            MissingExtraError: The package tokenizers is not installed.
            ArtifactError: The tokenizer can't be read.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError("tokenizers", "cpu") from error
        try:
            if isinstance(tokenizer_json, Path):
                tokenizer_json = tokenizer_json.read_bytes()
            if isinstance(tokenizer_json, bytes):
                tokenizer_json = tokenizer_json.decode("utf-8")
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # tokenizers raises plain Exception
            raise ArtifactError(
                f"The tokenizer can't be read: {error}. Expected a Hugging Face tokenizer.json."
            ) from error
        # Some files fix a length of their own; windows and padding are ours.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.preprocessing = preprocessing

    def encode(self, page: Page) -> EncodedPage:
        """Returns the page's tokens, without special ones and never truncated in silence."""
        boxes = (
            page.segment_boxes()
            if self.preprocessing.box_level == "segment"
            else [word.box for word in page.words]
        )
        encoding = self._tokenizer.encode(
            [word.text for word in page.words], is_pretokenized=True, add_special_tokens=False
        )
        ids, words, cut = self._fitting(encoding)
        table = np.asarray(
            [box.normalized(width=page.width, height=page.height) for box in boxes],
            dtype=np.int64,
        ).reshape(-1, 4)
        return EncodedPage(
            ids=ids,
            boxes=table[words].reshape(-1, 4),
            words=words,
            first=np.diff(words, prepend=-1) != 0,
            num_words=len(page.words),
            cut_words=cut,
        )

    def encode_text(self, text: str) -> EncodedPage:
        """Returns the tokens of a plain text, which stands nowhere: its boxes are zeros.

        Words are what the tokenizer's own rules split the text into.

        Args:
            text: Any text, the empty one included.

        Raises:
            InputError: The text is not valid Unicode.
        """
        require_unicode(text, where="The text")
        ids, words, cut = [], [], []
        num_words = 0
        for piece in _pieces(text):
            encoding = self._tokenizer.encode(piece, add_special_tokens=False)
            piece_ids, piece_words, piece_cut = self._fitting(encoding)
            ids.append(piece_ids)
            words.append(piece_words + num_words)
            cut += [word + num_words for word in piece_cut]
            num_words += int(piece_words[-1]) + 1 if len(piece_words) else 0
        word_of = np.concatenate(words)
        return EncodedPage(
            ids=np.concatenate(ids),
            boxes=np.zeros((len(word_of), 4), dtype=np.int64),
            words=word_of,
            first=np.diff(word_of, prepend=-1) != 0,
            num_words=num_words,
            cut_words=tuple(cut),
        )

    def _fitting(self, encoding: Any) -> tuple[IntArray, IntArray, tuple[int, ...]]:
        """Returns tokens, their words, and words of which a window can't hold all tokens."""
        ids: list[int] = []
        words: list[int] = []
        cut: list[int] = []
        length = 0
        previous = -1
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word is None:  # a token of no word; none was asked for
                continue
            length = length + 1 if word == previous else 1
            previous = word
            if length > self.preprocessing.capacity:
                if length == self.preprocessing.capacity + 1:
                    cut.append(word)
                continue
            ids.append(token)
            words.append(word)
        return np.asarray(ids, dtype=np.int64), np.asarray(words, dtype=np.int64), tuple(cut)

    def batch(self, parts: Sequence[tuple[EncodedPage, int, int]]) -> Batch:
        """Returns windows as padded model inputs.

        Args:
            parts: For each window its page and the range of tokens [start, stop).
        """
        settings = self.preprocessing
        longest = max((stop - start for _, start, stop in parts), default=0) + 2
        input_ids = np.full((len(parts), longest), settings.pad_id, dtype=np.int64)
        bbox = np.zeros((len(parts), longest, 4), dtype=np.int64)
        mask = np.zeros((len(parts), longest), dtype=np.int64)
        for row, (page, start, stop) in enumerate(parts):
            end = stop - start + 1
            input_ids[row, 0] = settings.cls_id
            input_ids[row, 1:end] = page.ids[start:stop]
            input_ids[row, end] = settings.sep_id
            bbox[row, 1:end] = page.boxes[start:stop]
            bbox[row, end] = BOX_SCALE
            mask[row, : end + 1] = 1
        return Batch(input_ids=input_ids, bbox=bbox, attention_mask=mask)


def _pieces(text: str) -> Iterator[str]:
    """Yields a text in pieces that end before a blank, unless one word is longer than a piece.

    A tokenizer holds hundreds of bytes for each character of what it is given at once.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        stop = start + PIECE_CHARACTERS
        blank = max(text.rfind(mark, start + 1, stop) for mark in " \n\t")
        stop = blank if blank > 0 else stop
        yield text[start:stop]
        start = stop
    yield text[start:]


def laid_out(document: Document, preprocessing: Preprocessing) -> tuple[Document, tuple[str, ...]]:
    """Returns the document with the lines its model needs, and what the caller should know.

    Args:
        document: Pages on which any word has a segment are left as they are.
        preprocessing: The model's.
    """
    bare = [
        number
        for number, page in enumerate(document.pages)
        if page.words and all(word.segment is None for word in page.words)
    ]
    if preprocessing.box_level != "segment" or not bare:
        return document, ()
    from hushdoc.reading import with_segments

    told = (
        "The model was trained with the boxes of text lines (segments), and "
        f"page {', '.join(map(str, bare))} has none: lines were found from the boxes of the words. "
        "Pass segments with the words if they are known."
    )
    return with_segments(document), (told,)


def require_unicode(text: str, *, where: str) -> None:
    """Raises InputError unless a text can be written as UTF-8, which tokenizers need.

    Args:
        text: What a caller handed in.
        where: Which text it is, for the message.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where} is {text[:40]!a}, which is not valid Unicode ({error.reason}). Mend the text "
            "where it was decoded."
        ) from error
