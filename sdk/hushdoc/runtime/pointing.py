"""Answers as runs of words on a page: from scores of both ends to spans, by a pointer's graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hushdoc.errors import LimitExceededError
from hushdoc.runtime import windows
from hushdoc.runtime.answers import Candidate, Reading
from hushdoc.runtime.decoding import softmax
from hushdoc.runtime.graph_batches import MAX_BATCH_TOKENS, in_halves
from hushdoc.runtime.questions import QuestionEncoder, QuestionRow, by_window
from hushdoc.runtime.session import Array, Session

INPUTS = ("input_ids", "bbox", "attention_mask", "question_ids", "question_mask")

AT_ONCE = 16
"""Most questions that are read with a window at once: bounds the working memory."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sheet:
    """Questions about one window, which are read together."""

    rows: tuple[QuestionRow, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of the window and of all questions."""
        window = self.rows[0].stop - self.rows[0].start
        return window + sum(len(row.question) for row in self.rows)

    def halves(self) -> list[Sheet]:
        """Returns it with half of its questions, and with the others; itself where it has one."""
        middle = len(self.rows) // 2
        return [Sheet(rows=half) for half in (self.rows[:middle], self.rows[middle:]) if half]


class Pointer:
    """A graph that gives each token of a window the scores of each question's two ends."""

    def __init__(self, encoder: QuestionEncoder, session: Session) -> None:
        """Keeps a loaded graph of `INPUTS` with one output [batch, sequence, questions, 2]."""
        self._encoder = encoder
        self._session = session

    def read(self, rows: Sequence[QuestionRow], *, count: int) -> dict[QuestionRow, Reading]:
        """Returns what each row's window answers, with up to so many candidates.

        A window is encoded once for up to `AT_ONCE` of its questions.
        """
        session, asking = self._session, self._encoder.asking
        temperature = 1.0 if asking.scores is None else asking.scores.temperature

        def inputs(batch: Sequence[Sheet]) -> Mapping[str, Array]:
            return self._encoder.pointed([sheet.rows for sheet in batch])

        readings: dict[QuestionRow, Reading] = {}
        most = 0 if session.scaled_by_run else MAX_BATCH_TOKENS[session.device]
        for some in windows.batches(sheets(rows), max_tokens=most):
            for batch, scores in _in_parts(session, some, inputs):
                for number, sheet in enumerate(batch):
                    for place, row in enumerate(sheet.rows):
                        seen = scores[number, : 1 + row.stop - row.start, place] / temperature
                        readings[row] = spans(seen, row, max_answer=asking.max_answer, count=count)
        return readings


def _in_parts(
    session: Session,
    some: Sequence[Sheet],
    inputs: Callable[[Sequence[Sheet]], Mapping[str, Array]],
) -> Iterator[tuple[Sequence[Sheet], Array]]:
    """Yields sheets and their scores, of fewer questions each where memory does not suffice."""
    try:
        yield from in_halves(session, some, inputs)
    except LimitExceededError:
        halves = [half for sheet in some for half in sheet.halves()]
        if len(halves) == len(some):  # a question each
            raise
        yield from _in_parts(session, halves, inputs)


def sheets(rows: Sequence[QuestionRow]) -> list[Sheet]:
    """Returns rows of the same window together, up to `AT_ONCE` of them."""
    return [
        Sheet(rows=tuple(some[at : at + AT_ONCE]))
        for some in by_window(rows, lambda row: row)
        for at in range(0, len(some), AT_ONCE)
    ]


def spans(scores: Array, row: QuestionRow, *, max_answer: int, count: int) -> Reading:
    """Returns a window's best runs of whole words, of up to `max_answer` tokens.

    `scores` are logits of shape [1 + tokens of the window, 2], for an answer's first token and its
    last; the first row stands for no answer. The score of a run is the product of both
    probabilities (Devlin et al. 2019, section 4.2).
    """
    starts, ends = softmax(scores.T)
    first = np.flatnonzero(row.page.first[row.start : row.stop])
    last = np.append(first[1:], row.stop - row.start) - 1
    table = np.outer(starts[1 + first], ends[1 + last])
    length = last[None, :] - first[:, None] + 1
    table[(length < 1) | (length > max_answer)] = -1.0
    order = np.argsort(-table, axis=None, kind="stable")[:count]
    words = row.page.words[row.start + first]
    return Reading(
        candidates=tuple(
            Candidate(
                score=float(table.flat[place]),
                words=range(int(words[place // len(last)]), int(words[place % len(last)]) + 1),
            )
            for place in order
            if table.flat[place] >= 0
        ),
        null_score=float(starts[0] * ends[0]),
    )
