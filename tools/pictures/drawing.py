"""Writes SVG for the pictures of docs/: boxes, words and arrows, the same bytes on every machine."""

from collections.abc import Iterable, Sequence
from html import escape

FILL = {
    "spec": "#f7efc9",
    "hw": "#efe3f3",
    "compiler": "#dbe9f6",
    "pruning": "#e6e6f8",
    "host": "#e3f1df",
    "serve": "#e0eef0",
    "sim": "#fdebd3",
    "evaluate": "#f6e0e4",
    "jobs": "#f7e3e3",
    "cli": "#f2f2f2",
    "api": "#f2f2f2",
    "": "#ffffff",
}
STYLE = (
    "text{font-family:sans-serif;font-size:11px;text-anchor:middle;fill:#222}"
    ".name{font-family:monospace;font-weight:bold;font-size:12.5px}"
    ".room{font-family:monospace;fill:#555}"
    ".panel{text-anchor:start;font-style:italic;fill:#555}"
)
Point = tuple[float, float]


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """A whole file, on a white ground."""
    tip = '<path d="M0,0 L8,4 L0,8 z" fill="#444"/>'
    marker = f'<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">{tip}</marker>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
    )
    back = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{STYLE}</style><defs>{marker}</defs>", back, *parts, "</svg>", ""])


def box(left: float, top: float, width: float, height: float, fill: str, dashed: bool = False) -> str:
    """A rectangle; a dashed one is a frame around others."""
    more = ' stroke-dasharray="3 3"' if dashed else ""
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" fill="{fill}" stroke="#777"{more}/>'
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """One line. kind: a class of STYLE."""
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{chosen}>{escape(words)}</text>'


def arrow(title: str, points: Sequence[Point], curved: bool = True) -> str:
    """An arrow through the points, with a tip at the last one. Curved arrows bend smoothly. title: the arrow's tooltip."""
    (x, y), path = points[0], [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for next_x, next_y in points[1:]:
        if curved:
            bend = (next_y - y) / 2
            path.append(f"C{x:.1f},{y + bend:.1f} {next_x:.1f},{next_y - bend:.1f} {next_x:.1f},{next_y:.1f}")
        else:
            path.append(f"L{next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
    looks = 'fill="none" stroke="#444" stroke-width="1.1" marker-end="url(#tip)"'
    return f'<path d="{" ".join(path)}" {looks}><title>{escape(title)}</title></path>'
