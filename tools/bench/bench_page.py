"""docs/performance.md from the figures in docs/performance.json: rows, where clocks go, and floors that are missed."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import bench_detectors as detectors
import bench_lines as lines
import bench_stream
from bench_host import ABOUT, ahead, paths_of
from bench_lines import DSP, Found, best_of, floor_of, is_measured, is_short, is_stale, place
from bench_rows import (
    BATCHES,
    CODED,
    DEEP,
    EXTRA,
    LAYER_CLOCKS,
    LAYER_SHARE,
    PIX,
    PLANNED_BYTES,
    SCALED,
    SLOW_BYTES,
    VARIED,
    VARIED_SHARE,
    WHY,
    Row,
    misjudged,
    rows,
    streams,
)

from cnna.evaluate.speed.published import DPU

PROSE = 128  # characters in a line of prose at most
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
"Array" is the share of the array's multiply-accumulates that compute the model. A *floor* is the least that a row is held to:
of its fps, or of the array's share.
[performance.json](performance.json) has every figure, layer by layer, and [equivalent.json](equivalent.json) the proofs.

The DPU's figures are for the ZCU102 (three B4096 cores at 281 MHz, many threads), from Xilinx/Vitis-AI, tag v3.0,
`docsrc/source/docs/reference/ModelZoo_VAI3.0_Github_web.htm`; an older board had 40.3 on VGG-19 and 373.3 on Inception-v2
(the same repository, tags v1.0 and v1.1, `AI-Model-Zoo/README.md`).
"""
_ABOUT_VARIED = f"""\
The CPU computes what the accelerator lacks. "Pieces" has the numbers of pieces on both sides, and "MACs" is the share of the
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


@dataclass(frozen=True)
class _Figures:
    """The rows that have figures. kept: these, by key. counts: of the host's work, by row (docs/host_cost.json).

    streamed: as `kept`, with the rows of streams.
    """

    known: tuple[Row, ...]
    kept: Mapping[str, Found]
    counts: Found
    streamed: Mapping[str, Found]

    @property
    def planned(self) -> list[Row]:
        """Those of the usual size and DDR."""
        return sorted((row for row in self.known if row.ddr_bytes == PLANNED_BYTES and not _is_other(row)), key=place)

    @property
    def two_clocks(self) -> list[Row]:
        return sorted((row for row in self.known if row.deep), key=place)

    @property
    def four_bits(self) -> list[Row]:
        return sorted((row for row in self.known if row.coded), key=place)

    @property
    def judged(self) -> list[Row]:
        """Those that may be short of a floor, or have a layer that is predicted wrong."""
        return [*self.planned, *self.two_clocks, *self.four_bits]

    def main(self, chosen: Iterable[Row]) -> str:
        """These rows as the first table shows them."""
        return _table(lines.MAIN_HEADS, (lines.main(row, self.kept[row.key], self.counts) for row in chosen))


def _is_other(row: Row) -> bool:
    return bool(row.pix or row.deep or row.coded)


def page(kept: Mapping[str, Found], counts: Found = MappingProxyType({})) -> str:
    """The whole text. kept: the rows by key. counts: of the host's work, by row (docs/host_cost.json)."""
    extra = [Row(network, batch) for network in EXTRA for batch in BATCHES]
    alone = {key: row for key, row in kept.items() if key not in {row.key for row in streams()}}
    found = _Figures(tuple(row for row in (*rows(), *extra) if row.key in alone), alone, counts, kept)
    sections = (_usual, _varied, _detectors, _two_clocks, _four_bits, _streams, _missed, _misjudged, _stalls, _slow, _scaled)
    return "\n".join((HEAD, _about(found), *filter(None, (section(found) for section in sections))))


def _about(found: _Figures) -> str:
    """What the modelled columns are, and where the DPU stands."""
    known, counts = found.known, found.counts
    cached = sum("cached" in paths_of(row, counts) for row in known)
    native = sum("native" in paths_of(row, counts) for row in known) - cached
    python = sum(bool(paths_of(row, counts)) for row in known) - native - cached
    said = ahead({row: found.kept[row.key] for row in known}, counts, DPU)
    wrapped = textwrap.fill(said, PROSE, break_long_words=False, break_on_hyphens=False)
    return ABOUT.strip().format(cached=cached or "no", native=native or "none", python=python or "none", ahead=wrapped) + "\n"


# A section takes all figures. It is empty where no row belongs to it; the first table is always there.
def _usual(found: _Figures) -> str:
    return found.main(row for row in found.planned if row.network not in VARIED)


def _varied(found: _Figures) -> str:
    shown = [lines.varied(row, found.kept[row.key], found.counts) for row in found.planned if row.network in VARIED]
    return _section("Detectors, maps and newer classifiers", _ABOUT_VARIED, lines.VARIED_HEADS, shown)


def _detectors(found: _Figures) -> str:
    return _section("From picture to boxes", detectors.ABOUT, detectors.HEADS, detectors.section(found.kept, found.counts))


def _two_clocks(found: _Figures) -> str:
    chosen = found.two_clocks
    return f"## Two clocks\n\n{_ABOUT_DEEP}{found.main(chosen)}" if chosen else ""


def _four_bits(found: _Figures) -> str:
    chosen = found.four_bits
    return f"## Weights of 4 bits\n\n{_ABOUT_CODED}{found.main(chosen)}" if chosen else ""


def _streams(found: _Figures) -> str:
    shown = bench_stream.section(found.streamed)
    return _section("Runs that follow each other", bench_stream.ABOUT, bench_stream.HEADS, shown)


def _missed(found: _Figures) -> str:
    missed = [_shortfall(row, found.kept[row.key]) for row in found.judged if is_short(row, found.kept[row.key])]
    missed += detectors.missed(found.kept, found.counts) + bench_stream.missed(found.streamed)
    return "## Short of a floor\n\n" + "\n".join(missed) + "\n" if missed else ""


def _shortfall(row: Row, found: Found) -> str:
    """One line: what is missed, by how much, and why."""
    best, (fps, array) = best_of(found), floor_of(row, found)
    parts = [f"{best['fps_at_300mhz']:,.0f} of {fps:,} fps ({best['fps_at_300mhz'] / fps - 1:+.1%})"] if fps else []
    if array:
        parts.append(f"array {best['mac_utilization']:.3f} of {array:.2f}")
    kind = "" if found["measured"] else ", predicted"
    return f"- **{row.key}**: {', '.join(parts)}{kind}. {WHY.get(row.key) or 'The cause is not named yet.'}"


def _misjudged(found: _Figures) -> str:
    about = f"Layers of over {LAYER_CLOCKS:,} clocks that are predicted worse than {LAYER_SHARE:.0%}.\n\n"
    wrong = [line for row in found.judged for line in _misjudged_layers(row, found.kept[row.key])]
    return _section("Where the predictor misjudges a layer", about, ("row", "layer", "measured", "predicted"), wrong)


def _misjudged_layers(row: Row, found: Found) -> list[tuple[str, ...]]:
    """A line of the table for each layer that the predictor misjudges."""
    if not is_measured(found) or is_stale(found):
        return []
    far = misjudged(found.get("layers", ()))
    named = [layer for layer in found.get("layers", ()) if layer[0] in far and layer[2] > LAYER_CLOCKS]
    return [(row.key, name, f"{clocks:,}", f"{guess:,.0f} ({guess / clocks - 1:+.1%})") for name, guess, clocks in named]


def _stalls(found: _Figures) -> str:
    about = "Shares of the measured clocks: the array works, or waits for what the column says.\n\n"
    measured = {key: row for key, row in found.kept.items() if is_measured(row)}
    causes = next((row["measured"]["stalls"] for row in measured.values()), ())
    heads = ("row", "works", *(cause.replace("_", " ") for cause in causes))
    return _section("Where the array's clocks go", about, heads, [lines.stalls(key, row) for key, row in measured.items()])


def _slow(found: _Figures) -> str:
    about = f"The same at {SLOW_BYTES} bytes a clock, beside the frames a second of {PLANNED_BYTES}.\n\n"
    chosen = sorted((row for row in found.known if row.ddr_bytes == SLOW_BYTES), key=place)
    return _section("A slower DDR", about, lines.SLOW_HEADS, [lines.slow(row, found.kept, found.counts) for row in chosen])


def _scaled(found: _Figures) -> str:
    about = f"ResNet-50, batch 1, with 2 MiB of feature memory each: {', '.join(f'`{config}`' for config in PIX.values())}.\n\n"
    sizes = [Row(SCALED, 1, pix=pix) if pix in PIX else Row(SCALED, 1) for pix in sorted((*PIX, 8))]
    chosen = [row for row in sizes if row.key in found.kept]
    shown = [lines.scaled(row, found.kept[row.key], found.counts) for row in chosen] if any(row.pix for row in chosen) else []
    return _section("Pixels a clock", about, lines.SCALED_HEADS, shown)


def _section(title: str, about: str, heads: Iterable[str], shown: list[tuple[str, ...]]) -> str:
    """A section with a table, if the table has a line."""
    return f"## {title}\n\n{about}{_table(heads, shown)}" if shown else ""


def _table(heads: Iterable[str], shown: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *shown)) + "\n"
