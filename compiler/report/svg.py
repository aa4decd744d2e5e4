"""Drawings of the report's page, as SVG text: engines over time, and how the array spends its clocks (`roofline` is the third).

Colours are CSS classes of the page, so that they follow its light or dark scheme. Every mark has a tooltip that says what it is.
"""

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any

from cnna.compiler.report.report import Figures
from cnna.spec.regmap import COUNTED, ENGINES

WIDTH = 1120
LEFT = 130  # where the drawing begins; names stand left of it
ROW, GAP = 20, 5
NARROWEST = 0.4  # the least width of a bar, and the widest gap that is closed
NUMBER_WIDTH = 17  # the width from which on a bar has room for its layer's number


def timeline(found: Figures) -> str:
    """Draws a row for each engine: predicted and, where a run has measured them, measured. Layers are numbered as in the table."""
    groups: list[tuple[str, list[str], list[Any]]] = [("predicted", list(ENGINES), found["timeline"]["predicted"])]
    if found["timeline"]["measured"]:
        groups.append(("measured", list(COUNTED), found["timeline"]["measured"]))
    most = max((bar[3] for _, _, bars in groups for bar in bars), default=0) or 1
    scale, top, parts = (WIDTH - LEFT - 10) / most, 0, []
    for kind, engines, bars in groups:
        top += 22
        parts.append(text(0, top - 6, kind, "strong"))
        for row, engine in enumerate(engines):
            y = top + row * (ROW + GAP)
            parts.append(text(LEFT - 10, y + 14, engine, "right"))
            parts.append(f'<rect class="lane" x="{LEFT}" y="{y}" width="{most * scale:.1f}" height="{ROW}"/>')
            parts += _row([bar for bar in bars if bar[0] == engine], y, scale, found)
        top += len(engines) * (ROW + GAP)
    parts += _clock_axis(top, most, scale)
    return svg(WIDTH, top + 40, parts)


def _row(bars: Sequence[Sequence[Any]], y: float, scale: float, found: Figures) -> list[str]:
    """The bars of one engine. Bars of one layer that nearly touch are joined."""
    merged: list[list[Any]] = []
    for engine, layer, begin, end in bars:
        if merged and merged[-1][1] == layer and (begin - merged[-1][3]) * scale < NARROWEST:
            merged[-1][3] = max(end, merged[-1][3])
        else:
            merged.append([engine, layer, begin, end])
    parts = []
    for engine, layer, begin, end in merged:
        x, width = LEFT + begin * scale, max((end - begin) * scale, NARROWEST)
        name = escape(found["layers"][layer]["name"]) if found["layers"] else "copy"
        about = f"{layer + 1} {name}: {engine}, {begin:,} to {end:,}, {end - begin:,} clocks"
        shade = " odd" if layer % 2 else ""
        parts.append(
            f'<rect class="{engine}{shade}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW}"><title>{about}</title></rect>'
        )
        if width > NUMBER_WIDTH:
            parts.append(text(x + width / 2, y + 14, str(layer + 1), "number"))
    return parts


def _clock_axis(y: float, most: int, scale: float) -> list[str]:
    step = _nice(most / 8)
    parts = []
    for clock in range(0, most + 1, step):
        x = LEFT + clock * scale
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 5}"/>')
        parts.append(text(x, y + 19, f"{clock:,}", "middle"))
    parts.append(text(LEFT - 10, y + 19, "clocks", "right"))
    return parts


def array(found: Figures) -> str:
    """Draws how the array spends its clocks: one bar predicted, one measured."""
    kinds = [kind for kind in ("predicted", "measured") if found[kind] and found[kind]["array"]]
    most = max((sum(found[kind]["array"].values()) for kind in kinds), default=0) or 1
    scale, parts = (WIDTH - LEFT - 10) / most, []
    for row, kind in enumerate(kinds):
        y, x, legend = row * 64, float(LEFT), float(LEFT)
        total = sum(found[kind]["array"].values()) or 1
        parts.append(text(LEFT - 10, y + 17, kind, "right"))
        for cause, clocks in found[kind]["array"].items():
            about = f"{cause.replace('_', ' ')} {clocks / total:.1%}"
            if clocks:
                width = clocks * scale
                parts.append(
                    f'<rect class="{cause}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="26"><title>{about}</title></rect>'
                )
                x += width
                parts.append(f'<rect class="{cause}" x="{legend:.0f}" y="{y + 36}" width="11" height="11"/>')
                parts.append(text(legend + 16, y + 46, about, ""))
                legend += 34 + 6.6 * len(about)
    return svg(WIDTH, max(64 * len(kinds) - 8, 1), parts)


def _nice(step: float) -> int:
    """1, 2 or 5 times a power of ten, not below `step`."""
    power = 10 ** int(log10(max(step, 1)))
    return next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= step)


def text(x: float, y: float, words: str, kind: str) -> str:
    """A text element. `kind` is its class, which says on which side of x it stands."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    """A whole drawing."""
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n' + "\n".join(parts) + "\n</svg>"
