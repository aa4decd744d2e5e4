"""docs/performance.md from the figures in docs/performance.json: rows, where clocks go, and floors that are missed."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bench_host import ABOUT, HEADS, ahead, cells, paths_of
from bench_rows import (
    BATCHES,
    CODED,
    DEEP,
    DPU,
    EXTRA,
    LAYER_CLOCKS,
    LAYER_SHARE,
    NETWORKS,
    PIX,
    PLANNED_BYTES,
    SCALED,
    SLOW_BYTES,
    VARIED,
    VARIED_SHARE,
    WHY,
    Floor,
    Row,
    misjudged,
    rows,
)

from cnna.cli.options import configuration
from cnna.compiler.explore.sizes import bram36, dsp48e2

Found = Mapping[str, Any]
DSP = 2520  # of a ZU9
HEAD = f"""# Performance

Frames a second of whole networks at 300 MHz (*fps*): of the accelerator alone, by the RTL's own cycle counters. All ports share a
DDR that moves {PLANNED_BYTES} bytes a clock and answers after 120 clocks. This command measures a row again:

    make bench ROWS=resnet50/b1      # patterns too: ROWS='vgg19/* */b4'; without ROWS all that is not measured yet

For batch N, a DDR of B bytes a clock and configuration C, it does this:

    cnna models NETWORK -o m.onnx --calib calib.npz --test test.npz
    cnna quantize m.onnx --calib calib.npz -o q.onnx
    cnna compile q.onnx --config C --batch N -o m.cnna
    cnna run m.cnna --input test.npz --limit N --check --json r.json --ddr-bytes-per-cycle B

The weights are random, because clocks do not depend on them. *Predicted* means that `cnna report` predicts the row and
the RTL has not run it. *Stale* means that the RTL has run it, but the program or the Verilog has changed since. Verilog that
`tools/equivalent.py` has proven to behave like the measured one, clock by clock, counts as unchanged. The column
"predicted" has the predictor's clocks and their error. "DSP" is the share of the products that {DSP:,} DSP48E2 could compute
(two a clock, four at two clocks), and "DDR" the share of the bytes that the DDR could move; these are the physical limits.
[performance.json](performance.json) has every figure, layer by layer, and [equivalent.json](equivalent.json) the proofs.

The DPU's figures are for the ZCU102 (three B4096 cores at 281 MHz, many threads), from Xilinx/Vitis-AI, tag v3.0,
`docsrc/source/docs/reference/ModelZoo_VAI3.0_Github_web.htm`; an older board had 40.3 on VGG-19 and 373.3 on Inception-v2
(the same repository, tags v1.0 and v1.1, `AI-Model-Zoo/README.md`).
"""
_MAIN = ("row", "fps", "floor", *HEADS, "array", "floor", "cycles", "predicted", "DSP", "DDR", "DPU fps", "what")
_VARIED = ("row", "fps", "floor", *HEADS, "pieces", "MACs", "array", "cycles", "predicted", "DSP", "DDR", "DPU fps", "what")
_ABOUT_VARIED = f"""\
The CPU computes what the accelerator lacks. "Pieces" are the accelerator's + the CPU's, and "MACs" is the share of the
multiply-accumulates on the accelerator. "fps" and "cycles" count the accelerator's pieces alone. A row that has no floor
of its own must reach {VARIED_SHARE:.0%} of the frames a second that are predicted for the program that was measured.

"""
_ABOUT_DEEP = f"""\
The array of `{DEEP}` runs at twice the clock of the rest. So the same number of DSP48E2 does 8,192 multiply-accumulates
in a clock of 300 MHz, not 4,096.

"""
_ABOUT_CODED = f"""\
Fully connected layers have weights of 4 bits (`cnna quantize --fc-bits 4`), which `--config {CODED}` decodes ([how](codebook.md)).

"""
_SLOW = ("row", "fps", *HEADS, f"of {PLANNED_BYTES} B", "array", "cycles", "predicted", "DDR", "what")
_SCALE = ("pix", "MACs a clock", "DSP48E2", "BRAM36, estimated", "fps", *HEADS, "array", "cycles", "predicted", "what")


def page(kept: Mapping[str, Found], counts: Found = MappingProxyType({})) -> str:
    """The whole text. kept: the rows by key. counts: of the host's work, by row (docs/host_cost.json)."""
    extra = [Row(network, batch) for network in EXTRA for batch in BATCHES]
    known = [row for row in (*rows(), *extra) if row.key in kept]
    other = [row for row in known if row.pix or row.deep or row.coded]
    planned = sorted((row for row in known if row.ddr_bytes == PLANNED_BYTES and row not in other), key=_place)
    deep, coded = (sorted((row for row in known if getattr(row, kind)), key=_place) for kind in ("deep", "coded"))
    plain, varied = ([row for row in planned if (row.network in VARIED) == other] for other in (False, True))
    slow = sorted((row for row in known if row.ddr_bytes == SLOW_BYTES), key=_place)
    parts = [HEAD, _about(known, kept, counts), _table(_MAIN, (_main(row, kept[row.key], counts) for row in plain))]
    if varied:
        lines = (_varied(row, kept[row.key], counts) for row in varied)
        parts.append("## Detectors, maps and newer classifiers\n\n" + _ABOUT_VARIED + _table(_VARIED, lines))
    if deep:
        parts.append("## Two clocks\n\n" + _ABOUT_DEEP + _table(_MAIN, (_main(row, kept[row.key], counts) for row in deep)))
    if coded:
        parts.append(
            "## Weights of 4 bits\n\n" + _ABOUT_CODED + _table(_MAIN, (_main(row, kept[row.key], counts) for row in coded))
        )
    if missed := [_shortfall(row, kept[row.key]) for row in (*planned, *deep, *coded) if _is_short(row, kept[row.key])]:
        parts.append("## Short of a floor\n\n" + "\n".join(missed) + "\n")
    if wrong := [line for row in (*planned, *deep, *coded) for line in _misjudged(row, kept[row.key])]:
        about = f"Layers of over {LAYER_CLOCKS:,} clocks that are predicted worse than {LAYER_SHARE:.0%}.\n\n"
        heads = ("row", "layer", "measured", "predicted")
        parts.append("## Where the predictor misjudges a layer\n\n" + about + _table(heads, wrong))
    if stalls := [_stalls(key, found) for key, found in kept.items() if _measured(found)]:
        causes = kept[stalls[0][0]]["measured"]["stalls"]
        heads = ("row", "works", *(cause.replace("_", " ") for cause in causes))
        about = "Shares of the measured clocks: the array works, or waits for what the column says.\n\n"
        parts.append("## Where the array's clocks go\n\n" + about + _table(heads, stalls))
    if slow:
        about = f"The same at {SLOW_BYTES} bytes a clock, beside the frames a second of {PLANNED_BYTES}.\n\n"
        parts.append("## A slower DDR\n\n" + about + _table(_SLOW, (_slow(row, kept, counts) for row in slow)))
    scale = [Row(SCALED, 1, pix=pix) if pix in PIX else Row(SCALED, 1) for pix in sorted((*PIX, 8))]
    if (scaled := [row for row in scale if row.key in kept]) and any(row.pix for row in scaled):
        about = f"ResNet-50, batch 1, with 2 MiB of feature memory each: {', '.join(f'`{config}`' for config in PIX.values())}.\n\n"
        parts.append("## Pixels a clock\n\n" + about + _table(_SCALE, (_scale(row, kept[row.key], counts) for row in scaled)))
    return "\n".join(parts)


def _about(known: list[Row], kept: Mapping[str, Found], counts: Found) -> str:
    """What the modelled columns are, and where the DPU stands."""
    cached = sum("cached" in paths_of(row, counts) for row in known)
    native = sum("native" in paths_of(row, counts) for row in known) - cached
    python = sum(bool(paths_of(row, counts)) for row in known) - native - cached
    said = ahead({row: kept[row.key] for row in known}, counts, DPU)
    return ABOUT.strip().format(cached=cached or "no", native=native or "none", python=python or "none", ahead=said) + "\n"


def is_stale(found: Found) -> bool:
    """Whether the row was measured with another program than today's, or with Verilog that is not proven to behave like today's."""
    measured = found["measured"]
    if not measured:
        return False
    verilog = (found.get("verilog_sha256"), *found.get("verilog_equals", ()))
    program, own = (measured.get(name) for name in ("program_sha256", "verilog_sha256"))
    return None in (program, own) or program != found.get("program_sha256") or own not in verilog


def _place(row: Row) -> tuple[int, int]:
    return (*NETWORKS, *VARIED, *EXTRA).index(row.network), row.batch


def _measured(found: Found) -> bool:
    return bool(found["measured"])


def _best(found: Found) -> Found:
    best: Found = found["measured"] or found["predicted"]
    return best


def _floor(row: Row, found: Found) -> Floor:
    fps, array = row.floor
    if fps is None and row.network in VARIED and row.ddr_bytes == PLANNED_BYTES and not is_stale(found):
        fps = round(VARIED_SHARE * found["predicted"]["fps_at_300mhz"])
    return fps, array


def _is_short(row: Row, found: Found) -> bool:
    pairs = zip(_floor(row, found), (_best(found)["fps_at_300mhz"], _best(found)["mac_utilization"]), strict=True)
    return any(floor is not None and have < floor for floor, have in pairs)


def _what(found: Found) -> str:
    if not found["measured"]:
        return "*predicted*"
    return f"{'*stale*, ' if is_stale(found) else ''}RTL == reference, {found['measured']['date']}"


def _predicted(found: Found) -> str:
    predicted, measured = found["predicted"]["cycles"], found["measured"]
    return f"{predicted:,.0f}" + (f" ({predicted / measured['cycles'] - 1:+.1%})" if measured else "")


def _dsp(row: Row, found: Found) -> str:
    products = (4 if row.deep else 2) * DSP  # a clock
    return f"{found['macs_a_batch'] / (products * _best(found)['cycles']):.2f}"


def _ddr(row: Row, best: Found) -> str:
    return f"{(best['ddr_read_bytes'] + best['ddr_write_bytes']) / (row.ddr_bytes * best['cycles']):.2f}"


def _main(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    best, (fps, array) = _best(found), row.floor
    return (
        row.key,
        f"{best['fps_at_300mhz']:,.0f}",
        f"{fps:,}" if fps else "-",
        *cells(row, found, counts),
        f"{best['mac_utilization']:.3f}",
        f"{array:.2f}" if array else "-",
        f"{best['cycles']:,.0f}",
        _predicted(found),
        _dsp(row, found),
        _ddr(row, best),
        f"{DPU[row.network]:,.0f}" if row.network in DPU else "-",
        _what(found),
    )


def _varied(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    best, (fps, _), macs = _best(found), _floor(row, found), found["macs_a_batch"]
    return (
        row.key,
        f"{best['fps_at_300mhz']:,.0f}",
        f"{fps:,}" if fps else "-",
        *cells(row, found, counts),
        " + ".join(map(str, found["pieces"])),
        f"{macs / (macs + found['cpu_macs_a_batch']):.1%}",
        f"{best['mac_utilization']:.3f}",
        f"{best['cycles']:,.0f}",
        _predicted(found),
        _dsp(row, found),
        _ddr(row, best),
        f"{DPU[row.network]:,.0f}" if row.network in DPU else "-",
        _what(found),
    )


def _slow(row: Row, kept: Mapping[str, Found], counts: Found) -> tuple[str, ...]:
    found, best = kept[row.key], _best(kept[row.key])
    plain = kept.get(Row(row.network, row.batch).key)
    whole = f"{best['fps_at_300mhz'] / _best(plain)['fps_at_300mhz']:.0%}" if plain else "-"
    fps, share = f"{best['fps_at_300mhz']:,.0f}", f"{best['mac_utilization']:.3f}"
    return (
        row.key,
        fps,
        *cells(row, found, counts),
        whole,
        share,
        f"{best['cycles']:,.0f}",
        _predicted(found),
        _ddr(row, best),
        _what(found),
    )


def _scale(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    best, config = _best(found), configuration(row.config or "zcu102")
    sizes = (f"{config.pix}", f"{config.macs:,}", f"{dsp48e2(config):,}", f"{bram36(config):g}")
    fps = (f"{best['fps_at_300mhz']:,.0f}", *cells(row, found, counts))
    figures = (*fps, f"{best['mac_utilization']:.3f}", f"{best['cycles']:,.0f}", _predicted(found))
    return (*sizes, *figures, _what(found))


def _stalls(key: str, found: Found) -> tuple[str, ...]:
    measured = found["measured"]
    stalls, cycles = measured["stalls"], measured["cycles"]
    works = cycles - sum(stalls.values())
    return (key, *(f"{clocks / cycles:.1%}" for clocks in (works, *stalls.values())))


def _shortfall(row: Row, found: Found) -> str:
    """One line: what is missed, by how much, and why."""
    best, (fps, array) = _best(found), _floor(row, found)
    parts = [f"{best['fps_at_300mhz']:,.0f} of {fps:,} fps ({best['fps_at_300mhz'] / fps - 1:+.1%})"] if fps else []
    if array:
        parts.append(f"array {best['mac_utilization']:.3f} of {array:.2f}")
    kind = "" if found["measured"] else ", predicted"
    return f"- **{row.key}**: {', '.join(parts)}{kind}. {WHY.get(row.key) or 'The cause is not named yet.'}"


def _misjudged(row: Row, found: Found) -> list[tuple[str, ...]]:
    """A line of the table for each layer that the predictor misjudges."""
    if not found["measured"] or is_stale(found):
        return []
    far = misjudged(found.get("layers", ()))
    named = [layer for layer in found.get("layers", ()) if layer[0] in far and layer[2] > LAYER_CLOCKS]
    return [(row.key, name, f"{clocks:,}", f"{guess:,.0f} ({guess / clocks - 1:+.1%})") for name, guess, clocks in named]


def _table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)) + "\n"
