"""The report as a picture: clocks and utilisation of every layer, and the roofline that they lie under."""

import os
from typing import Any

from cnna.compiler.report import Figures
from cnna.compiler.report_svg import point

ROWS_AN_INCH = 5
SIZES = {"least_inches": 4.0, "most_inches": 40.0, "width_inches": 13.0}


def picture(found: Figures, path: str | os.PathLike[str]) -> None:
    """Writes a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = found["layers"]
    height = min(max(SIZES["least_inches"], len(layers) / ROWS_AN_INCH + 1.5), SIZES["most_inches"])
    figure = Figure(figsize=(SIZES["width_inches"], height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{found['name']} on {found['config']}, batch {found['batch']}")
    bars, roofline = figure.subplots(1, 2)
    _draw_bars(bars, found)
    _draw_roofline(roofline, found)
    figure.savefig(path, dpi=110, format="png")


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
    axes.set_yticks(places, [layer["name"][-32:] for layer in layers], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel("clocks (and utilisation of the array)")
    axes.legend(loc="lower right")


def _draw_roofline(axes: Any, found: Figures) -> None:
    """MACs a clock over MACs a byte of DDR traffic, with the limits of array and memory."""
    peak, bandwidth = found["macs_per_cycle"], found["ddr_bytes_per_cycle"]
    points: dict[str, list[tuple[float, float]]] = {"predicted": [], "measured": []}
    for layer in found["layers"]:
        for kind, spots in points.items():
            if spot := point(layer, kind):
                spots.append(spot)
    every = [point for kind in points.values() for point in kind] or [(1.0, 1.0)]
    low, high = min(x for x, _ in every) / 2, max(2 * peak / bandwidth, max(x for x, _ in every)) * 2
    axes.plot([low, peak / bandwidth, high], [low * bandwidth, peak, peak], color="gray")
    for kind, found_points in points.items():
        if found_points:
            axes.scatter(*zip(*found_points, strict=True), s=14, label=kind)
            axes.legend(loc="lower right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("MACs a byte of DDR traffic")
    axes.set_ylabel("MACs a clock")
