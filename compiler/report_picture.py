"""The report as a picture: engines over time, clocks and utilisation of every layer, and the roofline that they lie under."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cnna.compiler.report import Figures
from cnna.compiler.report_labels import Box, Spot, labels
from cnna.compiler.report_roofline import longest, point
from cnna.hw.regmap import ENGINES

ROWS_AN_INCH = 5
TIMELINE_INCHES = 2.6
DPI = 110
NUMBER_POINTS, NAME_POINTS = 7, 8  # sizes of letters in the roofline
SIZES = {"least_inches": 4.0, "most_inches": 40.0, "width_inches": 13.0}


def picture(found: Figures, file: Path | BinaryIO) -> None:
    """Writes a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = found["layers"]
    height = min(max(SIZES["least_inches"], len(layers) / ROWS_AN_INCH + 1.5), SIZES["most_inches"])
    figure = Figure(figsize=(SIZES["width_inches"], TIMELINE_INCHES + height), layout="constrained", dpi=DPI)
    FigureCanvasAgg(figure)
    figure.suptitle(f"{found['name']} on {found['config']}, batch {found['batch']}")
    places = figure.subplot_mosaic([["time", "time"], ["bars", "roofline"]], height_ratios=(TIMELINE_INCHES, height))
    bars, roofline = places["bars"], places["roofline"]
    _draw_timeline(places["time"], found)
    _draw_bars(bars, found)
    best = _draw_roofline(roofline, found)
    figure.draw_without_rendering()  # what is where is known after that
    _number(roofline, {n + 1: best[n] for n in longest(found) if n in best})
    figure.savefig(file, dpi=DPI, format="png")


def _draw_timeline(axes: Any, found: Figures) -> None:
    """A row for each engine, predicted and, where a run has them, measured; neighbouring layers differ in shade."""
    rows = {engine: f"C{number}" for number, engine in enumerate(ENGINES)}
    names: list[str] = []
    for kind, bars in found["timeline"].items():
        for engine in [engine for engine in rows if any(bar[0] == engine for bar in bars or ())]:
            own = [bar for bar in bars if bar[0] == engine]
            for shade in (0, 1):
                spans = [(begin, end - begin) for _, layer, begin, end in own if layer % 2 == shade]
                axes.broken_barh(spans, (len(names) - 0.4, 0.8), color=rows[engine], alpha=0.6 if shade else 1, linewidth=0)
            names.append(f"{engine}, {kind}")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.01)
    axes.set_xlabel("clocks")


def _draw_bars(axes: Any, found: Figures) -> None:
    """Clocks a layer, from the first at the top; the utilisation as text."""
    layers, measured = found["layers"], bool(found["measured"])
    places = list(range(len(layers)))
    size = 0.4 if measured else 0.8
    shift = size / 2 if measured else 0
    axes.barh([p - shift for p in places], [layer["predicted_cycles"] for layer in layers], size, label="predicted")
    if measured:
        axes.barh([p + shift for p in places], [layer["cycles"] or 0 for layer in layers], size, label="measured")
    for place, layer in zip(places, layers, strict=True):
        used = layer["mac_utilization"] if measured else layer["predicted_mac_utilization"]
        if used:
            axes.text(max(layer["predicted_cycles"], layer["cycles"] or 0), place, f" {used:.0%}", va="center", fontsize=7)
    axes.set_yticks(places, [f"{layer['name'][-32:]}  {n}" for n, layer in enumerate(layers, 1)], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.08, y=0.01)
    axes.set_xlabel("clocks (and utilisation of the array)")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=7, frameon=False)  # above: bars are everywhere


def _draw_roofline(axes: Any, found: Figures) -> dict[int, Spot]:
    """MACs a clock over MACs a byte of DDR traffic, with the limits of array and memory; a line joins predicted and measured.

    Answers the points by layer, measured ones where there are any.
    """
    peak, bandwidth, layers = found["macs_per_cycle"], found["ddr_bytes_per_cycle"], found["layers"]
    spots = {
        kind: {n: spot for n, layer in enumerate(layers) if (spot := point(layer, kind))} for kind in ("predicted", "measured")
    }
    every = [spot for kind in spots.values() for spot in kind.values()] or [(1.0, 1.0)]
    low, high = min(x for x, _ in every) / 2, max(2 * peak / bandwidth, max(x for x, _ in every)) * 2
    axes.plot([low, peak / bandwidth, high], [low * bandwidth, peak, peak], color="gray", zorder=0)
    axes.annotate(f"array: {peak:,}", (high, peak), xytext=(-4, 4), textcoords="offset points", ha="right", fontsize=NAME_POINTS)
    middle = (low * peak / bandwidth) ** 0.5
    about = {"xytext": (-8, 4), "textcoords": "offset points", "ha": "right", "fontsize": NAME_POINTS}
    axes.annotate(f"DDR: {bandwidth} bytes a clock", (middle, middle * bandwidth), **about)
    for number in spots["predicted"].keys() & spots["measured"].keys():
        axes.plot(*zip(spots["predicted"][number], spots["measured"][number], strict=True), color="silver", linewidth=0.8, zorder=0)
    for kind, found_spots in spots.items():
        if found_spots:
            axes.scatter(*zip(*found_spots.values(), strict=True), s=14, label=kind)
            axes.legend(loc="lower right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=2 * peak)  # room for the roof's name
    axes.set_xlabel("MACs a byte of DDR traffic")
    axes.set_ylabel("MACs a clock")
    return spots["measured"] or spots["predicted"]


def _number(axes: Any, spots: Mapping[int, Spot]) -> None:
    """Numbers beside the points, as the bars have them, where each can be read; the axes have been drawn once."""
    scale = DPI / 72  # pixels a point
    at = axes.transData.transform
    dots = [at(spot) for dots in axes.collections for spot in dots.get_offsets()]
    taken = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in dots]
    taken += [Box(*artist.get_window_extent().extents) for artist in (*axes.texts, axes.get_legend()) if artist is not None]
    letter = 0.68 * NUMBER_POINTS * scale, 1.2 * NUMBER_POINTS * scale
    drawn = {number: tuple(at(spot)) for number, spot in spots.items()}
    for label in labels(drawn, taken, Box(*axes.get_window_extent().extents), letter):
        place = label.box.left, (label.box.low + label.box.high) / 2
        about = {"fontsize": NUMBER_POINTS, "va": "center", "bbox": {"color": "white", "pad": 0.5}}
        axes.annotate(label.words, place, xycoords="figure pixels", **about).set_in_layout(False)
