"""An invented invoice as a PDF file: words as text in their own typefaces, lines as shapes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch, Rectangle
from matplotlib.transforms import Affine2D

from hushdoc_training.invented import Plan, fonts
from hushdoc_training.invented.sheet import Colour, Ink, Mark

PIXELS_PER_INCH = 96
POINTS = 72 / PIXELS_PER_INCH
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def pdf(plan: Plan) -> bytes:
    """Returns the page as it was laid out, neither turned nor worn; no date is in the file."""
    sheet = plan.sheet
    figure = Figure(figsize=(sheet.width / PIXELS_PER_INCH, sheet.height / PIXELS_PER_INCH))
    pixels = Affine2D().scale(1, -1).translate(0, sheet.height).scale(1 / PIXELS_PER_INCH)
    place: dict[str, Any] = {"transform": pixels + figure.dpi_scale_trans}
    for order, mark in enumerate(sheet.marks):
        figure.add_artist(_shape(mark, zorder=order, **place))
    for ink in sheet.inks:
        if ink.segment in plan.order:
            figure.text(ink.x, ink.y, ink.text, zorder=len(sheet.marks), **_look(ink), **place)
    stream = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42}):  # TrueType, from which text can be read
        FigureCanvasPdf(figure).print_pdf(stream, metadata={"CreationDate": None})
    return stream.getvalue()


def _look(ink: Ink) -> dict[str, Any]:
    name = ink.font.rstrip(fonts.OVERSTRUCK)
    return {
        "fontproperties": FontProperties(fname=FONTS / f"{name}.ttf", size=ink.size * POINTS),
        "color": _colour(ink.colour),
        "rotation": 90 if ink.turned else 0,
        "parse_math": False,
    }


def _shape(mark: Mark, **settings: Any) -> Patch | Line2D:
    x0, y0, x1, y1 = mark.points[0], mark.points[1], mark.points[-2], mark.points[-1]
    look = {"linewidth": mark.thick * POINTS, **settings}
    if mark.shape not in ("rect", "ellipse"):
        dotted = ":" if mark.shape == "dots" else "-"
        look |= {"color": _colour(mark.colour), "linestyle": dotted}
        return Line2D(mark.points[::2], mark.points[1::2], **look)
    look |= {
        "edgecolor": _colour(mark.colour) if mark.thick else "none",
        "facecolor": _colour(mark.fill) if mark.fill else "none",
    }
    if mark.shape == "rect":
        return Rectangle((x0, y0), x1 - x0, y1 - y0, **look)
    return Ellipse(((x0 + x1) / 2, (y0 + y1) / 2), x1 - x0, y1 - y0, **look)


def _colour(colour: Colour) -> tuple[float, float, float]:
    red, green, blue = colour
    return red / 255, green / 255, blue / 255
