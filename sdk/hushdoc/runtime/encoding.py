"""Words to model inputs: tokens, boxes and masks; training and run time share this code.

The settings that shaped a model's training (`Preprocessing`) are part of its artifact, so an
application feeds it exactly what it was trained on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.arguments import failure_of, printable
from hushdoc.document.document import Document
from hushdoc.document.page import BOX_SCALE, Page
from hushdoc.errors import ArtifactError, InputError, needs_extra
from hushdoc.runtime.images import ImagePreprocessing, Pixels
from hushdoc.runtime.scoring import Scoring, settings_errors

IntArray = npt.NDArray[np.int64]

PIECE_CHARACTERS = 1 << 16
"""Longest text, and most of a page's words together, that the tokenizer gets at once."""

BOX_LEVELS = ("word", "segment", "none")
WORD_ORDERS = ("given", "reading")

PIXELS = "pixel_values"
"""What models call the input that images go to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """How words become inputs; part of the artifact's signed manifest.

    Attributes:
        max_tokens: Tokens in one window, the two special ones included.
        overlap: Tokens that neighbouring windows share at run time.
        box_level: "word" for each word's own box, "segment" for its segment's; then a segment
            holds one field of a label at most, and tags are decoded accordingly; "none" for a model
            of fields that reads words alone.
        word_order: "given" for the words of a page in the order the caller has them in, "reading"
            for the order in which `hushdoc.reading.reading_order` reads their boxes.
        cls_id, sep_id, pad_id: Token ids that open a window, close it, and fill a batch.
        sep_box: Each coordinate of the box of the token that closes a window: 1000, or 0.
        scores: How scores are calibrated, and their threshold; None for raw scores.
        image: How the page's image becomes an input beside the words; None for models of words and
            boxes only.
    """

    max_tokens: int = 128
    overlap: int = 32
    box_level: str = "word"
    word_order: str = "given"
    cls_id: int
    sep_id: int
    pad_id: int
    sep_box: int = BOX_SCALE
    scores: Scoring | None = None
    image: ImagePreprocessing | None = None

    def __post_init__(self) -> None:
        """Refuses settings no window can satisfy."""
        if self.image is not None and self.image.scores is not None:
            raise ValueError("image has scores; a model's scores stand beside it, not in it.")
        if self.box_level not in BOX_LEVELS:
            raise ValueError(f"box_level is '{self.box_level}'; expected one of {BOX_LEVELS}.")
        if self.box_level == "none" and (self.image is not None or self.word_order != "given"):
            raise ValueError("box_level is 'none', and pages are read; expected words alone.")
        if self.word_order not in WORD_ORDERS:
            raise ValueError(f"word_order is '{self.word_order}'; expected one of {WORD_ORDERS}.")
        if self.sep_box not in (0, BOX_SCALE):
            raise ValueError(f"sep_box is {self.sep_box}; expected 0 or {BOX_SCALE}.")
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
        """Returns plain data for the manifest; parts of None, and the usual box, have no key."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.sep_box == BOX_SCALE:
            del data["sep_box"]
        parts = {name: data.pop(name) for name in ("scores", "image")}
        present = {name: part.to_dict() for name, part in parts.items() if part is not None}
        return {**data, **present}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, images: bool = False) -> Preprocessing:
        """Returns the settings in a manifest; ArtifactError where a key or type is wrong.

        `images` is whether the task's models may read images beside the words.
        """
        with settings_errors("The preprocessing contract"):
            numbers = ("max_tokens", "overlap", "cls_id", "sep_id", "pad_id")
            given = [data[name] for name in numbers] + [data.get("sep_box", 0)]
            if any(type(value) is not int for value in given):
                raise TypeError(f"{', '.join(numbers)} and sep_box must be integers")
            scores = None if data.get("scores") is None else Scoring.from_dict(data["scores"])
            if "image" not in data:
                return cls(**{**data, "scores": scores})
            if not (images and isinstance(data["image"], Mapping)):
                raise TypeError("image must be an object, where a task's models read images")
            image = ImagePreprocessing.from_dict(data["image"])
            return cls(**{**data, "scores": scores, "image": image})


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedPage:
    """The tokens of one page: arrays of shape [tokens], boxes [tokens, 4] from 0 to 1000.

    `words` has the word of each token, `first` whether it is its word's first; `cut_words` are
    longer than a whole window, and their last tokens were left out; `unknown_words` hold the token
    that stands for what the tokenizer does not know.
    """

    ids: IntArray
    boxes: IntArray
    words: IntArray
    first: npt.NDArray[np.bool_]
    num_words: int
    cut_words: tuple[int, ...]
    unknown_words: tuple[int, ...] = ()


class Encoder:
    """A tokenizer with its preprocessing; holds no state between calls."""

    def __init__(self, tokenizer_json: str | bytes | Path, preprocessing: Preprocessing) -> None:
        """Reads a Hugging Face `tokenizer.json`: its content, or the path of the file."""
        with needs_extra("tokenizers", "cpu"):
            from tokenizers import Tokenizer
        with _tokenizer_errors("can't be read", in_full=True):
            if isinstance(tokenizer_json, Path):
                tokenizer_json = tokenizer_json.read_bytes()
            if isinstance(tokenizer_json, bytes):
                tokenizer_json = tokenizer_json.decode("utf-8")
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        # Some files fix a length; windows and padding are ours.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._unknown_id = _unknown_id(self._tokenizer, tokenizer_json)
        self.preprocessing = preprocessing

    def encode(self, page: Page, texts: Sequence[str] | None = None) -> EncodedPage:
        """Returns the page's tokens, without special ones and never silently truncated.

        `texts` are read in place of the texts of its words.
        """
        boxes = (
            page.segment_boxes()
            if self.preprocessing.box_level == "segment"
            else [word.box for word in page.words]
        )
        table = np.asarray(
            [box.normalized(width=page.width, height=page.height) for box in boxes],
            dtype=np.int64,
        ).reshape(-1, 4)
        return self._encoded([word.text for word in page.words] if texts is None else texts, table)

    def encode_words(self, words: Sequence[str]) -> EncodedPage:
        """Returns the tokens of words without boxes, as if they were a page's; see `encode`."""
        return self._encoded(words, np.zeros((len(words), 4), dtype=np.int64))

    def _encoded(self, texts: Sequence[str], boxes: IntArray) -> EncodedPage:
        ids, words, cut = [], [], []
        for start, group in _groups(texts):
            with _tokenizer_errors("can't be used"):
                encoding = self._tokenizer.encode(
                    list(group), is_pretokenized=True, add_special_tokens=False
                )
            group_ids, group_words, group_cut = self._fitting(encoding)
            ids.append(group_ids)
            words.append(group_words + start)
            cut += [word + start for word in group_cut]
        all_ids, word_of = np.concatenate(ids), np.concatenate(words)
        return EncodedPage(
            ids=all_ids,
            boxes=boxes[word_of].reshape(-1, 4),
            words=word_of,
            first=np.diff(word_of, prepend=-1) != 0,
            num_words=len(texts),
            cut_words=tuple(cut),
            unknown_words=self._unknown(all_ids, word_of),
        )

    def encode_text(self, text: str) -> EncodedPage:
        """Returns the tokens of a plain text, whose boxes are zeros; it must be valid Unicode.

        Words are what the tokenizer's own rules split the text into. Of one that is longer than a
        window, such as a paragraph of a script without spaces, each token counts as a word.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"The text is {text[:40]!a}, which is not valid Unicode ({error.reason}). Correct "
                "its decoding."
            ) from error
        ids, words = [], []
        num_words = 0
        for piece in _pieces(text):
            with _tokenizer_errors("can't be used"):
                encoding = self._tokenizer.encode(piece, add_special_tokens=False)
            piece_ids, piece_words = _tokens(encoding)
            piece_words = _taken_apart(piece_words, self.preprocessing.capacity)
            ids.append(piece_ids)
            words.append(piece_words + num_words)
            num_words += int(piece_words[-1]) + 1 if len(piece_words) else 0
        all_ids, word_of = np.concatenate(ids), np.concatenate(words)
        return EncodedPage(
            ids=all_ids,
            boxes=np.zeros((len(word_of), 4), dtype=np.int64),
            words=word_of,
            first=np.diff(word_of, prepend=-1) != 0,
            num_words=num_words,
            cut_words=(),
            unknown_words=self._unknown(all_ids, word_of),
        )

    @property
    def num_tokens(self) -> int:
        """How many tokens the tokenizer knows, those of its own added."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def text_ids(self, text: str) -> IntArray:
        """Returns all tokens of a short text, without special ones, shape [tokens]."""
        with _tokenizer_errors("can't be used"):
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return np.asarray(ids, dtype=np.int64)

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens, without special ones."""
        with _tokenizer_errors("can't be used"):
            return str(self._tokenizer.decode([int(token) for token in ids]))

    def _fitting(self, encoding: Any) -> tuple[IntArray, IntArray, list[int]]:
        """Returns tokens, their words, and words of which a window can't hold all tokens."""
        ids, words = _tokens(encoding)
        capacity = self.preprocessing.capacity
        places = _places_in_words(words)
        cut = words[places == capacity].tolist()
        return ids[places < capacity], words[places < capacity], cut

    def _unknown(self, ids: IntArray, words: IntArray) -> tuple[int, ...]:
        """Returns the words of which the tokenizer does not know some character."""
        return tuple(np.unique(words[ids == self._unknown_id]).tolist())

    def batch(
        self,
        parts: Sequence[tuple[EncodedPage, int, int]],
        *,
        pixel_values: Sequence[Pixels] | None = None,
    ) -> dict[str, IntArray | Pixels]:
        """Returns windows, each a page and a range of its tokens, as padded inputs by their names.

        They are int64 of shape [batch, sequence], boxes [batch, sequence, 4]; the image of each
        window's page, where the model reads it, makes [batch, 3, height, width].
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
            bbox[row, end] = settings.sep_box
            mask[row, : end + 1] = 1
        inputs: dict[str, IntArray | Pixels] = {
            "input_ids": input_ids,
            "bbox": bbox,
            "attention_mask": mask,
        }
        return inputs if pixel_values is None else {**inputs, PIXELS: np.stack(pixel_values)}


def _unknown_id(tokenizer: Any, tokenizer_json: str) -> int:
    """Returns the token that stands for what a tokenizer does not know; -1 where it has none."""
    name = getattr(tokenizer.model, "unk_token", None)
    if name is not None:
        known = tokenizer.token_to_id(name)
        return -1 if known is None else int(known)
    number = re.search(r'"unk_id"\s*:\s*(\d+)', tokenizer_json)  # Unigram's has no name
    return -1 if number is None else int(number[1])


@contextmanager
def _tokenizer_errors(found: str, *, in_full: bool = False) -> Iterator[None]:
    """Turns what a tokenizer raises into one ArtifactError; of a document's text it tells nothing.

    Its package raises plain Exception and, where its Rust code panics, not even that.
    """
    try:
        yield
    except BaseException as error:
        panicked = type(error).__name__ == "PanicException"
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or panicked):
            raise
        why = printable(error, limit=200) if in_full else failure_of(error)
        raise ArtifactError(
            f"The tokenizer {found}: {why}. Expected a Hugging Face tokenizer.json "
            "whose parts fit each other; export the artifact again."
        ) from error


def _tokens(encoding: Any) -> tuple[IntArray, IntArray]:
    """Returns the tokens of an encoding, and the word of each; special ones are of none."""
    pairs = [pair for pair in zip(encoding.ids, encoding.word_ids, strict=True) if None not in pair]
    table = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _places_in_words(words: IntArray) -> IntArray:
    """Returns for each token how many tokens of its word are before it."""
    numbers = np.arange(len(words))
    first = np.diff(words, prepend=-1) != 0
    return numbers - np.maximum.accumulate(np.where(first, numbers, 0))


def _taken_apart(words: IntArray, capacity: int) -> IntArray:
    """Returns numbers of words where each token of one longer than a window is a word."""
    places = _places_in_words(words)
    long = np.isin(words, words[places == capacity])
    return words + np.cumsum(long & (places > 0))


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yields words in groups of about PIECE_CHARACTERS, each with the number of its first word.

    One group at least, be it of no word. A word's tokens depend on no other word.
    """
    start = length = 0
    for number, text in enumerate(texts):
        if number > start and length + len(text) > PIECE_CHARACTERS:
            yield start, texts[start:number]
            start, length = number, 0
        length += len(text)
    yield start, texts[start:]


def _pieces(text: str) -> Iterator[str]:
    """Yields a text in pieces that end before whitespace, unless one word is longer than a piece.

    A tokenizer holds hundreds of bytes for each character of what it is given at once.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        stop = start + PIECE_CHARACTERS
        space = max(text.rfind(mark, start + 1, stop) for mark in " \n\t")
        stop = space if space > 0 else stop
        yield text[start:stop]
        start = stop
    yield text[start:]


def laid_out(document: Document, preprocessing: Preprocessing) -> tuple[Document, tuple[str, ...]]:
    """Returns the document with the segments its model needs, and warnings for the caller.

    Pages on which any word has a segment stay as they are.
    """
    bare = [
        number
        for number, page in enumerate(document.pages)
        if page.words and all(word.segment is None for word in page.words)
    ]
    if preprocessing.box_level != "segment" or not bare:
        return document, ()
    from hushdoc.reading import with_segments

    warning = (
        "The model was trained with the boxes of text lines (segments), and "
        f"page {', '.join(map(str, bare))} has none: lines were found from the boxes of the words. "
        "Pass segments with the words if they are known."
    )
    return with_segments(document), (warning,)


def in_order(
    document: Document, preprocessing: Preprocessing
) -> tuple[Document, tuple[Sequence[int], ...]]:
    """Returns the document in its model's order of words, and for each page their old numbers.

    Training and run time order words by this function alone; segments stay with their words.
    """
    if preprocessing.word_order == "given":
        return document, tuple(range(len(page.words)) for page in document.pages)
    from hushdoc.reading import reading_order

    numbers = tuple(reading_order(page) for page in document.pages)
    pages = tuple(
        replace(page, words=tuple(page.words[index] for index in order))
        for page, order in zip(document.pages, numbers, strict=True)
    )
    return replace(document, pages=pages), numbers


def texts_of(document: Document, preprocessing: Preprocessing | None = None) -> list[str]:
    """Returns a checked document's text, or each page's with its words in the model's order."""
    if document.text is not None:
        document.check_text()
        return [document.text]
    document.check()
    if preprocessing is not None:
        document, _ = in_order(document, preprocessing)
    return [" ".join(word.text for word in page.words) for page in document.pages]
