"""Embedding: a document as a point, by a fixed public function of its words, boxes and images.

Contract: nothing here is fitted. A document's point depends on no other document, so one document
more casts one vote more and changes no other. Whoever changes anything here raises VERSION.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import mmh3
import numpy as np
import numpy.typing as npt
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.reading import drawing

Floats = npt.NDArray[np.float64]

VERSION = 1

_WORDS, _SHAPES, _ROWS, _COLUMNS, _STATISTICS = 512, 128, 12, 8, 5
SIZE = _WORDS + _SHAPES + _ROWS * _COLUMNS + _STATISTICS
"""Numbers of a point: hashed words, shapes of dates and amounts, layout, statistics."""

FEATURES = ("words", "words+image", "words+minilm", "words+image+minilm")
"""What a point is computed from: words and their boxes alone, or besides the page's image, or what
the words mean."""

_CELLS, _SHARE = 16, 0.2
"""Cells across an image and down; and the share of the squared norm that a further feature takes
of what was there before."""

_SHARES = (0.4, 0.3, 0.2, 0.1)
"""What the squares of the blocks' norms add up to; together 1."""

_VALUE = re.compile(r"\d.*\d|\d")
_DIGIT, _CAPITALS, _SMALL = re.compile(r"\d"), re.compile(r"[A-Z]+"), re.compile(r"[a-z]+")


def size_of(features: str) -> int:
    """Returns how many numbers a point of `embed` has."""
    return SIZE + (_CELLS**2 if reads_images(features) else 0)


def reads_images(features: str) -> bool:
    """Returns whether images are among the features."""
    return "image" in features.split("+")


def with_meaning(point: Floats, meaning: Floats) -> Floats:
    """Returns a point with what its words mean beside it; one at 0, or no number, stays so."""
    meaning = _unit(meaning) if point.any() else np.zeros_like(meaning)
    return np.concatenate([np.sqrt(1 - _SHARE) * point, np.sqrt(_SHARE) * meaning])


def embed(document: Document, *, features: str = "words") -> Floats:
    """Returns the point of a document, of a norm of at most 1: the mean over its pages.

    A document without words is at 0, and one with a box that is not finite is nowhere: its numbers
    are NaN. Both vote for nothing, and `PrivateVotes` counts the second. Where images are read,
    that of a page without one is as if it were white.
    """
    points = [_page(page, features) for page in document.pages if page.words]
    point = np.mean(points, axis=0) if points else np.zeros(size_of(features))
    return point if np.isfinite(point).all() else np.full(size_of(features), np.nan)


def _page(page: Page, features: str) -> Floats:
    if not reads_images(features):
        return _worded(page)
    parts = np.sqrt(1 - _SHARE) * _worded(page), np.sqrt(_SHARE) * _unit(_ink(page))
    return np.concatenate(parts)


def _ink(page: Page) -> Floats:
    """Returns how dark each cell of a page is, from 0 to 1, as a root."""
    image = drawing.page_image(page)
    if image is None:
        return np.zeros(_CELLS**2)
    small = image.convert("L").resize((_CELLS, _CELLS), Image.Resampling.BOX)
    return np.sqrt(1 - np.asarray(small, dtype=np.float64) / 255).ravel()


def _worded(page: Page) -> Floats:
    texts = [word.text for word in page.words]
    boxes = np.array([word.box.to_list() for word in page.words], dtype=np.float64)
    if not np.isfinite(boxes).all():
        return np.full(SIZE, np.nan)
    blocks = (_words(texts), _shapes(texts), _grid(boxes), _statistics(texts, boxes, page))
    parts = [np.sqrt(share) * _unit(block) for share, block in zip(_SHARES, blocks, strict=True)]
    return np.concatenate(parts)


def normalised(text: str) -> str:
    """Returns a word as it is compared: without case, edges of punctuation and digits."""
    return _DIGIT.sub("0", text.casefold().strip(".,:;()[]*#'\"-"))


def words_of(document: Document) -> set[str]:
    """Returns the words of a document, as they are compared."""
    return {
        part
        for page in document.pages
        for word in page.words
        for part in map(normalised, word.text.split())
        if part
    }


def _words(texts: Iterable[str]) -> Floats:
    found = (normalised(part) for text in texts for part in text.split())
    return np.sqrt(_hashed((word for word in found if word), _WORDS, 1))


def _shapes(texts: Iterable[str]) -> Floats:
    """Counts shapes of what holds digits: 25/12/2018 is 00/00/0000, RM12.50 is A00.00."""
    shapes = []
    for text in texts:
        for part in text.split():
            if _VALUE.search(part):
                shape = _SMALL.sub("a", _CAPITALS.sub("A", _DIGIT.sub("0", part[:24])))
                shapes.append(re.sub(r"0{5,}", "00000", shape))
    return np.sqrt(_hashed(shapes, _SHAPES, 2))


def _hashed(texts: Iterable[str], size: int, seed: int) -> Floats:
    places = [mmh3.hash(text, seed, signed=False) % size for text in texts]
    return np.bincount(np.array(places, dtype=np.int64), minlength=size).astype(np.float64)


def _grid(boxes: Floats) -> Floats:
    """Returns how much of the text stands in each cell of the frame around all of it."""
    left, top = boxes[:, 0].min(), boxes[:, 1].min()
    wide, high = max(boxes[:, 2].max() - left, 1.0), max(boxes[:, 3].max() - top, 1.0)
    across = _shares((boxes[:, 0] - left) / wide, (boxes[:, 2] - left) / wide, _COLUMNS)
    down = _shares((boxes[:, 1] - top) / high, (boxes[:, 3] - top) / high, _ROWS)
    return np.sqrt((down.T @ across).ravel())


def _shares(start: Floats, stop: Floats, cells: int) -> Floats:
    """Returns how much of each stretch lies in each of some equal cells from 0 to 1."""
    edges = np.arange(cells) / cells
    inside = np.minimum(stop[:, None], edges + 1 / cells) - np.maximum(start[:, None], edges)
    return np.maximum(inside, 0.0)


def _statistics(texts: Sequence[str], boxes: Floats, page: Page) -> Floats:
    letters = "".join(texts) or " "
    wide, high = max(page.width, 1), max(page.height, 1)
    return np.array(
        [
            min(high / wide, 4.0) / 4,
            min(np.log1p(sum(len(text.split()) for text in texts)), 8.0) / 8,
            min(float(np.median(boxes[:, 3] - boxes[:, 1])) / wide * 20, 1.0),
            sum(sign.isdigit() for sign in letters) / len(letters),
            sum(sign.isupper() for sign in letters) / len(letters),
        ]
    )


def _unit(block: Floats) -> Floats:
    norm = float(np.linalg.norm(block))
    return block / norm if norm > 0 else block
