"""Draws the fields that a model found on their page: highlighted words, captions, a legend."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc import arguments
from hushdoc.document.page import Page
from hushdoc.errors import BoxError
from hushdoc.viewing import rendition
from hushdoc.viewing.fields import PlacedField
from hushdoc.viewing.rectangles import filled
from hushdoc.viewing.rendition import INK, PAPER, RULE, View, font_of, single_line

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

    from hushdoc.viewing.rendition import Font

Colour = tuple[int, int, int]

PALETTE: tuple[Colour, ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (125, 85, 50),
    (90, 90, 90),
)
"""Okabe and Ito, "Color Universal Design" (2008): distinguishable with any colour vision. Brown and
grey replace yellow, which is unreadable on white, and black, the colour of print."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How one label is drawn; labels past the palette's end reuse its colours, dashed."""

    colour: Colour
    dashed: bool


def overlay(
    page: Page,
    fields: Iterable[PlacedField],
    *,
    image: Image.Image | Path | str | None = None,
    labels: Collection[str] = (),
) -> Image.Image:
    """Returns an image of the page with its fields.

    Args:
        page: The page the fields stand on.
        fields: The fields of this page.
        image: The page's image; by default the file that the page names, else its words drawn into
            their boxes.
        labels: All labels of the model, so that each keeps its colour from page to page.

    Raises:
        BoxError: A field does not stand on this page.
        InputError: The image file is missing, or the page's own has changed since it was read.
        UnsupportedFormatError: The image can't be read.
        LimitExceededError: It has more pixels than the document was opened with, or than
            `ReadingLimits` allows.
        MissingExtraError: Pillow is not installed.
    """
    rendition.require_pillow()
    from PIL import Image, ImageDraw

    arguments.instance(page, Page, what="The page", advice="Pass one of a document's `pages`.")
    with arguments.expecting("What should be fields or labels", "fields with boxes on this page"):
        found = sorted(fields, key=lambda item: (item.box.y0, item.box.x0, item.label))
        looks = styles({*labels, *(item.label for item in found)})
        problems = [item.box.problem(width=page.width, height=page.height) for item in found]
    for item, problem in zip(found, problems, strict=True):
        if problem is not None:
            raise BoxError(
                f"The box of '{arguments.printable(item.label)}' {problem}. Pass the fields of "
                "this page alone."
            )
    canvas = rendition.background(page, image)
    view = View(page=page, width=canvas.width, height=canvas.height)
    marks = Image.new("RGBA", canvas.size, (0, 0, 0, 0))
    pen = ImageDraw.Draw(marks)
    for item in found:
        _highlight(pen, view, item, looks[item.label].colour)
    for item in found:
        _outline(pen, view.place(item.box, margin=view.unit), looks[item.label], view.unit)
    left_out = _captions(pen, view, found, looks)
    canvas.paste(marks, (0, 0), marks)
    return _with_legend(canvas, _entries(found, looks, left_out), view.unit)


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """Returns a style for each label; the same labels always get the same styles."""
    return {
        label: Style(colour=PALETTE[index % len(PALETTE)], dashed=(index // len(PALETTE)) % 2 == 1)
        for index, label in enumerate(sorted(set(labels)))
    }


def _highlight(pen: ImageDraw.ImageDraw, view: View, item: PlacedField, colour: Colour) -> None:
    for index in item.word_ids:
        if 0 <= index < len(view.page.words):
            place = view.place(view.page.words[index].box, margin=view.unit // 2)
            pen.rectangle(place, fill=(*colour, 60))


def _outline(
    pen: ImageDraw.ImageDraw, place: tuple[int, int, int, int], style: Style, unit: int
) -> None:
    x0, y0, x1, y1 = place
    ink = (*style.colour, 255)
    if not style.dashed:
        pen.rectangle(place, outline=ink, width=unit)
        return
    dash = 5 * unit
    for start in range(x0, x1, 2 * dash):
        end = min(start + dash, x1)
        pen.line((start, y0, end, y0), fill=ink, width=unit)
        pen.line((start, y1, end, y1), fill=ink, width=unit)
    for start in range(y0, y1, 2 * dash):
        end = min(start + dash, y1)
        pen.line((x0, start, x0, end), fill=ink, width=unit)
        pen.line((x1, start, x1, end), fill=ink, width=unit)


def _captions(
    pen: ImageDraw.ImageDraw,
    view: View,
    fields: Sequence[PlacedField],
    looks: Mapping[str, Style],
) -> int:
    """Writes each field's label beside it and returns how many found no free place.

    A caption never covers a word, a field or another caption: on a crowded page the colours and
    the legend have to do.
    """
    font = font_of(view.font_size)
    taken = filled(
        view.width,
        view.height,
        [
            *(view.place(word.box) for word in view.page.words),
            *(view.place(item.box, margin=view.unit) for item in fields),
        ],
    )
    height = round(font.getbbox("Ag")[3]) + 2 * view.unit
    left_out = 0
    for item in fields:
        label = single_line(item.label)
        scored = () if math.isnan(item.score) else (f"{label} {item.score:.2f}",)
        for text in (*scored, label):
            size = (round(font.getlength(text)) + 4 * view.unit, height)
            spots = _spots(view, view.place(item.box, margin=view.unit), size)
            free = next((s for s in spots if not taken[s[1] : s[3], s[0] : s[2]].any()), None)
            if free is not None:
                taken[free[1] : free[3], free[0] : free[2]] = True
                _caption(pen, free, text, font, looks[item.label].colour)
                break
        else:
            left_out += 1
    return left_out


def _caption(
    pen: ImageDraw.ImageDraw,
    spot: tuple[int, int, int, int],
    text: str,
    font: Font,
    colour: Colour,
) -> None:
    x0, y0, x1, y1 = spot
    pen.rounded_rectangle(spot, radius=(y1 - y0) // 4, fill=(*colour, 255))
    middle = ((x0 + x1) / 2, (y0 + y1) / 2)
    pen.text(middle, text, font=font, fill=_text_on(colour), anchor="mm")


def _spots(
    view: View, place: tuple[int, int, int, int], size: tuple[int, int]
) -> list[tuple[int, int, int, int]]:
    """Returns where a caption may stand, best first: above, below, beside; kept on the page."""
    x0, y0, x1, y1 = place
    width, height = size
    gap = view.unit
    corners = [
        (x0, y0 - height - gap),
        (x1 - width, y0 - height - gap),
        (x0, y1 + gap),
        (x1 - width, y1 + gap),
        (x1 + gap, (y0 + y1 - height) // 2),
        (x0 - width - gap, (y0 + y1 - height) // 2),
    ]
    inside = [
        (max(0, min(x, view.width - width - 1)), max(0, min(y, view.height - height - 1)))
        for x, y in corners
    ]
    return [(x, y, x + width, y + height) for x, y in inside]


def _text_on(colour: Colour) -> Colour:
    """Returns black or white, whichever reads better (WCAG 2.2 relative luminance)."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in colour)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else (255, 255, 255)


def _entries(
    fields: Sequence[PlacedField], looks: Mapping[str, Style], left_out: int
) -> list[tuple[str, Style | None]]:
    """Returns the legend: every label drawn and how often."""
    counts = Counter(item.label for item in fields)
    entries: list[tuple[str, Style | None]] = [
        (f"{single_line(label)} ({counts[label]})", looks[label]) for label in sorted(counts)
    ]
    if left_out:
        entries.append((f"{left_out} captions left out: no room", None))
    return entries or [("no field found", None)]


def _with_legend(
    canvas: Image.Image, entries: Sequence[tuple[str, Style | None]], unit: int
) -> Image.Image:
    """Returns the image with its legend in a strip below it."""
    from PIL import Image, ImageDraw

    font = font_of(max(14, round(rendition.extent(*canvas.size) / 70)))
    line = round(font.getbbox("Ag")[3] * 1.7)
    rows = _wrapped(entries, font, canvas.width - 2 * line, line)
    total = Image.new("RGB", (canvas.width, canvas.height + line * len(rows) + line), PAPER)
    total.paste(canvas, (0, 0))
    pen: Any = ImageDraw.Draw(total)
    pen.line((0, canvas.height, canvas.width, canvas.height), fill=RULE, width=unit)
    for number, row in enumerate(rows):
        middle = canvas.height + line // 2 + line * number + line // 2
        for x, text, style in row:
            swatch = (x, middle - line // 4, x + line // 2, middle + line // 4)
            if style is not None:
                if not style.dashed:
                    pen.rectangle(swatch, fill=style.colour)
                _outline(pen, swatch, style, max(1, unit // 2))
            pen.text((x + line * 3 // 4, middle), text, font=font, fill=INK, anchor="lm")
    return total


def _wrapped(
    entries: Sequence[tuple[str, Style | None]], font: Font, width: int, line: int
) -> list[list[tuple[int, str, Style | None]]]:
    """Returns the legend's entries in rows, each with its place from the left."""
    rows: list[list[tuple[int, str, Style | None]]] = [[]]
    x = line
    for text, style in entries:
        needed = line * 3 // 4 + round(font.getlength(text)) + line
        if rows[-1] and x + needed > line + width:
            rows.append([])
            x = line
        rows[-1].append((x, text, style))
        x += needed
    return rows
