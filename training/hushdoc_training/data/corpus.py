"""Corpus: what a reader knows of a published data set, and what it met in the files it read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path

from hushdoc.labels import LabelledDocument, LabelSet

COPY = "copy under another name, left out"
"""A problem of a document that is left out because another one is the same."""

EXAMPLES = 5
"""How many cases of each problem are kept by name; all are counted."""

_UCSF = "the archive of industry documents of the University of California, San Francisco"
ARCHIVES: Mapping[str, str] = {"docile": _UCSF, "funsd": _UCSF}
"""Where pages of several corpora come from, so that one may stand in two of them: FUNSD's by way of
RVL-CDIP (Jaume et al. 2019, section III), DocILE's directly (Simsa et al. 2023, section 3)."""


def kin(name: str, protected: Iterable[str]) -> str | None:
    """Returns what a data set of such a name has in common with protected corpora, if anything.

    Example:
        >>> kin("DocILE, train", ["sroie"]), kin("sroie", ["sroie"])
        (None, 'the same data set')
    """
    named = re.findall("[a-z]+", name.casefold())
    for corpus in protected:
        if corpus in named:
            return "the same data set"
        archive = ARCHIVES.get(corpus)
        if archive is not None and archive in map(ARCHIVES.get, named):
            return archive
    return None


@dataclass(kw_only=True)
class Problems:
    """What was odd in files that were read all the same: counted by kind, the first ones named."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, where: str) -> None:
        """Counts one case of a kind, such as "value not found in the lines"."""
        self.counts[kind] += 1
        named = self.examples.setdefault(kind, [])
        if len(named) < EXAMPLES:
            named.append(where)

    def lines(self, kinds: Collection[str] | None = None) -> list[str]:
        """Returns a line for people for each kind, or of some, the most frequent first."""
        return [
            f"{count} x {kind}: {'; '.join(self.examples[kind])}"
            f"{'; ...' if count > len(self.examples[kind]) else ''}"
            for kind, count in self.counts.most_common()
            if kinds is None or kind in kinds
        ]


def recognising(holds: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Returns what answers the same, and no where a path can't be read: it never raises."""

    @wraps(holds)
    def recognises(path: Path) -> bool:
        try:
            return holds(path)
        except (OSError, ValueError, EOFError):
            return False

    return recognises


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A published data set: how its files are told apart and read.

    Attributes:
        name: Its word on the command line, such as "sroie".
        title: Its name and source for people.
        labels: Its fields as PrIeD-KIE's table 5 lists them, in its own spelling.
        documents: Documents of each published split (PrIeD-KIE, table 1).
        expected: What the files look like, for the text of an error.
        recognises: Whether a path holds it, by names and content; it reads little and never raises.
        read: Yields its documents sorted by name and counts what was odd in them.
    """

    name: str
    title: str
    labels: LabelSet
    documents: Mapping[str, int]
    expected: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Problems], Iterator[LabelledDocument]]
