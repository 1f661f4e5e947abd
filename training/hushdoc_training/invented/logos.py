"""Logos: the simple marks of companies, and the strokes of people's pens."""

from __future__ import annotations

from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Colour, Sheet

_WHITE: Colour = (255, 255, 255)
_PENS: tuple[Colour, ...] = ((15, 15, 20), (25, 35, 120), (20, 30, 80), (40, 40, 40))


def logo(
    sheet: Sheet, provider: Provider, x: int, y: int, side: int, colour: Colour | None = None
) -> None:
    """Draws this provider's mark in a square."""
    colour = colour or provider.colour
    manner, third, half = int(provider.habits[0] * 6), side // 3, side // 2
    match manner:
        case 0:
            sheet.ellipse(x, y, x + side, y + side, fill=colour)
            sheet.ellipse(
                x + side // 4, y + side // 4, x + side * 3 // 4, y + side * 3 // 4, fill=_WHITE
            )
        case 1:
            sheet.frame(x, y, x + side, y + side, fill=colour, thick=0)
            sheet.frame(x + third, y + third, x + side, y + side, fill=_WHITE, thick=0)
        case 2:
            for step in range(3):
                top = y + side - (step + 1) * third
                sheet.frame(
                    x + step * third,
                    top,
                    x + (step + 1) * third - 2,
                    y + side,
                    fill=colour,
                    thick=0,
                )
        case 3:
            sheet.ellipse(x, y, x + side, y + side, thick=3, colour=colour)
            sheet.line(x, y + half, x + side, y + half, thick=3)
        case 4:
            for step in range(4):
                top = y + step * side // 4
                sheet.frame(
                    x, top, x + side - step * side // 6, top + side // 8, fill=colour, thick=0
                )
        case _:
            sheet.frame(x, y, x + side, y + side, thick=3, colour=colour)
            sheet.ellipse(
                x + half // 2, y + half // 2, x + half * 3 // 2, y + half * 3 // 2, fill=colour
            )


def scrawl(sheet: Sheet, rng: Draws, x0: int, x1: int, y: int) -> None:
    """Draws a signature that nobody can read, standing on y."""
    points: list[int] = []
    x, width = float(x0), min(x1 - x0, rng.integer(60, 150))
    for place in range(rng.integer(9, 20)):
        swing = rng.integer(8, 24) if place % 2 else -rng.integer(-2, 6)
        points += [round(x), y - swing]
        x = min(x + width * rng.real(0.0, 0.16), x0 + width)
    sheet.curve(points, rng.pick(_PENS))
