"""What the host does for a batch with the native library, estimated from what is known when a model is compiled.

Bytes that are packed, values that are looked up, words that are unpacked and Python around them make the counts. `host_model` has
the share of each, fitted to rows that `make host-cost` counted. What no counted row has is a range of seconds of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from cnna.spec.cpu_ops import VIEWS
from cnna.spec.host_time import host_model
from cnna.spec.host_time.cortex_a53 import NOTHING, Range, seconds, total
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.manifest import ACCELERATOR, CPU, PieceEntry, Port, ProgramEntry

BYTES = 16  # of a unit, which the library packs and unpacks at a time
LINE = 64


@dataclass(frozen=True)
class NativeWork:
    """The host's work for a batch besides pieces on the CPU. stream: one of many. packing: the part of it that four threads share.

    uncounted: seconds of what no counted row has.
    """

    stream: HostWork
    packing: HostWork
    uncounted: Range


def planned(pieces: Sequence[PieceEntry]) -> bool:
    """Whether the run loop completes a batch by itself: one program, and behind it views and softmax (`host/model/tails.py`)."""
    kinds = [piece["kind"] for piece in pieces]
    return kinds.count(ACCELERATOR) == 1 and kinds[0] == ACCELERATOR and _operators(pieces) <= {*VIEWS, "Softmax"}


def programs_of(pieces: Sequence[PieceEntry]) -> list[ProgramEntry]:
    """The pieces on the accelerator."""
    return [piece for piece in pieces if piece["kind"] == ACCELERATOR]


def native_work(pieces: Sequence[PieceEntry], batch: int, cached: bool = False) -> NativeWork:
    """The work for a batch. cached: whether the processor caches the accelerator's memory, which a self-test must prove first."""
    found = piece_works(pieces, batch, cached)
    packing, stream = HostWork(), HostWork()
    for one in found:
        packing, stream = packing.plus(one.packing), stream.plus(one.stream)
    return NativeWork(stream, packing, total(one.uncounted for one in found))


def piece_works(pieces: Sequence[PieceEntry], batch: int, cached: bool = False) -> list[NativeWork]:
    """The part of each piece. What belongs to a batch as a whole is with its first program."""
    whole, first, found = planned(pieces), True, list[NativeWork]()
    for number, piece in enumerate(pieces):
        if piece["kind"] == CPU:
            found.append(NativeWork(HostWork(), HostWork(), NOTHING))
            continue
        around = host_model.NATIVE_BATCH.work if first else host_model.NATIVE_START.work
        if first:
            around = around.plus(_softmax(pieces, batch) if whole else host_model.NATIVE_GENERAL.work)
        one = _run(piece["inputs"], piece["outputs"], batch, cached, floats=number > 0)  # of what the CPU hands over
        more = NOTHING if first else Range.of(host_model.NATIVE_RUN_SECONDS)
        found.append(NativeWork(one.stream.plus(around), one.packing, one.uncounted + more))
        first = False
    return found


def more_seconds(inputs: Sequence[Port], outputs: Sequence[Port], batch: int) -> Range:
    """One core's time for one more run of a batch, between two pieces on the CPU."""
    one = _run(inputs, outputs, batch, False, floats=True)
    started = seconds(one.stream.plus(host_model.NATIVE_START.work))
    return started + one.uncounted + Range.of(host_model.NATIVE_RUN_SECONDS)


def _run(inputs: Sequence[Port], outputs: Sequence[Port], batch: int, cached: bool, floats: bool) -> NativeWork:
    """What the ports of a run cost. floats: its inputs are."""
    packing = rest = HostWork()
    for port in inputs:
        packing = packing.plus(packed(port, batch, cached))
    for port in outputs:
        rest = rest.plus(unpacked(port, batch, cached))
    elements = batch * sum(prod(port["shape"]) for port in inputs)
    return NativeWork(packing.plus(rest), packing, Range.of(host_model.FLOAT_SECONDS, elements) if floats else NOTHING)


def _softmax(pieces: Sequence[PieceEntry], batch: int) -> HostWork:
    """The run loop's work for a softmax behind the program, if there is one."""
    elements = sum(prod(port["shape"]) for program in programs_of(pieces) for port in program["outputs"])
    return host_model.NATIVE_SOFTMAX.work.scaled(batch * elements if "Softmax" in _operators(pieces) else 0)


def packed(port: Port, batch: int, cached: bool = False) -> HostWork:
    """The work to look up the values of an input, and to pack them."""
    fold, shape = port.get("fold"), port["shape"]
    laid = fold["shape"] if fold else shape
    size = batch * port.get("image_bytes", prod(laid))
    elements, rows, units = batch * prod(shape), batch * prod(shape[-2:-1]), size / BYTES
    work = host_model.NATIVE_ELEMENT.work.scaled(elements).plus(host_model.NATIVE_UNIT.work, units)
    work = work.plus(host_model.NATIVE_ACROSS.work, batch * across(port))
    work = work.plus(host_model.NATIVE_ROW.work, rows).plus(host_model.NATIVE_WORDS.work, units / max(1, laid[-1]))
    if not cached:
        return work.plus(HostWork(buffer_written=size))
    lines = size / LINE
    whole_rows = laid[-1] * BYTES % LINE == 0  # else each row ends in the middle of a line, and the count begins anew
    kept = min(lines, host_model.WHOLE_LINES.middle) if whole_rows else lines  # in the second cache, until they are cleaned
    written = HostWork(whole=kept, lines=kept, past=lines - kept, absent=lines - kept)
    return work.plus(host_model.NATIVE_CLEAN.work, lines).plus(written)


def across(port: Port) -> int:
    """How often a unit of an image takes bytes of one more row of the picture than its first."""
    fold = port.get("fold")
    if not fold:
        return 0
    row, folded = fold["span"][1] * port["shape"][0], min(fold["shape"][0], prod(fold["span"]) * port["shape"][0])
    more = sum((min(first + BYTES, folded) - 1) // row - first // row for first in range(0, folded, BYTES))
    return more * prod(fold["shape"][1:])


def unpacked(port: Port, batch: int, cached: bool = False) -> HostWork:
    """The work to unpack an output to floats."""
    elements = batch * prod(port["shape"])
    size = batch * port.get("image_bytes", prod(port["shape"]))
    work = host_model.UNPACK_UNIT.work.scaled(size / BYTES).plus(host_model.NATIVE_FLOAT.work, elements)
    if not cached:
        return work.plus(HostWork(buffer_read=size))
    return work.plus(host_model.NATIVE_INVALIDATE.work, size / LINE)


def _operators(pieces: Sequence[PieceEntry]) -> set[str]:
    """The operators of all pieces on the CPU."""
    return {node["op"] for piece in pieces if piece["kind"] == CPU for node in piece.get("operators", ())}
