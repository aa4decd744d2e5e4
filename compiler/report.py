"""`cnna report`: what an artifact is predicted to cost and, with a run's figures, what it did cost.

`figures` makes one dict (the JSON form); `table` prints it; `report_html`, `report_picture` and `report_trace` show it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cnna.compiler.cost import DDR_BYTES_PER_CLOCK, Span, timeline, total_cycles
from cnna.host.artifact import Artifact
from cnna.host.errors import DataError
from cnna.hw.config import BEAT_BYTES

REPORT_MHZ = 300  # the clock that frames a second are stated for
Figures = dict[str, Any]


def figures(artifact: Artifact, measured: Mapping[str, Any] | None = None) -> Figures:
    """All figures of an artifact. measured: what `cnna run --json` wrote for it; DataError: for another one.

    Everything is of a whole batch. What was not measured is None. A layer's `bound` is what it is predicted to wait for most.
    """
    manifest, config = artifact.manifest, artifact.config
    spans = timeline(artifact.program, config)
    if measured is not None:
        _check(manifest, measured)
    cycles = total_cycles(spans)
    bandwidth = min(DDR_BYTES_PER_CLOCK, BEAT_BYTES * config.ports)
    layers = []
    for number, entry in enumerate(manifest["layers"]):
        own = measured["layers"][number] if measured else {}
        layers.append(_layer(entry, _busy(manifest, spans, number), own, config.macs))
    return {
        "name": manifest["name"],
        "config": config.name,
        "batch": manifest["batch"],
        "macs": manifest["macs"],
        "macs_per_cycle": config.macs,
        "ddr_bytes_per_cycle": bandwidth,
        "program_writes": manifest["program_writes"],
        "segments": dict(manifest["segments"]),
        "predicted": _total(manifest, cycles, config.macs),
        "measured": _total(manifest, measured["cycles"], config.macs) if measured and measured["cycles"] else None,
        "device": measured["device"] if measured else None,
        "layers": layers,
    }


def _check(manifest: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
    """DataError: figures of another artifact, or none."""
    try:
        names = [layer["name"] for layer in measured["layers"]]
        run = (measured["config"], measured["batch"], names)
        _ = measured["cycles"], measured["device"]
    except (KeyError, TypeError) as error:
        raise DataError(f"the measured figures are not what `cnna run --json` writes ({error} is missing)") from None
    wanted = (manifest["config"]["name"], manifest["batch"], [layer["name"] for layer in manifest["layers"]])
    for what, have, want in zip(("configuration", "batch", "layers"), run, wanted, strict=True):
        if have != want:
            raise DataError(f"the measured figures are of another artifact: their {what} is {have}, not {want}")


def _total(manifest: Mapping[str, Any], cycles: float, peak: int) -> Figures:
    batch, macs = manifest["batch"], manifest["macs"]
    return {
        "cycles": cycles,
        "mac_utilization": macs * batch / (cycles * peak) if cycles else None,
        "fps_at_300mhz": batch * REPORT_MHZ * 1e6 / cycles if cycles else None,
    }


def _busy(manifest: Mapping[str, Any], spans: Sequence[Span], layer: int) -> dict[str, int]:
    """Predicted clocks that each engine works for a layer."""
    busy: dict[str, int] = {}
    for span, command in zip(spans, manifest["commands"], strict=True):
        if command["layer"] == layer:
            busy[span.engine] = busy.get(span.engine, 0) + command["predicted_cycles"]
    return busy


def _layer(entry: Mapping[str, Any], busy: Mapping[str, int], own: Mapping[str, Any], peak: int) -> Figures:
    predicted, cycles = entry["predicted_cycles"], own.get("cycles")
    return {
        "name": entry["name"],
        "op": entry["op"],
        "engine": entry["engine"],
        "macs": entry["macs"],
        "predicted_cycles": predicted,
        "predicted_mac_utilization": entry["macs"] / (predicted * peak) if predicted else None,
        "bound": max(busy, key=lambda engine: busy[engine]) if busy else "nothing",
        "cycles": cycles,
        "mac_utilization": own.get("mac_utilization"),
        "ddr_read_bytes": entry["ddr_read_bytes"],
        "ddr_write_bytes": entry["ddr_write_bytes"],
        "stalls": own.get("stalls"),
    }


COLUMNS = (  # heading, key, format
    ("layer", "name", "{}"),
    ("op", "op", "{}"),
    ("engine", "engine", "{}"),
    ("MACs", "macs", "{:,}"),
    ("predicted", "predicted_cycles", "{:,}"),
    ("util.", "predicted_mac_utilization", "{:.1%}"),
    ("measured", "cycles", "{:,.0f}"),
    ("util.", "mac_utilization", "{:.1%}"),
    ("DDR read", "ddr_read_bytes", "{:,}"),
    ("written", "ddr_write_bytes", "{:,}"),
    ("bound by", "bound", "{}"),
)


def columns(found: Figures) -> list[tuple[str, str, str]]:
    """The columns of a table: those of measurements only where there are any."""
    return [c for c in COLUMNS if found["measured"] or c[1] not in ("cycles", "mac_utilization")]


def cell(layer: Mapping[str, Any], key: str, form: str) -> str:
    """One entry of a table as text."""
    value = layer[key]
    return "-" if value is None or (value == 0 and key.endswith("utilization")) else form.format(value)


def headline(found: Figures) -> list[str]:
    """The figures of the whole artifact, a line each."""
    lines = [
        f"{found['name']} for {found['config']}, batch {found['batch']}: {found['macs']:,} MACs an image, "
        f"{found['program_writes']:,} register writes, {found['segments']['constant']:,} bytes of constants"
    ]
    for kind in ("predicted", "measured"):
        if total := found[kind]:
            by = f" ({found['device']})" if kind == "measured" else ""
            lines.append(
                f"{kind}{by}: {total['cycles']:,.0f} cycles, {total['mac_utilization']:.1%} of the array, "
                f"{total['fps_at_300mhz']:,.1f} images a second at 300 MHz"
            )
    return lines


def table(found: Figures) -> str:
    """Headline and a line for each layer."""
    chosen = columns(found)
    rows = [[heading for heading, _, _ in chosen]]
    rows += [[cell(layer, key, form) for _, key, form in chosen] for layer in found["layers"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(chosen))]
    left = {"name", "op", "engine", "bound"}
    lines = []
    for row in rows:
        parts = [
            text.ljust(width) if key in left else text.rjust(width)
            for text, width, (_, key, _) in zip(row, widths, chosen, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join([*headline(found), "", *lines])
