"""The roofline of the report's page, as SVG text: each layer's speed under the limits of array, vector engine and memory."""

from collections.abc import Sequence
from html import escape
from math import log10

from cnna.compiler.report import Figures
from cnna.compiler.report_svg import LEFT, WIDTH, svg, text

HEIGHT = 460
LABEL = (13, 12)  # room of a number: across, down
LABELLED = 8  # layers that are numbered: those of the most clocks


def roofline(found: Figures) -> str:
    """MACs a clock over MACs a byte of DDR traffic: each layer with MACs under the limits of array, vector engine and memory."""
    plot = _Plot(found)
    parts = [*plot.grid(), *plot.roofs()]
    labelled = sorted(range(len(found["layers"])), key=lambda n: -found["layers"][n]["predicted_cycles"])[:LABELLED]
    taken: list[tuple[float, float]] = []
    numbered: dict[int, tuple[float, float]] = {}
    for number, layer in enumerate(found["layers"]):
        spots = {kind: spot for kind in ("predicted", "measured") if (spot := point(layer, kind))}
        drawn = {kind: plot.at(*spot) for kind, spot in spots.items()}
        if len(drawn) == 2:
            (x1, y1), (x2, y2) = drawn.values()
            parts.append(f'<line class="link" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
        for kind, (x, y) in drawn.items():
            about = f"{number + 1} {escape(layer['name'])}: {kind}, {spots[kind][1]:,.0f} MACs a clock"
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{about}</title></circle>')
            taken.append((x - LABEL[0] / 2, y + 4))
        if drawn and number in labelled:
            numbered[number] = list(drawn.values())[-1]
    for number, (x, y) in numbered.items():
        taken.append(_free_place(x, y, taken))
        parts.append(text(*taken[-1], str(number + 1), "small"))
    return svg(WIDTH, HEIGHT, parts)


def _free_place(x: float, y: float, taken: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Where a point's number stands: beside it, or farther off where another number or point stands in its way."""
    places = [
        (x + dx, y + 4 + dy) for down in range(9) for dy in (down * LABEL[1], -down * LABEL[1]) for dx in (7, 7 - 2 * LABEL[0])
    ]
    free = (at for at in places if not any(abs(at[0] - u) < LABEL[0] and abs(at[1] - v) < LABEL[1] for u, v in taken))
    return next(free, places[0])


def point(layer: Figures, kind: str) -> tuple[float, float] | None:
    """A layer in the roofline: MACs a byte (measured bytes where there are any), MACs a clock. None: it has no place there."""
    cycles = layer["cycles"] if kind == "measured" else layer["predicted_cycles"]
    if not layer["macs"] or not cycles:
        return None
    prefix = "" if kind == "measured" and layer["ddr_read_bytes"] is not None else "predicted_"
    moved = layer[f"{prefix}ddr_read_bytes"] + layer[f"{prefix}ddr_write_bytes"]
    return layer["macs"] / max(moved, 1), layer["macs"] / cycles


def limits(found: Figures) -> tuple[float, float, float, float]:
    """Least and most MACs a byte, least and most MACs a clock that the roofline shows."""
    spots = [spot for layer in found["layers"] for kind in ("predicted", "measured") if (spot := point(layer, kind))]
    peak, ridge = found["macs_per_cycle"], found["macs_per_cycle"] / found["ddr_bytes_per_cycle"]
    across = [x for x, _ in spots] + [ridge]
    return min(across) / 2, max(across) * 2, min([y for _, y in spots] + [peak / 10]) / 2, peak * 2


class _Plot:
    """The roofline's axes, both logarithmic."""

    def __init__(self, found: Figures) -> None:
        self.found, self.limits = found, limits(found)
        self.box = (LEFT, 12, WIDTH - 12, HEIGHT - 42)  # left, top, right, bottom

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point of the plot in the drawing."""
        left, top, right, bottom = self.box
        low, high, least, most = self.limits
        across, up = log10(x / low) / log10(high / low), log10(y / least) / log10(most / least)
        return left + across * (right - left), bottom - up * (bottom - top)

    def grid(self) -> list[str]:
        """A line for each power of ten, and the axes' names."""
        left, top, right, bottom = self.box
        low, high, least, most = self.limits
        parts = [f'<rect class="lane" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/>']
        for value in _powers(low, high):
            x, _ = self.at(value, most)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
            parts.append(text(x, bottom + 17, f"{value:,.10g}", "middle"))
        for value in _powers(least, most):
            _, y = self.at(high, value)
            parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            if y > top + 24:  # below the axis' name
                parts.append(text(left - 10, y + 4, f"{value:,.10g}", "right"))
        parts.append(text((left + right) / 2, bottom + 36, "MACs a byte of DDR traffic", "middle"))
        parts.append(text(left - 10, top + 12, "MACs a clock", "right"))
        return parts

    def roofs(self) -> list[str]:
        """Array and memory, and the vector engine's own roof, each with its name."""
        low, high, least, _ = self.limits
        peak, rate = self.found["macs_per_cycle"], self.found["ddr_bytes_per_cycle"]
        foot = max(low, least / rate)
        path = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (self.at(foot, foot * rate), self.at(peak / rate, peak), self.at(high, peak))
        )
        parts = [f'<polyline class="roof" points="{path}"/>']
        x, y = self.at(high, peak)
        parts.append(text(x - 6, y - 7, f"array: {peak:,} MACs a clock", "right"))
        x, y = self.at((foot * peak / rate) ** 0.5, (foot * rate * peak) ** 0.5)
        parts.append(text(x - 10, y - 4, f"DDR: {rate} bytes a clock", "right"))
        vector = self.found["vector_macs_per_cycle"]
        if any(layer["macs"] and layer["engine"] == "vector" for layer in self.found["layers"]) and vector > least:
            (x1, y), (x2, _) = self.at(max(low, vector / rate), vector), self.at(high, vector)
            parts.append(f'<line class="roof thin" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(text(x2 - 6, y - 6, f"vector engine: {vector:,} MACs a clock", "right"))
        return parts


def _powers(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(-9, 15) if low <= 10.0**n <= high]
