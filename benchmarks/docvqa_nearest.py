"""The answer that needs no training: the label most like the question, and what stands beside it.

A page's labels are its segments, and the parts of them before a colon or an amount. MiniLM's mean
over tokens says how like a question each label is; the answer of the likest one that has something
beside it is the rest of its segment, else what stands right of it in its line, else what is below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from hushdoc.document.page import Box, Page, Word, union
from hushdoc.labels import LabelledDocument, LabelSet, Question
from hushdoc_training.models import layout
from hushdoc_training.question_scores import QuestionScore

LONGEST = 8
"""Words of a label at most."""

BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Words that stand together."""

    words: tuple[Word, ...]
    box: Box

    @property
    def text(self) -> str:
        """The words with blanks between."""
        return " ".join(word.text for word in self.words)


class NearestLabel:
    """Answers every question of a document by the label that is most like it."""

    def __init__(self) -> None:
        """Loads MiniLM as it was published."""
        model, tokenizer_json, _ = layout.minilm(LabelSet(fields=()), boxes=False)
        self._model = model.eval()
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        """Returns a score for every question, in their order; it has no loss."""
        return [
            self._scored(item, pairs, asked)
            for item in documents
            for pairs in [[pair for page in item.document.pages for pair in labels(page)]]
            for asked in item.questions
        ]

    def _scored(
        self, item: LabelledDocument, pairs: Sequence[tuple[str, str]], asked: Question
    ) -> QuestionScore:
        found, likeness = None, 0.0
        if pairs:
            vectors = self.vectors([asked.text, *(label for label, _ in pairs)])
            likenesses = vectors[1:] @ vectors[0]
            best = int(likenesses.argmax())
            found, likeness = pairs[best][1], float(likenesses[best])
        return QuestionScore(
            document_id=item.document.id,
            provider=item.provider,
            key=asked.key,
            text=asked.text,
            answers=asked.answers,
            prediction=found,
            confidence=likeness,
            loss=math.nan,
        )

    def vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns the vector of each text, of length 1, shape [texts, hidden]."""
        fresh = sorted({text for text in texts if text not in self._known}, key=len)
        for first in range(0, len(fresh), BATCH):
            part = fresh[first : first + BATCH]
            rows = [self._tokenizer.encode(text).ids[:64] for text in part]
            ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
            for number, row in enumerate(rows):
                ids[number, : len(row)] = torch.tensor(row)
            mask = (ids > 0).long()
            with torch.inference_mode():
                states = self._model.hidden(ids, torch.zeros(*ids.shape, 4).long(), mask)
            weights = mask[..., None].float()
            means = (states * weights).sum(1) / weights.sum(1)
            made = torch.nn.functional.normalize(means, dim=1).numpy()
            self._known.update(zip(part, made, strict=True))
        return np.stack([self._known[text] for text in texts])


def labels(page: Page) -> Iterator[tuple[str, str]]:
    """Yields each label of a page with what stands beside it."""
    segments = _segments(page)
    for segment in segments:
        for place in range(1, min(len(segment.words), LONGEST + 1)):
            before, after = segment.words[place - 1].text, segment.words[place].text
            if before.endswith(":") or _is_value(after):
                label, rest = segment.words[:place], segment.words[place:]
                yield _text(label), _text(rest)
                break
        beside = _right_of(segment, segments) or _below(segment, segments)
        if beside is not None and len(segment.words) <= LONGEST and not _is_value(segment.text):
            yield segment.text.rstrip(":"), beside.text


def _segments(page: Page) -> list[Segment]:
    """Returns a page's segments, or where it has none its runs of words with small gaps."""
    found: list[Segment] = []
    if all(word.segment is not None for word in page.words):
        for _, group in groupby(page.words, key=lambda word: word.segment):
            words = tuple(group)
            found.append(Segment(words=words, box=union(word.box for word in words)))
        return found
    run: list[Word] = []
    for word in page.words:
        if run and not _continues(run[-1].box, word.box):
            found.append(Segment(words=tuple(run), box=union(one.box for one in run)))
            run = []
        run.append(word)
    return [*found, Segment(words=tuple(run), box=union(one.box for one in run))] if run else found


def _continues(left: Box, right: Box) -> bool:
    high = left.y1 - left.y0
    return _share_of_line(left, right) > 0.5 and -high < right.x0 - left.x1 < 0.8 * high


def _share_of_line(one: Box, other: Box) -> float:
    """Returns which share of the lower box's height both have in common."""
    common = min(one.y1, other.y1) - max(one.y0, other.y0)
    return common / max(1.0, min(one.y1 - one.y0, other.y1 - other.y0))


def _right_of(segment: Segment, others: Sequence[Segment]) -> Segment | None:
    box = segment.box
    line = [
        other
        for other in others
        if other is not segment
        and _share_of_line(box, other.box) > 0.5
        and other.box.x0 >= box.x1 - (box.y1 - box.y0)
    ]
    return min(line, key=lambda other: other.box.x0, default=None)


def _below(segment: Segment, others: Sequence[Segment]) -> Segment | None:
    box = segment.box
    column = [
        other
        for other in others
        if other is not segment
        and other.box.y0 >= (box.y0 + box.y1) / 2
        and min(box.x1, other.box.x1) > max(box.x0, other.box.x0)
        and other.box.y0 - box.y1 < 3 * (box.y1 - box.y0)
    ]
    return min(column, key=lambda other: other.box.y0, default=None)


def _is_value(text: str) -> bool:
    """Returns whether a text has as many digits as letters."""
    digits = sum(sign.isdigit() for sign in text)
    return digits > 0 and digits >= sum(sign.isalpha() for sign in text)


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words).rstrip(":")
