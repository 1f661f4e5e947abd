"""HTML by hand: every text is escaped, and the page needs nothing but itself."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hushdoc.arguments import printable

STYLE = """
:root { color-scheme: light; --ink: #1d2530; --soft: #5a6572; --line: #dfe4ea; --pale: #f6f8fa;
  --good: #1a7f4b; --good-pale: #e8f5ee; --warn: #9a6700; --warn-pale: #fff7e0;
  --bad: #b3261e; --bad-pale: #fdecea; --blue: #0f5ea8; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
header p.kicker { margin: 0; color: var(--soft); letter-spacing: .06em; text-transform: uppercase;
  font-size: .8rem; font-weight: 600; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: .3rem 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .7rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.3rem 0 .4rem; }
p { margin: .5rem 0; }
.soft { color: var(--soft); }
.lead { font-size: 1.12rem; }
.banners { display: grid; gap: .6rem; margin: 1.3rem 0; }
.banner { display: flex; gap: .8rem; align-items: flex-start; padding: .8rem 1rem;
  border-radius: .5rem; border-left: .4rem solid; }
.banner p { margin: .15rem 0 0; }
.banner .mark { font-weight: 700; font-size: 1.15rem; line-height: 1.4; width: 1.2rem; flex: none;
  text-align: center; }
.banner.good { background: var(--good-pale); border-color: var(--good); }
.banner.warn { background: var(--warn-pale); border-color: #d9a400; }
.banner.bad { background: var(--bad-pale); border-color: var(--bad); }
.good .mark, td.good { color: var(--good); } .warn .mark, td.warn { color: var(--warn); }
.bad .mark, td.bad { color: var(--bad); }
td.good, td.warn, td.bad { font-weight: 600; }
td.good:first-child, td.bad:first-child { white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .7rem .5rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
td code { overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; font-size: .82rem; }
ul { padding-left: 1.2rem; margin: .5rem 0; } li { margin: .35rem 0; }
code, pre { font: .82rem/1.5 ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace; }
pre { background: var(--pale); padding: .8rem 1rem; border-radius: .5rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .6rem 0; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.figure { flex: 1 1 9rem; background: var(--pale); border-radius: .5rem; padding: .8rem 1rem; }
.figure b { display: block; font-size: 1.5rem; line-height: 1.3; }
.figure span { color: var(--soft); font-size: .86rem; }
.bar { display: grid; grid-template-columns: 15rem 1fr 5rem; gap: .8rem; align-items: center;
  margin: .45rem 0; font-size: .92rem; }
.bar .track { background: var(--line); border-radius: .3rem; height: .8rem; overflow: hidden; }
.bar .fill { background: var(--blue); height: 100%; }
.bar .value { text-align: right; white-space: nowrap; font-weight: 600; }
svg { max-width: 100%; height: auto; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
@media (max-width: 40rem) { .bar { grid-template-columns: 1fr 4.5rem; }
  .bar .track { grid-row: 2; grid-column: 1 / 3; } }
@media print { main { max-width: none; padding: 0; } h2 { break-after: avoid; }
  tr, .banner, .figure, svg, .bar { break-inside: avoid; }
  .banner, .figure, .bar .track, .bar .fill { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } }
"""

MARKS = {"good": "&#10003;", "warn": "!", "bad": "&#10007;"}


class Cell(NamedTuple):
    """A cell of a table that is a verdict (good, warn, bad) or code."""

    style: str
    text: str


def safe(text: str) -> str:
    """Returns text for HTML: markup escaped, characters that control the display made visible."""
    return html.escape(printable(text, limit=len(text)), quote=True)


def page(title: str, body: Iterable[str], *, style: str = "", images: bool = False) -> str:
    """Returns one page that loads nothing and runs nothing; `body` has parts that are HTML already.

    `style` has further rules of CSS; with `images` the page may show those that stand in itself.
    """
    allowed = "; img-src data:" if images else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'unsafe-inline'{allowed}\">\n"
        f"<title>{safe(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Returns a headed section of parts that are HTML already; nothing where all are empty."""
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{safe(title)}</h2>\n{inner}\n</section>" if inner else ""


def paragraph(text: str, *, style: str = "") -> str:
    """Returns a paragraph of plain text."""
    return f'<p class="{style}">{safe(text)}</p>' if style else f"<p>{safe(text)}</p>"


def banner(verdict: str, title: str, *lines: str) -> str:
    """Returns a box; `verdict` is good, warn or bad, which its colour and its mark both say."""
    inner = "".join(f"<p>{safe(line)}</p>" for line in lines)
    return (
        f'<div class="banner {verdict}"><span class="mark">{MARKS[verdict]}</span>'
        f"<div><strong>{safe(title)}</strong>{inner}</div></div>"
    )


def bullets(items: Iterable[str]) -> str:
    """Returns a list of plain texts, nothing where there is none."""
    inner = "".join(f"<li>{safe(item)}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> str:
    """Returns a table of plain texts, nothing where there is no row."""
    head = "".join(f"<th>{safe(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    if not body:
        return ""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """Returns bars of (what, share from 0 to 1, value in words)."""
    return "".join(
        f'<div class="bar"><span>{safe(what)}</span><span class="track"><span class="fill" '
        f'style="display:block;width:{100 * min(1.0, max(0.0, share)):.2f}%"></span></span>'
        f'<span class="value">{safe(value)}</span></div>'
        for what, share, value in rows
    )


def figures(items: Iterable[tuple[str, str]]) -> str:
    """Returns large numbers, each with what it is."""
    inner = "".join(
        f'<div class="figure"><b>{safe(value)}</b><span>{safe(what)}</span></div>'
        for value, what in items
    )
    return f'<div class="figures">{inner}</div>' if inner else ""


def block(text: str) -> str:
    """Returns preformatted text, line by line."""
    return "<pre>" + "\n".join(safe(line) for line in text.splitlines()) + "</pre>"


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{safe(cell)}</td>"
    if cell.style == "code":
        return f"<td><code>{safe(cell.text)}</code></td>"
    return f'<td class="{cell.style}">{MARKS[cell.style]} {safe(cell.text)}</td>'
