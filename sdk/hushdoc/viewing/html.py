"""An answer as one web page: each field beside its box on the image of its page.

The page loads nothing and runs nothing: its images stand in it, and what links fields with their
boxes are anchors. Whatever a document says is text there, never markup.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.document.document import Document, required
from hushdoc.document.page import Page
from hushdoc.viewing import rendition
from hushdoc.viewing.fields import ShownAnswer, ViewedField, score_note
from hushdoc.viewing.markup import bullets, figures, page, paragraph, safe, section
from hushdoc.viewing.overlay import Style, styles

if TYPE_CHECKING:
    from hushdoc.reading.drawing import DrawPage

STYLE = """
main { max-width: 90rem; }
.sheet { display: grid; grid-template-columns: minmax(0, 3fr) minmax(18rem, 2fr); gap: 1.5rem;
  align-items: start; }
.image { position: relative; border: 1px solid var(--line); }
.image img { display: block; width: 100%; }
.image a { position: absolute; border: 2px solid; border-radius: 2px; box-sizing: content-box;
  margin: -3px 0 0 -3px; padding: 1px; }
.image a:hover, .image a:focus, .image a:target { background: rgba(255, 214, 0, .35);
  outline: 3px solid #d9a400; }
.found { position: sticky; top: 1rem; }
.found tr:target { background: var(--warn-pale); }
.found a { color: inherit; text-decoration: none; border-width: 0 0 3px; border-style: solid; }
.found td { white-space: pre-wrap; overflow-wrap: anywhere; }
.found td:first-child { min-width: 10rem; }
.found td.number { white-space: nowrap; text-align: right; }
.found tr.unsure { color: var(--soft); }
.plain { white-space: pre-wrap; overflow-wrap: anywhere; }
.plain a { color: inherit; text-decoration: none; border-width: 0 0 3px; border-style: solid; }
.plain a:target, .plain a:hover { background: rgba(255, 214, 0, .35); }
@media (max-width: 60rem) { .sheet { grid-template-columns: minmax(0, 1fr); }
  .found { position: static; } }
"""

_LINE_END = re.compile("\r\n?|[\n\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_BLANK = re.compile(r"([^\S ]+)")
"""Whitespace that is no plain space."""

_LONGEST_JPEG = 65_500
"""The longest side (pixels) of an image that libjpeg writes."""

Numbered = tuple[int, ViewedField, bool]
"""A field, its number in the answer, and whether it is below the threshold."""


def to_html(document: Document, answer: ShownAnswer, *, labels: Collection[str] = ()) -> str:
    """Returns a web page with the document's pages and the fields found in them.

    Args:
        document: What was read.
        answer: What was found in it.
        labels: All labels of the model, so that each keeps its colour from page to page.

    Raises:
        InputError: An argument is not a document or an answer, or a page's image can't be read.
        MissingExtraError: A package that a page's image needs is not installed.
    """
    required(document)
    with arguments.expecting("The answer or its labels", "what model.extract(document) returns"):
        numbered: list[Numbered] = [
            *((number, item, False) for number, item in enumerate(answer.fields)),
            *(
                (number, item, True)
                for number, item in enumerate(answer.below_threshold, start=len(answer.fields))
            ),
        ]
        looks = styles({*labels, *(item.label for _, item, _ in numbered)})
        counts = Counter(item.label for item in answer.fields)
        note = score_note(answer.calibrated_on)
    parts = [
        f'<header><p class="kicker">Fields of a document</p><h1>{safe(document.id)}</h1></header>',
        figures(
            [
                (str(len(answer.fields)), f"fields of {len(counts)} labels"),
                *(
                    [(str(len(answer.below_threshold)), "below the threshold, shown in grey")]
                    if answer.below_threshold
                    else []
                ),
                (f"{answer.coverage:.0%}", "of the words were read"),
            ]
        ),
        paragraph(note, style="soft") if numbered else "",
        section("What to know about this answer", bullets(answer.warnings)),
    ]
    if answer.source is not None:
        parts.append(section("Where the words came from", paragraph(str(answer.source))))
    if document.text is not None:
        parts.append(section("Text", _plain(document.text, numbered, looks)))
    from hushdoc.reading.drawing import kept_open

    with kept_open() as draw:
        for number, shown in enumerate(document.pages):
            mine = [item for item in numbered if item[1].page == number]
            parts.append(section(f"Page {number}", sheet(shown, mine, looks, draw)))
    return page(f"Fields of {document.id}", parts, style=STYLE, images=True)


def sheet(
    shown: Page,
    numbered: Sequence[Numbered],
    looks: Mapping[str, Style],
    draw: DrawPage | None = None,
) -> str:
    """Returns a page with the boxes of its fields, beside their table."""
    boxes = "".join(_anchor(shown, item, looks) for item in numbered)
    image = f'<div class="image"><img src="{_image(shown, draw)}" alt="The page">{boxes}</div>'
    found = _table(numbered, looks) or paragraph("No field was found on this page.", style="soft")
    return f'<div class="sheet">{image}<div class="found">{found}</div></div>'


def _anchor(shown: Page, numbered: Numbered, looks: Mapping[str, Style]) -> str:
    number, item, unsure = numbered
    if item.box is None:
        return ""
    place = (
        ("left", item.box.x0 / shown.width),
        ("top", item.box.y0 / shown.height),
        ("width", (item.box.x1 - item.box.x0) / shown.width),
        ("height", (item.box.y1 - item.box.y0) / shown.height),
    )
    rules = "".join(f"{name}:{100 * share:.3f}%;" for name, share in place)
    summary = safe(f"{item.label} {item.score:.2f}: {item.text}")
    return (
        f'<a id="box-{number}" href="#field-{number}" title="{summary}" aria-label="{summary}" '
        f'style="{rules}{_border(looks[item.label], unsure)}"></a>'
    )


def _border(style: Style, unsure: bool) -> str:
    red, green, blue = (138, 138, 138) if unsure else style.colour
    dashes = "border-style:dashed;" if style.dashed or unsure else ""
    return f"border-color:rgb({red},{green},{blue});{dashes}"


def _table(numbered: Sequence[Numbered], looks: Mapping[str, Style]) -> str:
    rows = "".join(
        f'<tr id="field-{number}"{" class=unsure" if unsure else ""}>'
        f'<td><a href="#box-{number}" style="{_border(looks[item.label], unsure)}">'
        f"{safe(item.label)}</a></td><td>{_lines(item.text)}</td>"
        f'<td class="number">{item.score:.2f}</td></tr>'
        for number, item, unsure in numbered
    )
    head = "<tr><th>field</th><th>text</th><th>score</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""


def _plain(text: str, numbered: Sequence[Numbered], looks: Mapping[str, Style]) -> str:
    """Returns a plain text with its fields underlined, beside their table."""
    parts: list[str] = []
    last = 0
    for number, item, unsure in sorted(numbered, key=lambda found: found[1].start or 0):
        start, stop = item.start, item.stop
        if start is None or stop is None or not last <= start < stop <= len(text):
            continue  # inside another field, whose underline stands for both
        parts.append(_lines(text[last:start]))
        parts.append(
            f'<a id="box-{number}" href="#field-{number}" title="{safe(item.label)}" '
            f'style="{_border(looks[item.label], unsure)}">{_lines(text[start:stop])}</a>'
        )
        last = stop
    shown = f'<div class="plain">{"".join(parts)}{_lines(text[last:])}</div>'
    found = _table(numbered, looks) or paragraph("No field was found.", style="soft")
    return f'<div class="sheet">{shown}<div class="found">{found}</div></div>'


def _lines(text: str) -> str:
    """Returns text for HTML whose line ends stay line ends, and other blanks what they are."""
    parts = _BLANK.split(_LINE_END.sub("\n", text))
    return "".join(part if part.isspace() else safe(part) for part in parts)


def _image(shown: Page, draw: DrawPage | None) -> str:
    """Returns a page's image, or a plain rendition of its words, as a data URI."""
    rendition.require_pillow()
    stream = io.BytesIO()
    image = rendition.background(shown, None, draw)
    # A photo as PNG is many times larger; text on white is sharper as PNG.
    if shown.image is None or max(image.size) > _LONGEST_JPEG:
        image.save(stream, format="PNG", optimize=True)
        subtype = "png"
    else:
        image.save(stream, format="JPEG", quality=85)
        subtype = "jpeg"
    return f"data:image/{subtype};base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
