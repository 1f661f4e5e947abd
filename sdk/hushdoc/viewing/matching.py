"""Many runs of pieces looked for at once, in time that is linear in what is searched.

The automaton is that of Aho and Corasick, "Efficient string matching" (CACM 18, 1975), over pieces
of text and not over characters.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence


class Runs:
    """What is looked for: runs of pieces, none of them empty."""

    def __init__(self, runs: Sequence[Sequence[str]]) -> None:
        """Builds the automaton; of equal runs the first is found."""
        self._next: list[dict[str, int]] = [{}]
        self._run: list[int | None] = [None]
        self._lengths = [len(run) for run in runs]
        for number, run in enumerate(runs):
            state = 0
            for piece in run:
                state = self._child(state, piece)
            if state and self._run[state] is None:
                self._run[state] = number
        self._back, self._shorter = self._links()

    def find(
        self, pieces: Iterable[str], accept: Callable[[int, int], bool] = lambda first, stop: True
    ) -> Iterator[tuple[int, int, int]]:
        """Yields the number of the longest run that ends at each place, its first piece and end.

        Shorter ones that end there lie inside it. `accept` is asked with first piece and end.
        """
        state = 0
        for stop, piece in enumerate(pieces, start=1):
            while state and piece not in self._next[state]:
                state = self._back[state]
            state = self._next[state].get(piece, 0)
            found = state if self._run[state] is not None else self._shorter[state]
            while found:
                number = self._run[found]
                if number is not None and accept(stop - self._lengths[number], stop):
                    yield number, stop - self._lengths[number], stop
                    break
                found = self._shorter[found]

    def _child(self, state: int, piece: str) -> int:
        known = self._next[state].get(piece)
        if known is None:
            known = self._next[state][piece] = len(self._next)
            self._next.append({})
            self._run.append(None)
        return known

    def _links(self) -> tuple[list[int], list[int]]:
        """Returns for each state the next shorter one, and the next shorter that ends a run."""
        back, shorter = [0] * len(self._next), [0] * len(self._next)
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            for piece, child in self._next[state].items():
                waiting.append(child)
                place = back[state]
                while place and piece not in self._next[place]:
                    place = back[place]
                back[child] = self._next[place].get(piece, 0)
                ends = self._run[back[child]] is not None
                shorter[child] = back[child] if ends else shorter[back[child]]
        return back, shorter


class Covered:
    """Places of which some are covered, each of them once."""

    def __init__(self, num_places: int) -> None:
        """Begins with none."""
        self._free = array("q", range(num_places + 1))

    def cover(self, start: int, stop: int) -> bool:
        """Covers the places from `start` to one before `stop`; returns whether any was free."""
        place = self._next_free(start)
        any_free = place < stop
        while place < stop:
            self._free[place] = place + 1
            place = self._next_free(place)
        return any_free

    def places(self) -> Iterator[int]:
        """Yields the covered places."""
        return (place for place, free in enumerate(self._free[:-1]) if free != place)

    def _next_free(self, place: int) -> int:
        found = place
        while self._free[found] != found:
            found = self._free[found]
        while self._free[place] != found:
            self._free[place], place = found, self._free[place]
        return found
