"""The report as text: a headline, and a line for each layer. Columns of measurements appear only if there are measurements."""

from collections.abc import Mapping
from typing import Any

from cnna.compiler.report.report import Figures, for_ddr
from cnna.spec.host_time.end_to_end import ALONE, TO_ANSWER, by_stage, gaps, modelled, way
from cnna.spec.host_time.piece_times import PieceTime, piece_lines, several
from cnna.spec.manifest import ACCELERATOR

COLUMNS = (  # heading, key, format
    ("layer", "name", "{}"),
    ("op", "op", "{}"),
    ("engine", "engine", "{}"),
    ("MACs", "macs", "{:,}"),
    ("predicted", "predicted_cycles", "{:,}"),
    ("util.", "predicted_mac_utilization", "{:.1%}"),
    ("measured", "cycles", "{:,.0f}"),
    ("util.", "mac_utilization", "{:.1%}"),
    ("DDR read", "ddr_read_bytes", "{:,.0f}"),
    ("written", "ddr_write_bytes", "{:,.0f}"),
    ("DDR read (pred.)", "predicted_ddr_read_bytes", "{:,}"),
    ("written (pred.)", "predicted_ddr_write_bytes", "{:,}"),
    ("longest engine", "bound", "{}"),
    ("stalls", "stalls", "{}"),
)
WORDS = {"name", "op", "engine", "bound", "stalls"}  # keys whose values are not numbers
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CLOCKS, _BYTES = ("cycles", "mac_utilization", "stalls"), ("ddr_read_bytes", "ddr_write_bytes")


def printed(name: str) -> str:
    """A user's name in one line: control characters, which would break the line or command a terminal, are escaped."""
    return name.translate(_CONTROLS)


def columns(found: Figures) -> list[tuple[str, str, str]]:
    """The columns that have something to show. Without measured bytes they show predicted ones, and their headings say so."""
    absent = set(_CLOCKS) if found["measured"] is None else set()
    counted = any(layer["ddr_read_bytes"] is not None for layer in found["layers"])
    absent |= {f"predicted_{key}" for key in _BYTES} if counted else set(_BYTES)
    return [column for column in COLUMNS if column[1] not in absent]


def cell(layer: Mapping[str, Any], key: str, form: str) -> str:
    """One entry as text: "-" for what is unknown, and for a share of nothing."""
    value = layer[key]
    if key == "stalls":
        return stalls_text(value)
    return "-" if value is None or (value == 0 and key.endswith("utilization")) else form.format(value)


def stalls_text(stalls: Mapping[str, int] | None, most: int = 2) -> str:
    """The largest causes of stalls with their clocks."""
    greatest = sorted((stalls or {}).items(), key=lambda item: -(item[1] or 0))[:most]
    return ", ".join(f"{cause} {clocks:,}" for cause, clocks in greatest if clocks) or "-"


def headline(found: Figures) -> list[str]:
    """The figures of the whole artifact, one a line."""
    lines = [
        f"{found['name']} for {found['described']}, batch {found['batch']}: {found['macs']:,} MACs an image, "
        f"{found['program_writes']:,} register writes, {found['segments']['constant']:,} bytes of constants{of_batch(found)}"
    ]
    if found["coded_layers"]:
        lines.append(f"weights come as codes of 4 bits in {', '.join(found['coded_layers'])}")
    for kind in ("predicted", "measured"):
        if found[kind]:
            lines.append(_total_line(found, kind))
    lines += [f"{what}: {text}" for what, text in _stages(found).items() if text]
    if found["device"] and not found["measured"]:
        lines.append(f"the run was on {found['device']}, which counts no clocks: all figures are predicted")
    return lines


def _stages(found: Figures) -> dict[str, str | None]:
    """How long a batch alone takes, by stage, and how long the accelerator rests between two of a stream; and as a detector, whose
    boxes are decoded on integers.
    """
    boxes = found["to_boxes"]
    rate = boxes and modelled(boxes)
    how = f"(modelled, {way(found['predicted'])})"
    parts = {f"a batch alone by stage {how}": by_stage(found["predicted"])}
    parts[f"between the runs of two batches of a stream {how}"] = gaps(found["predicted"])
    if boxes:
        parts["with cnna.Detector, to boxes (modelled, natively)"] = (
            f"images a second {TO_ANSWER}: {rate}; a batch alone by stage: {by_stage(boxes)}"
        )
    return parts


def of_batch(found: Figures) -> str:
    """That figures are of a batch, where that is not one image; rates of images are not."""
    return f"; MACs of layers, clocks and DDR bytes are of the batch of {found['batch']}" if found["batch"] > 1 else ""


def _total_line(found: Figures, kind: str) -> str:
    """The figures of the whole, predicted or measured; the accelerator's figures appear only if something runs on it."""
    total, by = found[kind], f" ({found['device']})" if kind == "measured" else for_ddr(found)
    parts = []
    if total["cycles"]:
        parts += [f"{total['cycles']:,.0f} clocks", f"{total['mac_utilization']:.1%} of the array"]
        parts.append(f"{total['fps']:,.1f} images a second {ALONE} at {found['clock_mhz']} MHz")
    if kind == "predicted" and (text := modelled(total)):
        parts.append(f"{text} {TO_ANSWER} (modelled, {way(total)})")
    elif kind == "measured" and total["fps_end_to_end"] is not None:
        parts.append(f"{total['fps_end_to_end']:,.1f} {TO_ANSWER}")
    if moved := sum(total[key] for key in _BYTES if total[key] is not None):
        program = f" ({total['program_bytes']:,} of them the program)" if "program_bytes" in total else ""
        parts.append(f"{moved:,.0f} DDR bytes{program}")
    return f"{kind}{by}: {', '.join(parts) or 'nothing'}"


def pieces_lines(found: Figures) -> list[str]:
    """A table of the pieces if there are several, what bounds them, and an empty line."""
    times = [PieceTime(**time) for time in found["piece_times"]]
    return [*piece_lines(times), bound(found), ""] if several(times) else []


def bound(found: Figures) -> str:
    """Which side a batch waits for: two batches overlap, so the busier one decides."""
    times = [PieceTime(**time) for time in found["piece_times"]]
    here = sum(time.node_seconds for time in times if time.kind == ACCELERATOR)
    host = sum(time.seconds for time in times) - here
    busier = "the host" if host > here else "the accelerator"
    return f"{busier} bounds it: accelerator {here * 1e3:.3g} ms, host {host * 1e3:.3g} ms (the middle of what is modelled)"


def engine_lines(found: Figures) -> list[str]:
    """What each engine does, one line for each."""
    lines = []
    for entry in found["engines"]:
        commands = f"{entry['commands']:6,} command{'s,' if entry['commands'] != 1 else ', '}"
        line = f"{entry['engine']:7} {commands} busy {entry['predicted_busy_share'] or 0:6.1%} predicted"
        line += f", {entry['busy_share']:6.1%} measured" if entry["busy_share"] is not None else ""
        moved = entry["ddr_read_bytes"] + entry["ddr_write_bytes"]
        lines.append(line + (f", {moved:,} DDR bytes" if moved else ""))
    return lines


def table(found: Figures) -> str:
    """The whole report: headline, engines, and a line for each layer."""
    chosen = columns(found)
    rows = [[heading for heading, _, _ in chosen]]
    rows += [[printed(cell(layer, key, form)) for _, key, form in chosen] for layer in found["layers"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(chosen))]
    lines = []
    for row in rows:
        parts = [
            text.ljust(width) if key in WORDS else text.rjust(width)
            for text, width, (_, key, _) in zip(row, widths, chosen, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join([*headline(found), "", *pieces_lines(found), *engine_lines(found), "", *lines])
