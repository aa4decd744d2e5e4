"""The report as a picture: engines over time, clocks and utilisation of every layer, and the roofline."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO

from cnna.compiler.report.axis_numbers import linear, logarithmic
from cnna.compiler.report.charts import ENGINE_COLOURS, KIND_COLOURS
from cnna.compiler.report.labels import Rectangle, Spot, labels
from cnna.compiler.report.report import Figures, for_ddr
from cnna.compiler.report.roofline import limits, longest, point, roof, vector_roof

ROWS_AN_INCH = 5
TIMELINE_INCHES, ROOFLINE_INCHES = 2.6, 6.0  # heights; the second is the roofline's where bars go on below it
MARGIN_INCHES = 1.5  # of a height, for the axis and its title
FEWEST_BELOW = 5  # bars below the roofline: fewer are not worth an axis of their own
DPI = 110
NUMBER_POINTS, NAME_POINTS = 7, 8  # sizes of letters
NARROWEST = 0.3  # a gap narrower than so many pixels cannot be seen
SHADES = (1.0, 0.6)  # opacity of odd and even layers
SIZES = {"least_inches": 4.0, "most_inches": 40.0, "width_inches": 13.0}


def picture(found: Figures, file: Path | BinaryIO) -> None:
    """Writes a PNG."""
    drawn(found).savefig(file, dpi=DPI, format="png")


def drawn(found: Figures) -> Any:
    """Draws the matplotlib figure with all its parts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, beside = _heights(len(found["layers"]))
    figure = Figure(figsize=(SIZES["width_inches"], TIMELINE_INCHES + height), layout="constrained", dpi=DPI)
    FigureCanvasAgg(figure)
    predicted = f", predicted{for_ddr(found)}" if for_ddr(found) else ""
    figure.suptitle(f"{found['name']} on {found['config']}, batch {found['batch']}{predicted}")
    split = beside < len(found["layers"])
    below = [["bars", "roofline"], ["bars", "more"]][: 1 + split]
    ratios = (TIMELINE_INCHES, ROOFLINE_INCHES, height - ROOFLINE_INCHES) if split else (TIMELINE_INCHES, height)
    mosaic: Any = [["time", "time"], *below]
    places = figure.subplot_mosaic(mosaic, height_ratios=ratios)
    roofline = places["roofline"]
    rows = _draw_timeline(places["time"], found)
    _draw_bars(places["bars"], found, range(beside), height)
    if split:
        _draw_bars(places["more"], found, range(beside, len(found["layers"])), height - ROOFLINE_INCHES)
        for axes in (places["bars"], places["more"]):  # one scale, so that bars of both can be compared
            axes.set_xlim(0, max(each.get_xlim()[1] for each in (places["bars"], places["more"])))
    best = _draw_roofline(roofline, found)
    figure.draw_without_rendering()  # only now is it known where everything lies
    _number_timeline(places["time"], rows)
    _name_slope(roofline, found)
    _number(roofline, {n + 1: best[n] for n in longest(found) if n in best})
    return figure


def _heights(layers: int) -> tuple[float, int]:
    """The height of the part below the timeline, and how many layers' bars stand beside the roofline.

    The others stand below it, so that both columns have the same height.
    """
    whole = max(SIZES["least_inches"], layers / ROWS_AN_INCH + MARGIN_INCHES)
    both = (layers / ROWS_AN_INCH + 2 * MARGIN_INCHES + ROOFLINE_INCHES) / 2
    beside = ceil((both - MARGIN_INCHES) * ROWS_AN_INCH)
    if layers - beside < FEWEST_BELOW:
        return min(whole, SIZES["most_inches"]), layers
    if both <= SIZES["most_inches"]:
        return both, beside
    most = SIZES["most_inches"]  # bars are lower than usual then, and equally in both columns
    return most, ceil(layers * (most - MARGIN_INCHES) / (2 * (most - MARGIN_INCHES) - ROOFLINE_INCHES))


def _draw_timeline(axes: Any, found: Figures) -> list[list[Any]]:
    """Draws a row for each engine: predicted and, where a run has measured them, measured. Neighbouring layers differ in shade.

    Returns the bars of each row, from the top.
    """
    from matplotlib.patches import Patch

    names: list[str] = []
    rows: list[list[Any]] = []
    for kind, bars in found["timeline"].items():
        for engine in [engine for engine in ENGINE_COLOURS if any(bar[0] == engine for bar in bars or ())]:
            own = [bar for bar in bars if bar[0] == engine]
            for odd, opacity in enumerate(SHADES):
                spans = [(begin, end - begin) for _, layer, begin, end in own if layer % 2 == odd]
                axes.broken_barh(spans, (len(names) - 0.4, 0.8), color=ENGINE_COLOURS[engine], alpha=opacity, linewidth=0)
            names.append(f"{engine}, {kind}")
            rows.append(own)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.01)
    axes.set_xlabel("clocks (numbers: layers, as below, where there is room)")
    linear(axes.xaxis)
    shades = [
        Patch(color="gray", alpha=a, linewidth=0, label=f"{which} layers") for which, a in zip(("odd", "even"), SHADES, strict=True)
    ]
    axes.legend(handles=shades, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=NUMBER_POINTS, frameon=False)
    return rows


def _number_timeline(axes: Any, rows: Sequence[Sequence[Any]]) -> None:
    """Writes the layer's number into each bar that is wide enough; touching bars of one layer count as one bar.

    The axes must have been drawn.
    """
    letter = 0.68 * NUMBER_POINTS * DPI / 72
    scale = axes.transData.transform((1, 0))[0] - axes.transData.transform((0, 0))[0]  # pixels a clock
    for row, bars in enumerate(rows):
        merged: list[list[int]] = []
        for _, layer, begin, end in bars:
            if merged and merged[-1][0] == layer and (begin - merged[-1][2]) * scale < NARROWEST:
                merged[-1][2] = max(end, merged[-1][2])
            else:
                merged.append([layer, begin, end])
        for layer, begin, end in merged:
            if (end - begin) * scale > letter * (len(str(layer + 1)) + 1):
                about = {"fontsize": NUMBER_POINTS, "ha": "center", "va": "center", "color": "black" if layer % 2 else "white"}
                axes.text((begin + end) / 2, row, str(layer + 1), **about).set_in_layout(False)


def _draw_bars(axes: Any, found: Figures, which: range, inches: float) -> None:
    """Draws the clocks of some layers, the first at the top, and writes the utilisation beside each bar. inches: of height."""
    layers, measured = found["layers"][which.start : which.stop], bool(found["measured"])
    points = NUMBER_POINTS * min(1, inches * ROWS_AN_INCH / max(1, len(layers)))
    places = list(range(len(layers)))
    size = 0.4 if measured else 0.8
    shift = size / 2 if measured else 0
    bars = {"predicted": (-shift, [layer["predicted_cycles"] for layer in layers])}
    if measured:
        bars["measured"] = (shift, [layer["cycles"] or 0 for layer in layers])
    for kind, (up, clocks) in bars.items():
        axes.barh([place + up for place in places], clocks, size, label=kind, color=KIND_COLOURS[kind])
    for place, layer in zip(places, layers, strict=True):
        used = layer["mac_utilization"] if measured else layer["predicted_mac_utilization"]
        if used:
            axes.text(max(layer["predicted_cycles"], layer["cycles"] or 0), place, f" {used:.0%}", va="center", fontsize=points)
    axes.set_yticks(places, [f"{layer['name'][-32:]}  {n}" for n, layer in enumerate(layers, which.start + 1)], fontsize=points)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.margins(x=0.08)
    axes.set_xlabel("clocks (and utilisation of the array)")
    linear(axes.xaxis)
    # Above the axes, since bars are everywhere inside.
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=7, frameon=False)


def _draw_roofline(axes: Any, found: Figures) -> dict[int, Spot]:
    """Draws MACs a clock over MACs a byte of DDR traffic, with the limits of engines and memory.

    A line joins the predicted and the measured point of a layer. Returns the points by layer, measured ones where there are any.
    """
    peak, bandwidth, layers = found["macs_per_cycle"], found["ddr_bytes_per_cycle"], found["layers"]
    spots = {
        kind: {n: spot for n, layer in enumerate(layers) if (spot := point(layer, kind))} for kind in ("predicted", "measured")
    }
    low, high, least, most = limits(found)
    axes.plot(*zip(*roof(found), strict=True), color="gray", zorder=0)
    about = {"xytext": (-4, 4), "textcoords": "offset points", "ha": "right", "fontsize": NAME_POINTS}
    axes.annotate(f"array: {peak:,}", (high, peak), **about)
    if vector := vector_roof(found):
        axes.plot([max(low, vector / bandwidth), high], [vector, vector], color="silver", zorder=0)
        axes.annotate(f"vector engine: {vector:,}", (high, vector), **about)
    for number in spots["predicted"].keys() & spots["measured"].keys():
        axes.plot(*zip(spots["predicted"][number], spots["measured"][number], strict=True), color="silver", linewidth=0.8, zorder=0)
    for kind, found_spots in spots.items():
        if found_spots:
            axes.scatter(*zip(*found_spots.values(), strict=True), s=14, label=kind, color=KIND_COLOURS[kind])
            # Above the axes, since points may be anywhere inside.
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=7, frameon=False)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(least, most)  # room for the roof's name
    for axis in (axes.xaxis, axes.yaxis):
        logarithmic(axis)
    axes.set_xlabel("MACs a byte of DDR traffic")
    axes.set_ylabel("MACs a clock")
    return spots["measured"] or spots["predicted"]


def _name_slope(axes: Any, found: Figures) -> None:
    """Writes the name of the memory's limit above its line, if it fits the axes. The axes must have been drawn."""
    peak, bandwidth = found["macs_per_cycle"], found["ddr_bytes_per_cycle"]
    words = f"{found['ddr_limit']}: {bandwidth} bytes a clock"
    room = (0.68 * NAME_POINTS * len(words) + 12) * DPI / 72
    left, box = axes.get_xlim()[0], axes.get_window_extent()
    least = axes.transData.inverted().transform((box.x0 + room, box.y0))[0]
    x = max((left * peak / bandwidth) ** 0.5, least)
    about = {"xytext": (-8, 4), "textcoords": "offset points", "ha": "right", "fontsize": NAME_POINTS}
    axes.annotate(words, (x, min(x * bandwidth, peak)), **about).set_in_layout(False)


def _number(axes: Any, spots: Mapping[int, Spot]) -> None:
    """Writes the layers' numbers beside their points, where they can be read. The axes must have been drawn."""
    scale = DPI / 72  # pixels a point
    at = axes.transData.transform
    dots = [at(spot) for dots in axes.collections for spot in dots.get_offsets()]
    taken = [Rectangle(x - 4, y - 4, x + 4, y + 4) for x, y in dots]
    taken += [Rectangle(*artist.get_window_extent().extents) for artist in (*axes.texts, axes.get_legend()) if artist is not None]
    letter = 0.68 * NUMBER_POINTS * scale, 1.2 * NUMBER_POINTS * scale
    drawn = {number: tuple(at(spot)) for number, spot in spots.items()}
    for label in labels(drawn, taken, Rectangle(*axes.get_window_extent().extents), letter):
        place = label.box.left, (label.box.low + label.box.high) / 2
        about = {"fontsize": NUMBER_POINTS, "va": "center", "bbox": {"color": "white", "pad": 0.5}}
        axes.annotate(label.words, place, xycoords="figure pixels", **about).set_in_layout(False)
