"""Deliberate privacy bugs, kept as patches under tests/mutants, and the table of docs/audits.md.

    python benchmarks/mutants.py          writes the table into docs/audits.md

A file begins with three lines, `Bug:`, `Breaks:` and `Check:`, and goes on as a unified diff. The
check is what has to fail: the name of a witnessed command (`audit.COMMANDS`), or the id of a test.
Line numbers are not looked at: what a patch takes away must stand in its file exactly once, so that
code may move around it, and a patch that no longer applies is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "mutants"
PAGE = ROOT / "docs" / "audits.md"
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
HEAD = ("Bug", "Breaks", "Check")

ESCAPED = (
    "noise-4-percent-short",
    "noise-key-from-process-and-counter",
    "coins-from-a-fixed-seed",
    "draws-at-1.03-of-the-rate",
    "tables-draw-at-1.1-of-the-rate",
    "the-unit-is-always-document",
    "tables-keyed-by-a-counter",
    "a-non-finite-record-in-a-table",
    "clauses-with-a-tenth-of-the-noise",
    "classes-with-a-known-key",
    "forms-at-twice-the-rate",
)
"""Bugs that no test saw before there was a witness."""


class PatchError(Exception):
    """A patch that can't be read, or does not apply."""


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """One change of a file: `old` must stand in it once."""

    path: str
    old: str
    new: str

    def changed(self, root: Path) -> str:
        """Returns the file's text with the change."""
        text = (root / self.path).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise PatchError(
                f"what it takes away stands {count} times in {self.path}, expected once: "
                f"{self.old!r:.200}"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        name: Of its file.
        bug: What it is.
        breaks: What follows from it.
        check: What catches it.
        hunks: The changes.
    """

    name: str
    bug: str
    breaks: str
    check: str
    hunks: tuple[Hunk, ...]

    @contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Changes a copy of the repository inside the block."""
        before = {hunk.path: (root / hunk.path).read_text(encoding="utf-8") for hunk in self.hunks}
        try:
            for hunk in self.hunks:
                (root / hunk.path).write_text(hunk.changed(root), encoding="utf-8")
            yield
        except PatchError as error:
            raise PatchError(f"{self.name} does not apply: {error}") from error
        finally:
            for path, text in before.items():
                (root / path).write_text(text, encoding="utf-8")


def mutants(folder: Path = FOLDER) -> list[Mutant]:
    """Returns all bugs by name."""
    return [read(path) for path in sorted(folder.glob("*.patch"))]


def read(path: Path) -> Mutant:
    """Returns the bug that a file holds."""
    text = path.read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(Bug|Breaks|Check): (.+)$", text.partition("\n--- ")[0], re.M))
    hunks = tuple(_hunks(text))
    if tuple(fields) != HEAD or not hunks:
        raise PatchError(f"{path.name} is no patch with {', '.join(HEAD)} above it.")
    bug, breaks, check = fields.values()
    return Mutant(name=path.stem, bug=bug, breaks=breaks, check=check, hunks=hunks)


def _hunks(text: str) -> Iterator[Hunk]:
    for part in re.split(r"^(?=--- a/)", text, flags=re.M)[1:]:
        head, *bodies = re.split(r"^@@.*@@.*\n", part, flags=re.M)
        path = head.split("\n")[0].removeprefix("--- a/")
        for body in bodies:
            lines = body.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            yield Hunk(path=path, old=old, new=new)


def tables(found: list[Mutant]) -> str:
    """Returns the tables of the page."""
    by_name = {mutant.name: mutant for mutant in found}
    escaped = [by_name[name] for name in ESCAPED]
    others = [mutant for mutant in found if mutant.name not in ESCAPED]
    return (
        f"Bugs that no test saw before there was a witness and receipts:\n\n{_table(escaped)}\n"
        f"Others:\n\n{_table(others)}"
    )


def _table(found: list[Mutant]) -> str:
    lines = ["| bug | what it breaks | caught by |", "|---|---|---|"]
    for mutant in found:
        check = mutant.check
        shown = f"`{check}`" if "::" in check else f"the witness of {check}"
        bug = f"[{mutant.bug}](../tests/mutants/{mutant.name}.patch)"
        lines.append(f"| {bug} | {mutant.breaks} | {shown} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Returns the page with the table as the patches have it."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(mutants())}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
