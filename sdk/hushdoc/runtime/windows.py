"""Windows over long pages: split between words, and merge the model's scores of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc.runtime.encoding import EncodedPage

FloatArray = npt.NDArray[np.float32]


class Part(Protocol):
    """What is read at once, of so many tokens beside special ones."""

    @property
    def num_tokens(self) -> int:
        """How many tokens it holds."""


AnyPart = TypeVar("AnyPart", bound=Part)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A range of tokens [start, stop) of one page: what the model sees at once."""

    page: int
    start: int
    stop: int

    @property
    def num_tokens(self) -> int:
        """How many word tokens it holds."""
        return self.stop - self.start


def cover(pages: Sequence[EncodedPage], *, capacity: int, overlap: int) -> list[Window]:
    """Returns windows that cover all pages, each within one page; see `split`."""
    return [
        Window(page=number, start=start, stop=stop)
        for number, page in enumerate(pages)
        for start, stop in split(page, capacity=capacity, overlap=overlap)
    ]


def batches(
    parts: Iterable[AnyPart], *, max_tokens: int, patches: int = 0
) -> Iterator[list[AnyPart]]:
    """Yields windows of similar length together, so that little of a batch is padding.

    Windows of one length keep their order. A batch never holds more than `max_tokens`, padding and
    the image's `patches` that are read with each window included, unless one window alone does; and
    never one of less than half its longest.
    """
    batch: list[AnyPart] = []
    for part in sorted(parts, key=lambda part: -part.num_tokens):
        if batch:
            longest = batch[0].num_tokens + 2
            full = (len(batch) + 1) * (longest + patches) > max_tokens
            if full or 2 * (part.num_tokens + 2) < longest:
                yield batch
                batch = []
        batch.append(part)
    if batch:
        yield batch


def by_pages(parts: Iterable[Window], *, at_once: int) -> Iterator[list[Window]]:
    """Yields the windows of at most so many pages together; `parts` is in the order of pages."""
    pages = (list(group) for _, group in groupby(parts, key=lambda part: part.page))
    while some := list(islice(pages, at_once)):
        yield list(chain.from_iterable(some))


def split(page: EncodedPage, *, capacity: int, overlap: int) -> list[tuple[int, int]]:
    """Returns token ranges that cover the whole page and never cut a word.

    `capacity` is the most tokens of one range, `overlap` the most that neighbouring ones share.
    """
    total = len(page.ids)
    starts = np.flatnonzero(page.first)
    ranges: list[tuple[int, int]] = []
    start = 0
    while start < total:
        if total - start <= capacity:
            ranges.append((start, total))
            break
        # The last word start that fits closes this window.
        stop = int(starts[np.searchsorted(starts, start + capacity, side="right") - 1])
        ranges.append((start, stop))
        back = int(starts[np.searchsorted(starts, stop - overlap, side="left")])
        start = back if back > start else stop
    return ranges


def merge(
    page: EncodedPage, ranges: Sequence[tuple[int, int]], outputs: Sequence[FloatArray]
) -> FloatArray:
    """Returns one row of scores for each word, from the window that saw most around it.

    `outputs` has the model's scores for each range of `split`, shape [tokens in range, labels]; the
    answer has the shape [words, labels], with rows of NaN for words without any token.
    """
    labels = outputs[0].shape[1] if outputs else 0
    merged = np.full((page.num_words, labels), np.nan, dtype=np.float32)
    seen = np.full(page.num_words, -1, dtype=np.int64)
    for (start, stop), scores in zip(ranges, outputs, strict=True):
        for token in np.flatnonzero(page.first[start:stop]):
            word = page.words[start + token]
            # A page's own edge is no loss of context.
            left = token if start > 0 else stop - start
            right = stop - start - token if stop < len(page.ids) else stop - start
            context = min(left, right)
            if context > seen[word]:
                seen[word] = context
                merged[word] = scores[token]
    return merged


def unread(page: EncodedPage) -> list[int]:
    """Returns the words that have no token at all."""
    return [int(word) for word in np.setdiff1d(np.arange(page.num_words), page.words)]


def coverage(pages: Sequence[EncodedPage]) -> float:
    """Returns the share of the words that were read in full; 1 where there is no word."""
    words = sum(page.num_words for page in pages)
    lost = sum(len({*unread(page), *page.cut_words, *page.unknown_words}) for page in pages)
    return (words - lost) / words if words else 1.0


def losses(
    pages: Sequence[EncodedPage],
    *,
    capacity: int,
    what: str = "Page",
    numbers: Sequence[Sequence[int]] | None = None,
) -> Iterator[str]:
    """Yields a warning for words of the pages that were not read in full.

    `numbers` are the words' numbers in the warnings, by page; their places by default.
    """
    for number, page in enumerate(pages):
        names = range(page.num_words) if numbers is None else numbers[number]
        missing = [names[word] for word in unread(page)]
        if missing:
            yield (
                f"{what} {number}: the tokenizer has no token for {_counted(missing)}; the model "
                "did not read them."
            )
        unknown = [names[word] for word in page.unknown_words]
        if unknown:
            yield (
                f"{what} {number}: the tokenizer does not know all characters of "
                f"{_counted(unknown)}; the model read a stand-in for them."
            )
        cut = [names[word] for word in page.cut_words]
        if cut:
            yield (
                f"{what} {number}: {_counted(cut)} exceed one whole window of "
                f"{capacity} tokens; the model read only their beginning."
            )


def _counted(words: Sequence[int]) -> str:
    shown = ", ".join(map(str, words[:5])) + (", ..." if len(words) > 5 else "")
    return f"{len(words)} {'word' if len(words) == 1 else 'words'} ({shown})"
