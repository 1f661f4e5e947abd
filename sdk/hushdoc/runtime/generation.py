"""Answers that a decoder writes, token by token: greedily, by beams, freely or on words of a page.

A decoder is a function of each beam's next tokens and of what it remembers of those before; the
search is numpy alone. Grounded, the next token must continue a run of whole words of the window, so
that nothing can be written that does not stand on the page. No privacy follows from that.

An answer is usually words of the window, so that one beam asks the decoder ahead: about its token
and those behind it in the window, in one run. While the answer goes on like that, what follows is
known already; where it does not, the rest is dropped. The answer is that of one token at a time but
for rounding, which is coarse in int8 (Leviathan et al. 2023, Fast Inference from Transformers via
Speculative Decoding, with a page for the draft).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.runtime.decoding import log_softmax
from hushdoc.runtime.encoding import EncodedPage, IntArray
from hushdoc.runtime.session import Array

Past = Mapping[str, Array]
"""What a decoder remembers, by names: [beams, anything, tokens, anything]."""

Step = Callable[[IntArray, Past], tuple[npt.NDArray[np.floating[Any]], Past]]
"""From each beam's next tokens [beams, tokens] and the past to the logits of the token behind each
[beams, tokens, vocabulary] and the new past."""

AHEAD = 8
"""Most tokens of a window that are asked about before the answer has come to them: each makes a run
longer, and most answers are shorter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """An answer that a decoder wrote.

    Attributes:
        tokens: Without the end token.
        score: The product of the probabilities of its tokens, that of the end token included, also
            where it was cut off without one: such an answer must not look sure.
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
    # (first token, next token) of each run of the window that these tokens are.
    runs: tuple[tuple[int, int], ...]

    def with_token(self, token: int, log_score: float, end: int, ground: Ground) -> _Beam:
        """Returns it with one token more, or as it is with its score where that is the end."""
        if token == end:
            return replace(self, log_score=log_score)
        runs = ground.continued(self.runs, token)
        return _Beam(tokens=(*self.tokens, token), log_score=log_score, runs=runs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ground:
    """A window whose whole words an answer may be made of: tokens [start, stop) of a page."""

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

    def ahead(self, runs: Sequence[tuple[int, int]], most: int) -> list[int]:
        """Returns what comes next in the window, by the first of some runs of a token or more."""
        here = next((here for first, here in runs if here > first), self.stop)
        return [int(token) for token in self.page.ids[here : min(here + most, self.stop)]]

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
    ground: Ground,
    grounded: bool = True,
    beams: int = 1,
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
        ground: The window that answers are expected to be words of.
        grounded: Whether they must be; else it speaks freely.
    """
    followed, done, empty = [_Beam(runs=ground.begun())], list[_Beam](), 0.0
    draft: list[int] = []
    answered: npt.NDArray[np.floating[Any]] = np.zeros((1, 0, 0))
    for length in range(max_answer):
        if not answered.shape[1]:
            last = [beam.tokens[-1] if beam.tokens else begin for beam in followed]
            if beams == 1:
                draft = ground.ahead(followed[0].runs, min(AHEAD, max_answer - length - 1))
            given = np.asarray([[token, *draft] for token in last], dtype=np.int64)
            answered, past = step(given, past)
        logs, answered = log_softmax(answered[:, 0]), answered[:, 1:]
        if length == 0:
            empty = float(np.exp(logs[0, end]))
        allowed = [_allowed(beam, ground, end, len(logs[0]), grounded) for beam in followed]
        scores = np.asarray([[beam.log_score] for beam in followed])
        sums = np.where(allowed, scores + logs, -np.inf)
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
        if draft[:1] == [followed[0].tokens[-1]]:
            draft = draft[1:]
        else:
            rows, answered, draft = [number for number, _ in kept], answered[:, :0], []
            past = {name: array[rows, :, : length + 1] for name, array in past.items()}
    if followed and len(done) < beams:
        followed = _ended(followed, step, past, end)
    page = ground if grounded else None
    return (
        *(_written(beam, page, ended=True) for beam in done),
        *(_written(beam, page, ended=False) for beam in followed),
    )[:beams], empty


def _ended(followed: Sequence[_Beam], step: Step, past: Past, end: int) -> list[_Beam]:
    """Returns beams of the most tokens with scores as if they ended there, best first."""
    last = np.asarray([[beam.tokens[-1]] for beam in followed], dtype=np.int64)
    ends = log_softmax(step(last, past)[0][:, 0])[:, end]
    scored = [
        replace(beam, log_score=beam.log_score + float(log))
        for beam, log in zip(followed, ends, strict=True)
    ]
    return sorted(scored, key=lambda beam: -beam.log_score)


def _allowed(
    beam: _Beam, ground: Ground, end: int, vocabulary: int, grounded: bool
) -> npt.NDArray[np.bool_]:
    """Returns which tokens a beam may go on with."""
    allowed = np.full(vocabulary, not grounded)
    if grounded:
        allowed[list(ground.next_tokens(beam.runs))] = True
        allowed[end] = bool(ground.whole(beam.runs))
    if not beam.tokens:
        allowed[end] = False
    return allowed


def _largest(sums: npt.NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    """Returns row and column of the largest finite numbers, the first of equal ones first."""
    flat = sums.ravel()
    least = np.partition(flat, -count)[-count] if count < len(flat) else -np.inf
    places = np.flatnonzero((flat >= least) & np.isfinite(flat))
    order = places[np.argsort(-flat[places], kind="stable")][:count]
    return [(int(place) // sums.shape[1], int(place) % sums.shape[1]) for place in order]


def _written(beam: _Beam, ground: Ground | None, *, ended: bool) -> Written:
    words: tuple[tuple[int, int], ...] = ()
    if ground is not None:
        words = ground.whole(beam.runs) if ended else ground.begun_words(beam.runs)
    return Written(
        tokens=beam.tokens,
        score=float(np.exp(beam.log_score)),
        ended=ended,
        words=words,
    )
