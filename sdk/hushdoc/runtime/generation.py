"""Answers that a decoder writes, token by token: greedily, by beams, freely or on words of a page.

A decoder is a function of the last token of each beam and of what it remembers of those before; the
search is numpy alone. Grounded, the next token must continue a run of whole words of the window, so
that nothing can be written that does not stand on the page. No privacy follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hushdoc.runtime.encoding import EncodedPage, IntArray
from hushdoc.runtime.session import Array

Past = Mapping[str, Array]
"""What a decoder remembers, by names; the first axis of each array is that of the beams."""

Step = Callable[[IntArray, Past], tuple[npt.NDArray[np.float64], Past]]
"""From the last token of each beam [beams] and the past to the logarithms of the probabilities of
the next token [beams, vocabulary] and the new past."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """An answer that a decoder wrote.

    Attributes:
        tokens: Without the end token.
        score: The product of the probabilities of its tokens, that of the end token included: an
            answer that was cut off without an end must not look sure.
        ended: Whether it has an end, or was cut at the most tokens.
        words: Grounded, the runs of words of the page it is, each (first, last + 1); of one that
            was cut, those it holds in full, or its first. Else none.
    """

    tokens: tuple[int, ...]
    score: float
    ended: bool
    words: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Beam:
    tokens: tuple[int, ...] = ()
    log_score: float = 0.0
    # Grounded: (first token, next token) of each run of the window that these tokens are.
    runs: tuple[tuple[int, int], ...] | None = None

    def with_token(self, token: int, log_score: float, end: int, ground: Ground | None) -> _Beam:
        """Returns it with one token more, or as it is with its score where that is the end."""
        if token == end:
            return replace(self, log_score=log_score)
        runs = None if ground is None or self.runs is None else ground.continued(self.runs, token)
        return _Beam(tokens=(*self.tokens, token), log_score=log_score, runs=runs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ground:
    """A window whose whole words an answer must be made of: tokens [start, stop) of a page."""

    page: EncodedPage
    start: int
    stop: int

    def begun(self) -> tuple[tuple[int, int], ...]:
        """Returns the runs of no token, one at the first token of each word."""
        first = self.start + np.flatnonzero(self.page.first[self.start : self.stop])
        return tuple((int(place), int(place)) for place in first)

    def next_tokens(self, runs: Sequence[tuple[int, int]]) -> set[int]:
        """Returns the tokens that continue any of the runs."""
        return {int(self.page.ids[here]) for _, here in runs if here < self.stop}

    def continued(self, runs: Sequence[tuple[int, int]], token: int) -> tuple[tuple[int, int], ...]:
        """Returns the runs that a token continues, by it."""
        return tuple(
            (first, here + 1)
            for first, here in runs
            if here < self.stop and self.page.ids[here] == token
        )

    def whole(self, runs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Returns the words (first, last + 1) of runs that end where a word ends."""
        words = self.page.words
        return tuple(
            (int(words[first]), int(words[here - 1]) + 1)
            for first, here in runs
            if here > first and self._ends_word(here)
        )

    def begun_words(self, runs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Returns the words (first, last + 1) that runs hold in full, the first one in any case."""
        words = self.page.words
        return tuple(
            (
                int(words[first]),
                max(int(words[first]) + 1, int(words[here - 1]) + int(self._ends_word(here))),
            )
            for first, here in runs
            if here > first
        )

    def _ends_word(self, here: int) -> bool:
        return here == self.stop or bool(self.page.first[here])


def written(
    step: Step,
    past: Past,
    *,
    begin: int,
    end: int,
    max_answer: int,
    beams: int = 1,
    ground: Ground | None = None,
) -> tuple[tuple[Written, ...], float]:
    """Returns the best answers, best first, and the probability that the answer is empty.

    With one beam the likeliest token is taken each time, the one of the lowest id of equals. With
    more, the answers with the largest products of probabilities are kept; their length counts for
    nothing beside. An answer has `max_answer` tokens at most, its end included; those that have no
    end by then are returned after those that have one. The empty answer is not among them.

    Args:
        step: The decoder.
        past: What it remembers before the first token, for one beam.
        begin: The token it begins with.
        end: The token that ends an answer.
        max_answer: Most tokens of an answer.
        beams: How many answers are followed at once.
        ground: The window an answer must be words of; None lets it speak freely.
    """
    beam = _Beam(runs=None if ground is None else ground.begun())
    followed, done, empty = [beam], list[_Beam](), 0.0
    for length in range(max_answer):
        last = [beam.tokens[-1] if beam.tokens else begin for beam in followed]
        logs, past = step(np.asarray(last, dtype=np.int64), past)
        if length == 0:
            empty = float(np.exp(logs[0, end]))
        sums = np.stack(
            [_allowed(row, beam, ground, end) for row, beam in zip(logs, followed, strict=True)]
        )
        kept: list[tuple[int, _Beam]] = []
        for rank, (number, token) in enumerate(_largest(sums, 2 * beams)):
            longer = followed[number].with_token(token, float(sums[number, token]), end, ground)
            if token != end and len(kept) < beams:
                kept.append((number, longer))
            elif token == end and rank < beams:
                done.append(longer)
        done = sorted(done, key=lambda beam: -beam.log_score)[:beams]
        followed = [beam for _, beam in kept]
        # Products of probabilities only fall.
        if not kept or (len(done) == beams and done[-1].log_score >= followed[0].log_score):
            followed = []
            break
        rows = [number for number, _ in kept]
        past = {name: array[rows] for name, array in past.items()}
    return (
        *(_written(beam, ground, ended=True) for beam in done),
        *(_written(beam, ground, ended=False) for beam in followed),
    )[:beams], empty


def _allowed(
    logs: npt.NDArray[np.float64], beam: _Beam, ground: Ground | None, end: int
) -> npt.NDArray[np.float64]:
    """Returns a beam's score with each next token, minus infinity for those it may not have."""
    allowed = np.full(len(logs), ground is None)
    if ground is not None and beam.runs is not None:
        allowed[list(ground.next_tokens(beam.runs))] = True
        allowed[end] = bool(ground.whole(beam.runs))
    if not beam.tokens:
        allowed[end] = False
    return np.where(allowed, beam.log_score + logs, -np.inf)


def _largest(sums: npt.NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    """Returns row and column of the largest finite numbers, the first of equal ones first."""
    flat = sums.ravel()
    least = np.partition(flat, -count)[-count] if count < len(flat) else -np.inf
    places = np.flatnonzero((flat >= least) & np.isfinite(flat))
    order = places[np.argsort(-flat[places], kind="stable")][:count]
    return [(int(place) // sums.shape[1], int(place) % sums.shape[1]) for place in order]


def _written(beam: _Beam, ground: Ground | None, *, ended: bool) -> Written:
    words: tuple[tuple[int, int], ...] = ()
    if ground is not None and beam.runs is not None:
        words = ground.whole(beam.runs) if ended else ground.begun_words(beam.runs)
    return Written(
        tokens=beam.tokens,
        score=float(np.exp(beam.log_score)),
        ended=ended,
        words=words,
    )
