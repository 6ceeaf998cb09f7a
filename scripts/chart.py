"""Search time against size, as an SVG: both axes logarithmic, each line named at its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Series = Mapping[str, Sequence[tuple[int, float]]]  # texts and milliseconds, by the name of what was asked

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 600, 24, 360  # of the plot; the names stand at its right
LINE = 15  # between two names
# Told apart also by who sees red and green alike (Okabe and Ito's colours).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
FLOORS = ("FTS5", "exact scan")  # what is compared with, drawn thin and grey
NAMES = {"FTS5": "bare FTS5", "search": "memlite"}


def series(found: Iterable[Mapping[str, Any]]) -> Series:
    """The lines among bench_scale's figures: memlite, each rival, and the floors.

    memlite's is the one of its own process, where it was measured like its rivals, and otherwise bench_scale's own.
    """
    lines: dict[str, dict[int, float]] = {}
    for each in found:
        name, _, what = each["measure"].partition(": ")
        if each["value"] is not None and (what == "search" or (not what and name in ("search", *FLOORS))):
            # The floors are asked beside other things too: the first time is beside the search that is drawn.
            lines.setdefault(name, {}).setdefault(each["size"], each["value"])
    if "memlite" in lines:
        lines.pop("search", None)
    return {NAMES.get(name, name): sorted(points.items()) for name, points in lines.items()}


def draw(lines: Series) -> str:
    """The SVG. A line is a polyline; a series of one size is a point."""
    points = [point for line in lines.values() for point in line]
    if not points:
        raise SystemExit("there is no search to draw: the result has no size with one")
    sizes, times = zip(*points)
    x, xs = _axis(min(sizes), max(sizes), LEFT, RIGHT)
    y, ys = _axis(min(times), max(times), BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12" fill="#333333">',
        "<title>Search against the number of texts stored</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for value in xs:
        parts.append(f'<path d="M{x(value):.1f} {TOP}V{BOTTOM}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{value:,.0f}</text>')
    for value in ys:
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.10g}</text>')
    middle = (TOP + BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 16}" text-anchor="middle">texts stored</text>')
    parts.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">search p50, ms</text>')
    ends: dict[float, dict[str, float]] = {}  # where the names stand, by where the lines end
    for name, line in lines.items():
        ends.setdefault(x(line[-1][0]), {})[name] = y(line[-1][1])
    colours = _colours(lines)
    for name, line in sorted(lines.items(), key=lambda each: each[0] == "memlite"):  # which lies above the others
        drawn = " ".join(f"{x(size):.1f},{y(ms):.1f}" for size, ms in line)
        style = f'stroke="{colours[name]}" stroke-width="{3 if name == "memlite" else 1.6}"'
        style += ' stroke-dasharray="5 4"' if name in (NAMES.get(floor, floor) for floor in FLOORS) else ""
        parts.append(f'<polyline points="{drawn}" fill="none" stroke-linejoin="round" {style}/>')
        for size, ms in line:
            parts.append(f'<circle cx="{x(size):.1f}" cy="{y(ms):.1f}" r="3" fill="{colours[name]}"/>')
    for at, named in ends.items():
        for name, height in _apart(named).items():
            weight = ' font-weight="bold"' if name == "memlite" else ""
            parts.append(
                f'<text x="{at + 9:.1f}" y="{height + 4:.1f}" fill="{colours[name]}"{weight} stroke="#ffffff" '
                f'stroke-width="3" paint-order="stroke">{escape(name)}</text>'
            )
    return "\n".join((*parts, "</svg>")) + "\n"


def _axis(least: float, most: float, start: float, end: float) -> tuple[Any, list[float]]:
    """Where a value lies on a logarithmic axis that spans whole decades of 1, 2 and 5, and the decades to mark."""
    low, high = _round(least, math.floor), _round(most, math.ceil)
    if low == high:
        high = low * 10
    scale = (end - start) / math.log(high / low)
    marks = [10.0**power for power in range(-6, 12) if low <= 10.0**power * 1.000001 and 10.0**power <= high * 1.000001]
    return (lambda value: start + math.log(value / low) * scale), marks


def _round(value: float, to: Any) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    steps = [step * 10.0**power for power in range(-6, 12) for step in (1, 2, 5)]
    near = [step for step in steps if (step <= value * 1.000001 if to is math.floor else step >= value / 1.000001)]
    return max(near) if to is math.floor else min(near)


def _colours(lines: Iterable[str]) -> dict[str, str]:
    floors = {NAMES.get(floor, floor): grey for floor, grey in zip(FLOORS, ("#555555", "#8a8a8a"))}
    others = [name for name in lines if name not in floors]
    return floors | {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(others)}


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """The same in the same order, no two nearer than LINE, none below the plot."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, height in sorted(heights.items(), key=lambda each: each[1]):
        last = placed[name] = max(height, last + LINE)
    limit: float = BOTTOM
    for name in reversed(placed):
        placed[name] = min(placed[name], limit)
        limit = placed[name] - LINE
    return placed
