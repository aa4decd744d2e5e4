"""The roofline of the report's page, as SVG text: each layer's speed, and the limits of array, vector engine and memory."""

from html import escape
from math import log10

from cnna.compiler.report.labels import Rectangle, Spot, labels
from cnna.compiler.report.report import Figures
from cnna.compiler.report.svg import LEFT, WIDTH, svg, text

HEIGHT = 460
LETTER = (6.6, 12.0)  # width and height of a character on the page
RADIUS = 5  # of a point's circle
LABELLED = 8  # layers that are numbered: those with the most clocks


def roofline(found: Figures) -> str:
    """Draws each layer that multiplies: MACs a clock over MACs a byte of DDR traffic, under the limits of engines and memory."""
    plot = _Plot(found)
    names = plot.names()
    taken = [Rectangle(x - LETTER[0] * len(words), y - LETTER[1], x, y + 2) for x, y, words in names]
    spots: dict[int, Spot] = {}
    parts = [*plot.grid(), *plot.roofs(), *(text(x, y, words, "right") for x, y, words in names)]
    for number, layer in enumerate(found["layers"]):
        figures = {kind: spot for kind in ("predicted", "measured") if (spot := point(layer, kind))}
        drawn = {kind: plot.at(*spot) for kind, spot in figures.items()}
        if len(drawn) == 2:
            (x1, y1), (x2, y2) = drawn.values()
            parts.append(f'<line class="link" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
        for kind, (x, y) in drawn.items():
            about = f"{number + 1} {escape(layer['name'])}: {kind}, {figures[kind][1]:,.0f} MACs a clock"
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{about}</title></circle>')
            taken.append(Rectangle(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS))
            spots[number] = x, y
    for label in labels({number + 1: spots[number] for number in longest(found) if number in spots}, taken, plot.box, LETTER):
        parts.append(text(label.box.left, label.box.high - 2.5, label.words, "small"))
    return svg(WIDTH, HEIGHT, parts)


def longest(found: Figures) -> list[int]:
    """The layers to number in a roofline, those with the most clocks first."""
    layers = found["layers"]
    return sorted(range(len(layers)), key=lambda n: -layers[n]["predicted_cycles"])[:LABELLED]


def point(layer: Figures, kind: str) -> tuple[float, float] | None:
    """A layer's place in the roofline: MACs a byte (of measured bytes where there are any) and MACs a clock. None: it has no place.

    The clocks are those that the layer's engine works on it. The table counts differently, so that its clocks sum to the whole:
    where another layer has the array meanwhile, the clocks are that layer's. By the table's count, a depthwise layer beside it
    would lie above every roof, or nowhere. The layers that still lie above the memory's roof had their weights fetched during other
    layers.
    """
    measured = kind == "measured"
    work = layer["busy" if measured else "predicted_busy"]
    cycles = work.get(layer["engine"]) if work is not None else layer["cycles"] if measured else layer["predicted_cycles"]
    if not layer["macs"] or not cycles:
        return None
    prefix = "" if kind == "measured" and layer["ddr_read_bytes"] is not None else "predicted_"
    moved = layer[f"{prefix}ddr_read_bytes"] + layer[f"{prefix}ddr_write_bytes"]
    return layer["macs"] / max(moved, 1), layer["macs"] / cycles


def limits(found: Figures) -> tuple[float, float, float, float]:
    """The least and the most MACs a byte, then the least and the most MACs a clock that the roofline shows."""
    spots = [spot for layer in found["layers"] for kind in ("predicted", "measured") if (spot := point(layer, kind))]
    peak, ridge = found["macs_per_cycle"], found["macs_per_cycle"] / found["ddr_bytes_per_cycle"]
    across = [x for x, _ in spots] + [ridge]
    return min(across) / 2, max(across) * 2, min([y for _, y in spots] + [peak / 10]) / 2, peak * 2


class _Plot:
    """The roofline's axes, both logarithmic."""

    def __init__(self, found: Figures) -> None:
        self.found, self.limits = found, limits(found)
        self.box = Rectangle(LEFT, 12, WIDTH - 12, HEIGHT - 42)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the plot lies in the drawing."""
        left, top, right, bottom = self.box
        low, high, least, most = self.limits
        across, up = log10(x / low) / log10(high / low), log10(y / least) / log10(most / least)
        return left + across * (right - left), bottom - up * (bottom - top)

    def grid(self) -> list[str]:
        """A line for each power of ten, and the names of the axes."""
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
        """The roof of array and memory, and the vector engine's own."""
        peak, rate = self.found["macs_per_cycle"], self.found["ddr_bytes_per_cycle"]
        high, foot = self.limits[1], self._foot()
        path = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (self.at(foot, foot * rate), self.at(peak / rate, peak), self.at(high, peak))
        )
        parts = [f'<polyline class="roof" points="{path}"/>']
        if vector := vector_roof(self.found):
            (x1, y), (x2, _) = self.at(max(self.limits[0], vector / rate), vector), self.at(high, vector)
            parts.append(f'<line class="roof thin" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        return parts

    def names(self) -> list[tuple[float, float, str]]:
        """The names of the roofs: right end, baseline, text."""
        peak, rate = self.found["macs_per_cycle"], self.found["ddr_bytes_per_cycle"]
        high, foot = self.limits[1], self._foot()
        names = []
        for macs, words in ((peak, "array"), (vector_roof(self.found), "vector engine")):
            if macs:
                x, y = self.at(high, macs)
                names.append((x - 6, y - 6, f"{words}: {macs:,} MACs a clock"))
        x, y = self.at((foot * peak / rate) ** 0.5, (foot * rate * peak) ** 0.5)
        return [*names, (x - 10, y - 4, f"DDR: {rate} bytes a clock")]

    def _foot(self) -> float:
        """MACs a byte at which the memory's roof begins."""
        low, _, least, _ = self.limits
        return float(max(low, least / self.found["ddr_bytes_per_cycle"]))


def vector_roof(found: Figures) -> int:
    """The vector engine's MACs a clock; 0 if it multiplies nothing, or if its roof lies below the plot."""
    vector: int = found["vector_macs_per_cycle"]
    multiplies = any(layer["macs"] and layer["engine"] == "vector" for layer in found["layers"])
    return vector if multiplies and vector > limits(found)[2] else 0


def _powers(low: float, high: float) -> list[float]:
    return [10.0**n for n in range(-9, 15) if low <= 10.0**n <= high]
