"""What people look at after wild_files.py: the files that went wrong, and the words in question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

MOST_FILES, MOST_WORDS, MOST_CHARACTERS = 200, 40, 200


def print_report(found: Sequence[Any]) -> None:
    """Prints files that failed without a typed error, that others read otherwise, or lose words."""
    for one in found:
        if one.kind in ("untyped", "hung"):
            print(f"{one.kind:<8} {one.path}  {one.detail}")
    for one in _worst(found)[:20]:
        pairs = ", ".join(f"{name} {value:.2f}" for name, value in one.pairs().items())
        print(f"against {one.against:.2f}  {one.path.name}: {pairs}")
    for one in found:
        if one.loses:
            lacking = " ".join(one.raw - one.words["hushdoc"])[:MOST_CHARACTERS]
            print(f"loses {one.loses} characters  {one.path.name}: {lacking}")


def page(found: Sequence[Any]) -> str:
    """Returns a page of HTML with the same, and the words that others read or don't."""
    failed = [one for one in found if one.kind in ("untyped", "hung")]
    return "\n".join(
        (
            "<!doctype html><meta charset='utf-8'><title>Files</title>",
            "<style>body{font:15px sans-serif;max-width:70em;margin:auto}"
            "td{vertical-align:top;border-top:1px solid #ccc;padding:4px}</style>",
            f"<h1>{len(found)} files</h1>",
            "<table><tr><th>failed<th>how</tr>",
            *(f"<tr><td>{escape(str(one.path))}<td>{escape(one.detail)}</tr>" for one in failed),
            "</table><table><tr><th>others agree<th>they alone<th>we alone</tr>",
            *(row for one in _worst(found)[:MOST_FILES] for row in _rows(one)),
            "</table>",
        )
    )


def _worst(found: Sequence[Any]) -> list[Any]:
    against = [one for one in found if one.against > 0]
    return sorted(against, key=lambda one: -one.against)


def _rows(one: Any) -> Iterator[str]:
    ours, *others = (words or Counter() for words in one.words.values())
    shared, either = others[0] & others[1], others[0] | others[1]
    pairs = "<br>".join(f"{name} {value:.2f}" for name, value in one.pairs().items())
    yield (
        f"<tr><td><b>{one.against:.2f}</b> {escape(str(one.path))}<br>{pairs}<br>"
        f"{escape(one.detail)}<td>{_some(shared - ours)}<td>{_some(ours - either)}</tr>"
    )


def _some(words: Counter[str]) -> str:
    said = " ".join(word for word, _ in words.most_common(MOST_WORDS))
    return escape(said + (" ..." if len(words) > MOST_WORDS else ""))
