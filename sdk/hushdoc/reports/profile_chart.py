"""The profile of a guarantee, epsilon over delta, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hushdoc.viewing.markup import safe

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 24, 24, 52
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def profile_chart(points: Sequence[tuple[float, float]], claimed: tuple[float, float]) -> str:
    """Returns the chart of a guarantee's (epsilon, delta) points; empty for fewer than two."""
    drawn = sorted({point for point in (*points, claimed) if point[1] > 0}, key=lambda p: p[1])
    if len(drawn) < 2:
        return ""
    low, high = math.log10(drawn[0][1]), math.log10(drawn[-1][1])
    if high - low < 0.1:
        return ""
    step, top = _scale(max(epsilon for epsilon, _ in drawn))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (math.log10(point[1]) - low) / (high - low)
        x = _LEFT + 14 + across * (WIDTH - _LEFT - _RIGHT - 28)
        y = HEIGHT - _BOTTOM - point[0] / top * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    line = " ".join(f"{x},{y}" for x, y in map(place, drawn))
    marks = "".join(_mark(place(point), point, point == claimed) for point in drawn)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="Epsilon for each delta" font-family="inherit" font-size="13">'
        f"{_grid(step, top)}"
        f'<polyline points="{line}" fill="none" stroke="#0f5ea8" stroke-width="2"/>{marks}'
        f"{_ticks(low, high)}</svg>"
    )


def _scale(largest: float) -> tuple[float, float]:
    """Returns the distance of grid lines and the height of the chart, in epsilon."""
    rough = max(largest, 1e-6) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough)
    return step, step * (math.floor(largest / step * 1.08) + 1)


def _grid(step: float, top: float) -> str:
    parts = []
    for index in range(round(top / step) + 1):
        y = HEIGHT - _BOTTOM - index * step / top * (HEIGHT - _TOP - _BOTTOM)
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="#dfe4ea"/><text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="#5a6572">{index * step:g}</text>'
        )
    parts.append(f'<text x="{_LEFT}" y="14" fill="#5a6572">epsilon (smaller is stronger)</text>')
    return "".join(parts)


def _ticks(low: float, high: float) -> str:
    parts = []
    for power in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1):
        across = (power - low) / (high - low)
        x = _LEFT + 14 + across * (WIDTH - _LEFT - _RIGHT - 28)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 20}" text-anchor="middle" '
            f'fill="#5a6572">1e{power}</text>'
        )
    parts.append(
        f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 8}" text-anchor="end" fill="#5a6572">'
        "delta (what epsilon does not cover)</text>"
    )
    return "".join(parts)


def _mark(at: tuple[float, float], point: tuple[float, float], is_claimed: bool) -> str:
    x, y = at
    label = safe(f"{point[0]:.3g}")
    if is_claimed:
        return (
            f'<circle cx="{x}" cy="{y}" r="6" fill="#b3261e"/>'
            f'<text x="{x}" y="{y - 12}" text-anchor="middle" font-weight="700" fill="#b3261e">'
            f"{label} (the guarantee)</text>"
        )
    return (
        f'<circle cx="{x}" cy="{y}" r="4" fill="#0f5ea8"/>'
        f'<text x="{x}" y="{y - 10}" text-anchor="middle" fill="#1d2530">{label}</text>'
    )
