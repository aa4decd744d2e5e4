"""One row of docs/performance.md: the cells of each of its tables, and whether it is stale or short of a floor."""

from collections.abc import Mapping
from typing import Any

from bench_host import HEADS, cells
from bench_rows import EXTRA, NETWORKS, PLANNED_BYTES, VARIED, VARIED_SHARE, Floor, Row

from cnna.cli.options import configuration
from cnna.compiler.explore.sizes import bram36, dsp48e2
from cnna.evaluate.speed.published import DPU

Found = Mapping[str, Any]
DSP = 2520  # of a ZU9
MAIN_HEADS = ("row", "fps", "floor", *HEADS, "array", "floor", "cycles", "predicted", "DSP", "DDR", "DPU fps", "what")
VARIED_HEADS = ("row", "fps", "floor", *HEADS, "pieces", "MACs", "array", "cycles", "predicted", "DSP", "DDR", "DPU fps", "what")
SLOW_HEADS = ("row", "fps", *HEADS, f"of {PLANNED_BYTES} B", "array", "cycles", "predicted", "DDR", "what")
SCALED_HEADS = ("pix", "MACs a clock", "DSP48E2", "BRAM36, estimated", "fps", *HEADS, "array", "cycles", "predicted", "what")


def is_stale(found: Found) -> bool:
    """Whether the row was measured with another program than today's, or with Verilog that is not proven to behave like today's."""
    measured = found["measured"]
    if not measured:
        return False
    verilog = (found.get("verilog_sha256"), *found.get("verilog_equals", ()))
    program, own = (measured.get(name) for name in ("program_sha256", "verilog_sha256"))
    return None in (program, own) or program != found.get("program_sha256") or own not in verilog


def place(row: Row) -> tuple[int, int]:
    """Where a row stands in its table."""
    return (*NETWORKS, *VARIED, *EXTRA).index(row.network), row.batch


def is_measured(found: Found) -> bool:
    """Whether the RTL has run the row."""
    return bool(found["measured"])


def best_of(found: Found) -> Found:
    """The figures of the RTL where it has run the row, else the predicted ones."""
    best: Found = found["measured"] or found["predicted"]
    return best


def floor_of(row: Row, found: Found) -> Floor:
    """The frames a second and the share of the array that a row must reach; None for what it need not."""
    fps, array = row.floor
    if fps is None and row.network in VARIED and row.ddr_bytes == PLANNED_BYTES and not is_stale(found):
        fps = round(VARIED_SHARE * found["predicted"]["fps_at_300mhz"])
    return fps, array


def is_short(row: Row, found: Found) -> bool:
    """Whether a row misses a floor."""
    pairs = zip(floor_of(row, found), (best_of(found)["fps_at_300mhz"], best_of(found)["mac_utilization"]), strict=True)
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
    return f"{found['macs_a_batch'] / (products * best_of(found)['cycles']):.2f}"


def _ddr(row: Row, best: Found) -> str:
    return f"{(best['ddr_read_bytes'] + best['ddr_write_bytes']) / (row.ddr_bytes * best['cycles']):.2f}"


def main(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    """A row of the first table, of two clocks, or of weights of 4 bits."""
    best, (fps, array) = best_of(found), row.floor
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


def varied(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    """A row of a network that has pieces on the CPU too."""
    best, (fps, _), macs = best_of(found), floor_of(row, found), found["macs_a_batch"]
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


def slow(row: Row, kept: Mapping[str, Found], counts: Found) -> tuple[str, ...]:
    """A row with a slower DDR, beside that with the usual one."""
    found, best = kept[row.key], best_of(kept[row.key])
    plain = kept.get(Row(row.network, row.batch).key)
    whole = f"{best['fps_at_300mhz'] / best_of(plain)['fps_at_300mhz']:.0%}" if plain else "-"
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


def scaled(row: Row, found: Found, counts: Found) -> tuple[str, ...]:
    """A row with another number of pixels a clock."""
    best, config = best_of(found), configuration(row.config or "zcu102")
    sizes = (f"{config.pix}", f"{config.macs:,}", f"{dsp48e2(config):,}", f"{bram36(config):g}")
    fps = (f"{best['fps_at_300mhz']:,.0f}", *cells(row, found, counts))
    figures = (*fps, f"{best['mac_utilization']:.3f}", f"{best['cycles']:,.0f}", _predicted(found))
    return (*sizes, *figures, _what(found))


def stalls(key: str, found: Found) -> tuple[str, ...]:
    """The shares of its clocks in which the array works, or waits for each cause."""
    measured = found["measured"]
    waits, cycles = measured["stalls"], measured["cycles"]
    works = cycles - sum(waits.values())
    return (key, *(f"{clocks / cycles:.1%}" for clocks in (works, *waits.values())))
