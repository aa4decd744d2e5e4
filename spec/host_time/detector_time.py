"""Images a second of a detector that the host decodes on integers, modelled: its programs without the tail, and the decode.

The decode's instructions are a sum that was fitted to counts of aarch64 code (docs/detectors.md). The caller's thread does it.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from cnna.spec.detection.heads import DetectorEntry
from cnna.spec.host_time.end_to_end import TO_ANSWER, EndToEnd, end_to_end
from cnna.spec.host_time.host_model import DETECTOR_PYTHON, INT8_UNIT, NATIVE_FLOAT
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import BYTES, programs_of
from cnna.spec.manifest import CPU, PieceEntry

CANDIDATES = 100  # in a picture
CANDIDATE_LINES = 9  # of the accelerator's memory for a candidate, at most: 144 channels in words of 16
SCAN_INSTRUCTIONS = 0.2  # for a byte that is scanned: of each class, or of the objectness alone
GRID_INSTRUCTIONS = 5_000  # for a grid: its thresholds
LABEL_INSTRUCTIONS = 5  # for each class of a cell that is looked at
BIN_INSTRUCTIONS = 64  # for each bin of a box's four distances
CANDIDATE_INSTRUCTIONS = 800  # for a candidate: its place in the order, its box, and how it overlaps others


def candidate_instructions(labels: int, bins: int) -> int:
    """Of one candidate, of so many classes. bins: of each of its distances."""
    return CANDIDATE_INSTRUCTIONS + LABEL_INSTRUCTIONS * labels + (BIN_INSTRUCTIONS * bins if bins > 1 else 0)


def decode_instructions(entry: DetectorEntry) -> float:
    """Of a picture."""
    cells = [grid["size"][0] * grid["size"][1] for grid in entry["grids"]]
    each = [1 if grid["objectness"] else entry["labels"] for grid in entry["grids"]]
    bins = max(number["bins"] for number in entry["grids"][0]["box"])
    one = candidate_instructions(entry["labels"], bins)
    scanned = sum(count * channels for count, channels in zip(cells, each, strict=True))
    return SCAN_INSTRUCTIONS * scanned + GRID_INSTRUCTIONS * len(cells) + CANDIDATES * one


def detector_end_to_end(entry: DetectorEntry, pieces: Sequence[PieceEntry], cycles: float, clock_mhz: int, batch: int) -> EndToEnd:
    """The model of a detector's pieces with `cnna.Detector`, with the native library, for pictures of the input's size."""
    without = pieces[:-1] if pieces[-1]["kind"] == CPU else pieces
    found = end_to_end(without, cycles, clock_mhz, batch)
    elements = batch * sum(prod(port["shape"]) for program in programs_of(without) for port in program["outputs"])
    decode = HostWork(libraries=batch * decode_instructions(entry))
    more = decode.plus(DETECTOR_PYTHON.work).plus(INT8_UNIT.work, elements / BYTES)
    stream, single = (work.plus(NATIVE_FLOAT.work, -elements).plus(more) for work in (found.stream, found.single))
    return replace(found, stream=stream, single=single, decode=decode)


def gain(entry: DetectorEntry, pieces: Sequence[PieceEntry], cycles: float, clock_mhz: int, batch: int) -> str:
    """Pictures a second at the slow end, with the tail and with the decode on integers.

    Where the model leaves the decode to its user, its own time says nothing of boxes, so that the second number stands alone.
    """
    before = end_to_end(pieces, cycles, clock_mhz, batch).fps()
    after = detector_end_to_end(entry, pieces, cycles, clock_mhz, batch).fps()
    if before is None or after is None:
        return ""
    first = f"{_rate(before.slow)} -> " if pieces[-1]["kind"] == CPU and before.slow < after.slow else ""
    return f"{first}{_rate(after.slow)} pictures a second {TO_ANSWER}"


def _rate(images: float) -> str:
    return f"{images:,.0f}" if images >= 1000 else f"{images:.3g}"
