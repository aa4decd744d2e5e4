"""The roofline's figures, for the page and the picture: each layer's speed, and the limits of array, vector engine and memory."""

from cnna.compiler.report.report import Figures

LABELLED = 8  # layers that are numbered: those with the most clocks


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


def roof(found: Figures) -> list[tuple[float, float]]:
    """The corners of the line under which memory and array keep a layer, within `limits`."""
    low, high, least, _ = limits(found)
    peak, rate = found["macs_per_cycle"], found["ddr_bytes_per_cycle"]
    foot = max(low, least / rate)
    return [(foot, foot * rate), (peak / rate, peak), (high, peak)]


def vector_roof(found: Figures) -> int:
    """The vector engine's MACs a clock; 0 if it multiplies nothing, or if its roof lies below the plot."""
    vector: int = found["vector_macs_per_cycle"]
    multiplies = any(layer["macs"] and layer["engine"] == "vector" for layer in found["layers"])
    return vector if multiplies and vector > limits(found)[2] else 0
