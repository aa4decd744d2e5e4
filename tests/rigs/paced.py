"""Back-pressure at every pace for blocks under Verilator whose inputs are fixed before the run: when to send and to accept.

`bench` runs have no way back from outputs to inputs, so `paced_groups` works out when a head that counts credit would send, and
`PacedStream` holds a stream's items until the clocks in which its source offers them.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from amaranth import Module, Signal
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from cnna.hw.base.queues import CreditFifo

from . import bench
from .bench import Bytes
from .block import Block
from .streams import PACES

PIPELINE_CLOCKS = 20  # at most from a drain's sums to `o`: registers, lanes and FIFO


def paced_groups(
    rng: np.random.Generator, pace: str, items: Sequence[int], spacing: int, room: int, first: int
) -> tuple[list[int], NDArray[np.int64]]:
    """The clock of each group's sums, and whether the sink accepts, clock by clock.

    items: how many items each group becomes. Groups come `spacing` clocks apart or more, from clock `first` on, and only while
    the items under way and the group's own fit into `room`. Items leave no earlier than a drain's would, so `room` is never
    overrun, and a slow sink fills it but for the few items that are in the pipeline.
    """
    manner = PACES[pace]
    accepts = rng.random(first + 50 * (sum(items) + spacing * len(items)) + 1000) < manner.accept
    clocks, taken, at = [], [-1], first
    for count in items:
        while sum(clock >= at for clock in taken) + count > room or rng.random() >= manner.offer:
            at += 1
        clocks.append(at)
        for number in range(count):
            earliest = max(at + number + PIPELINE_CLOCKS, taken[-1] + 1)
            taken.append(earliest + int(np.argmax(accepts[earliest:])))
        at += spacing
    return clocks, accepts[: taken[-1] + 2 * PIPELINE_CLOCKS].astype(np.int64)


def bits(fields: Iterable[tuple[int, int]]) -> int:
    """(value, width) pairs from bit 0 up, as one number."""
    total, at = 0, 0
    for value, width in fields:
        total |= (int(value) & ((1 << width) - 1)) << at
        at += width
    return total


def run_paced(block: Block, inputs: dict[str, NDArray], pace: str) -> dict[str, Bytes]:
    """`bench.run`, with `inputs["o__ready"]` limited to clocks in which an item is there if the pace's sink waits for one.

    AssertionError: an item at `o` did not hold still until it was taken.
    """
    found = bench.run(block, inputs)
    if PACES[pace].waits_for_valid:
        inputs["o__ready"] = inputs["o__ready"] & found["o__valid"][:, 0]
        before, found = found["o__valid"], bench.run(block, inputs)
        np.testing.assert_array_equal(found["o__valid"], before, err_msg="`valid` waits for `ready`")
    check_still(found["o__valid"][:, 0], inputs["o__ready"], found["o__payload"])
    return found


def check_still(valid: Bytes, ready: NDArray, payload: Bytes) -> None:
    """AssertionError: an item that waited for `ready` changed or vanished. Arrays by clock; `payload` uint8[clocks, bytes]."""
    waits = np.nonzero((valid[:-1] == 1) & (ready[:-1] == 0))[0]
    assert (valid[waits + 1] == 1).all(), "an item went without having been taken"
    np.testing.assert_array_equal(payload[waits + 1], payload[waits], err_msg="an item changed while it waited")


class PacedStream(wiring.Component):
    """Keeps up to `depth` items, written by `push`, and offers the next one from a clock with `offer` until it is taken."""

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.shape, self.depth = shape, depth
        super().__init__({"push": In(1), "item": In(shape), "offer": In(1), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = fifo = CreditFifo(self.shape, self.depth)
        offered = Signal()
        m.d.comb += [
            fifo.push.eq(self.push),
            fifo.item.eq(self.item),
            self.o.valid.eq(fifo.o.valid & (self.offer | offered)),
            self.o.payload.eq(fifo.o.payload),
            fifo.o.ready.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += offered.eq(self.o.valid & ~self.o.ready)
        return m
