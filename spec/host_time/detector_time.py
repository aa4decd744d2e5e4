"""Images a second of a detector that the host decodes on integers, modelled: its programs without the tail, and the decode.

The run loop scans head tensors in the accelerator's own words, where it can; others are unpacked first. What that takes are sums
that were fitted to counts of aarch64 code (docs/detectors.md). The loop's thread does it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from cnna.spec.detection.heads import TABLES, DetectorEntry, GridEntry
from cnna.spec.host_time import host_model
from cnna.spec.host_time.end_to_end import TO_ANSWER, EndToEnd, end_to_end
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import BYTES, LINE, programs_of, unpacked
from cnna.spec.manifest import CPU, PieceEntry, Port

CANDIDATES = 100  # in a picture
CANDIDATE_LINES = 9  # of the accelerator's memory for a candidate, at most: 144 channels in words of 16
SCAN_INSTRUCTIONS = 0.2  # for a byte of a dense plane that is scanned: of each class, or of the objectness alone
GRID_INSTRUCTIONS = 5_000  # for a grid: its thresholds
LABEL_INSTRUCTIONS = 5  # for each class of a cell that is looked at
BIN_INSTRUCTIONS = 64  # for each bin of a box's four distances
CANDIDATE_INSTRUCTIONS = 800  # for a candidate: its place in the order, its box, and how it overlaps others
LANES = 16  # bytes that are compared at once


def candidate_instructions(labels: int, bins: int) -> int:
    """Of one candidate, of so many classes. bins: of each of its distances."""
    return CANDIDATE_INSTRUCTIONS + LABEL_INSTRUCTIONS * labels + (BIN_INSTRUCTIONS * bins if bins > 1 else 0)


@dataclass(frozen=True)
class Scan:
    """What a scan of a picture's heads reads: words in place, bytes of the blocks that have them, and bytes of dense planes.

    grids: those in place. unpacked: bytes of the heads that become dense planes first.
    """

    words: int
    block_bytes: int
    dense: int
    grids: int
    unpacked: int


def scan_of(entry: DetectorEntry, ports: Sequence[Port]) -> Scan:
    """As host/native/loop_detect.cpp chooses. ports: of the programs, those of heads among them."""
    named = {port["name"]: port for port in ports}
    heads = [named[name] for name in entry["heads"]]
    placed = [entry.get("scores", TABLES) == TABLES and _in_place(entry, number, port) for number, port in enumerate(heads)]
    words, dense, grids, blocks = 0, 0, 0, set[tuple[int, int]]()
    for grid in entry["grids"]:
        head, first, count = _scanned(entry, grid)
        cells, ci = prod(grid["size"]), _word(heads[head])
        if not placed[head]:
            dense += cells * count
            continue
        own = {(head, block) for block in range(first // ci, (first + count - 1) // ci + 1)}
        words, grids, blocks = words + cells * len(own), grids + 1, blocks | own
    whole = [port for port, there in zip(heads, placed, strict=True) if not there]
    return Scan(
        words,
        sum(heads[head]["block_bytes"] for head, _ in blocks),
        dense,
        grids,
        sum(port["image_bytes"] for port in whole),
    )


def _scanned(entry: DetectorEntry, grid: GridEntry) -> tuple[int, int, int]:
    """Head, first channel and channels that a scan reads of every cell."""
    head, channel, _ = grid["objectness"] or grid["classes"]
    return head, channel, 1 if grid["objectness"] else entry["labels"]


def _word(port: Port) -> int:
    """Channels of a word."""
    return max(1, port["block_bytes"] // prod(port["shape"][1:]))


def _in_place(entry: DetectorEntry, number: int, port: Port) -> bool:
    """Whether rows of a head follow each other, and no short words are compared one by one."""
    word = _word(port)
    compared = any(grid["objectness"] is None and grid["classes"][0] == number for grid in entry["grids"])
    return port["row_bytes"] == port["shape"][2] * word and (word % LANES == 0 or not compared)


def decode_work(entry: DetectorEntry, ports: Sequence[Port], cached: bool, candidates: int = CANDIDATES) -> HostWork:
    """The scan and the decode of a picture, without the unpacking of dense planes. cached: as of `end_to_end`."""
    scan, bins = scan_of(entry, ports), max(number["bins"] for number in entry["grids"][0]["box"])
    native = SCAN_INSTRUCTIONS * scan.dense + GRID_INSTRUCTIONS * (len(entry["grids"]) - scan.grids)
    native += candidates * candidate_instructions(entry["labels"], bins)
    work = HostWork(libraries=native, native=native).plus(host_model.SCAN_WORD.work, scan.words)
    work = work.plus(host_model.SCAN_GRID.work, scan.grids)
    lines = candidates * CANDIDATE_LINES if scan.words else 0
    if cached:
        return work.plus(host_model.NATIVE_INVALIDATE.work, scan.block_bytes / LINE + lines)
    return work.plus(HostWork(buffer_read=scan.block_bytes + lines * BYTES))


def detector_end_to_end(
    entry: DetectorEntry,
    pieces: Sequence[PieceEntry],
    cycles: float,
    clock_mhz: int,
    batch: int,
    cached: bool = False,
    candidates: int = CANDIDATES,
) -> EndToEnd:
    """The model of a detector's pieces with `cnna.Detector`, with the native library, for pictures of the input's size.

    cached: as of `end_to_end`. candidates: in a picture.
    """
    without = pieces[:-1] if pieces[-1]["kind"] == CPU else pieces
    found = end_to_end(without, cycles, clock_mhz, batch, cached=cached)
    ports = [port for program in programs_of(without) for port in program["outputs"]]
    decode = decode_work(entry, ports, cached, candidates).scaled(batch)
    more, bytes_unpacked = decode.plus(host_model.DETECTOR_PYTHON.work), batch * scan_of(entry, ports).unpacked
    for unit in (host_model.UNPACK_UNIT, host_model.INT8_UNIT):
        more = more.plus(unit.work, bytes_unpacked / BYTES)
    more = more.plus(host_model.NATIVE_INVALIDATE.work, bytes_unpacked / LINE) if cached else more
    more = more if cached else more.plus(HostWork(buffer_read=bytes_unpacked))
    stream, single = found.stream, found.single
    for port in ports:  # nothing of it becomes floats
        stream, single = (work.plus(unpacked(port, batch, cached), -1) for work in (stream, single))
    return replace(found, stream=stream.plus(more), single=single.plus(more), decode=decode)


def to_answer(
    entry: DetectorEntry | None, pieces: Sequence[PieceEntry], cycles: float, clock_mhz: int, batch: int, native: bool = True
) -> EndToEnd:
    """The model of an artifact's pieces: as of `detector_end_to_end` for a detector, which is modelled with the native library
    alone, else as of `end_to_end`. entry: None if it is no detector.
    """
    if entry is not None:
        return detector_end_to_end(entry, pieces, cycles, clock_mhz, batch)
    return end_to_end(pieces, cycles, clock_mhz, batch, native)


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
