"""Three FIFOs, and when to use which.

- `SkidBuffer`: two items in registers. It cuts every path between a writer and a reader. The engines' GO queues are made of it
  (`writes.py`), and so is any stream that needs a register in both directions.
- `RegisteredFifo`: a memory between two registers, so that no path leads through it. It serves load, store, weights, the sequencer
  and the bus masters. Its memory is read through a register and may become block RAM.
- `CreditFifo`: its writer never asks. The writer has counted the room (a credit) before the data set out. It stands behind every
  pipeline that cannot be stopped: array, requantiser, residual add, vector lanes.
"""

from amaranth import Cat, Module, Signal, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.slices import SlotFree, slices
from cnna.hw.base.timing import tally


class SkidBuffer(wiring.Component):
    """Holds up to two items, passes one a clock, in order and one clock late at the soonest. `i.ready` falls when two wait."""

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.i.payload), []
        parts = slices(len(word))
        for number, part in enumerate(parts):
            first, second = (Signal(len(word[part]), name=name, reset_less=True) for name in ("first", "second"))
            item = Signal(len(first), name="item")
            m.d.comb += item.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(item, first, second, number, len(parts))
            found.append(first)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, first: Signal, second: Signal, number: int, count: int) -> Module:
        """One of `count` slices of the payload. It has its own `valid` and `room`; those of the first slice are the queue's."""
        m = Module()
        copy = COPY if count > 1 else None
        valid = Signal(attrs=copy)  # an item is in `first`
        room = Signal(init=1, attrs=copy)  # in `second`
        free = Signal()  # room in `first`
        if number == 0:
            m.d.comb += [self.o.valid.eq(valid), self.i.ready.eq(room)]
        if count > 1:  # or `o.ready` would load the bits of all
            m.submodules.out = out = SlotFree()
            m.d.comb += [out.valid.eq(valid), out.ready.eq(self.o.ready), free.eq(out.free)]
        else:
            m.d.comb += free.eq(self.o.ready | ~valid)
        with m.If(free):
            m.d.sync += [valid.eq(~room | self.i.valid), room.eq(1)]
            with m.If(room):
                m.d.sync += first.eq(word)
            with m.Else():
                m.d.sync += first.eq(second)
        with m.Elif(self.i.valid & room):
            m.d.sync += [second.eq(word), room.eq(0)]
        return m


class RegisteredFifo(wiring.Component):
    """Holds items in order. An item is at `o` two clocks after `push` at the soonest, and `depth` more may wait behind it.

    `room`, `o.valid` and `o.payload` are registers. `room` is set while more than `spare` more items fit, so a writer that looks at
    `room` may still push up to `spare` clocks after it fell. A writer that counts the room itself may count on `depth` and need not
    look. `late` puts one more register before `o` (a third clock), for a block RAM whose word leads into logic.
    """

    def __init__(self, shape: ShapeLike, depth: int, spare: int = 0, late: bool = False) -> None:
        assert depth & (depth - 1) == 0, f"a queue of {depth} items is not a power of two"
        self.shape, self.depth, self.spare, self.late = shape, depth, spare, late
        super().__init__({"push": In(1), "item": In(shape), "room": Out(1, init=1), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.storage = memory = Memory(shape=self.shape, depth=self.depth, init=[])
        into = memory.write_port()
        out = memory.read_port()
        moves = Signal()  # a row is being read
        read = Signal()  # one was read and waits
        free = Signal()  # the next may come
        stored = tally(m, self.depth, self.push, moves, self.depth - self.spare)
        m.d.comb += [
            self.room.eq(stored.room),
            into.en.eq(self.push),
            into.data.eq(self.item),
            moves.eq(stored.some & free),
            out.en.eq(moves),
        ]
        m.d.sync += [into.addr.eq(into.addr + self.push), out.addr.eq(out.addr + moves)]
        with m.If(free):
            m.d.sync += read.eq(stored.some)
        if self.late:
            m.d.comb += free.eq(self.o.ready | ~self.o.valid | ~read)
            with m.If(self.o.ready | ~self.o.valid):
                m.d.sync += [self.o.valid.eq(read), self.o.payload.eq(out.data)]
        else:
            m.d.comb += [free.eq(self.o.ready | ~read), self.o.valid.eq(read), self.o.payload.eq(out.data)]
        return m


class CreditFifo(wiring.Component):
    """Holds up to `depth` items, in order. An item is at `o`, a register, two clocks after `push`.

    The writer may count on room for `depth` items, and gets one back whenever an item is taken at `o`. `copy`: other FIFOs hold the
    same items, and synthesis must not merge them.
    """

    def __init__(self, shape: ShapeLike, depth: int, copy: bool = False) -> None:
        assert depth & (depth - 1) == 0, f"a FIFO of {depth} items is not a power of two"
        self.shape, self.depth, self.copy = shape, depth, copy
        super().__init__({"push": In(1), "item": In(shape), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, found = Value.cast(self.item), []
        parts = slices(len(word))
        copy = COPY if self.copy or len(parts) > 1 else None
        for number, part in enumerate(parts):
            into = Signal(len(word[part]), name="into")
            out = Signal(len(word[part]), name="out", reset_less=True, attrs=COPY if self.copy else None)
            m.d.comb += into.eq(word[part])
            m.submodules[f"slice{number}"] = self._slice(into, out, number == 0, copy)
            found.append(out)
        m.d.comb += Value.cast(self.o.payload).eq(Cat(found))
        return m

    def _slice(self, word: Value, item: Signal, first: bool, copy: dict[str, str] | None) -> Module:
        """One slice of the items, from `word` to `item`, with its own control registers; those of the `first` are the FIFO's.

        `copy`: the control registers' attributes.
        """
        m = Module()
        m.submodules.memory = memory = Memory(shape=len(word), depth=self.depth, init=[])
        into, out = memory.write_port(), memory.read_port(domain="comb")
        valid = Signal(attrs=copy)
        move = Signal()
        newest, oldest = (Signal(into.addr.shape(), name=name, attrs=copy) for name in ("newest", "oldest"))
        filled = tally(m, self.depth, self.push, move, attrs=copy).some
        m.d.comb += [into.en.eq(self.push), into.data.eq(word), move.eq(filled & (self.o.ready | ~valid))]
        m.d.comb += [into.addr.eq(newest), out.addr.eq(oldest)]
        if first:
            m.d.comb += self.o.valid.eq(valid)
        with m.If(self.o.ready | ~valid):
            m.d.sync += [valid.eq(filled), item.eq(out.data)]
        m.d.sync += [newest.eq(newest + self.push), oldest.eq(oldest + move)]
        return m
