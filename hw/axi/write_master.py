"""The AXI4 write master of one port: bursts whose beats stand ready out on AW and W, B responses counted.

`store.py` is its client, on port 0 of an accelerator with streams beside `streams.py` (`write_share.py`). A burst is offered when
all of its beats wait in a FIFO, so a W channel never starves and a halt never cuts a burst in two.
"""

from amaranth import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.axi.buses import AxiWrite, constants
from cnna.hw.base.ports import WriteClient
from cnna.hw.base.queue import Queue
from cnna.hw.base.tally import tally

OUTSTANDING = 16  # bursts from AW to B


class WriteMaster(wiring.Component):
    """AW and W run apart, each as the slave takes it; one burst's W beats follow another's without a gap.

    `halt` lets no further burst start, `idle` is set when none is unanswered. `bad` pulses with `response` for a B that was
    not OKAY; `beat` pulses for every W beat. `outstanding` counts bursts taken on AW whose B has not come.
    """

    client: In(WriteClient())
    bus: Out(AxiWrite())
    halt: In(1)
    idle: Out(1)
    beat: Out(1)
    bad: Out(1)
    response: Out(2)
    outstanding: Out(range(OUTSTANDING + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        burst, bus = self.client.burst, self.bus
        m.submodules.lengths = lengths = Queue(unsigned(5), OUTSTANDING)  # beats of bursts whose W is to come
        take, answered, bad, response = Signal(), Signal(), Signal(), Signal(2)
        outstanding = tally(m, OUTSTANDING, take, answered)
        m.d.comb += [
            burst.ready.eq((~bus.awvalid | bus.awready) & outstanding.room & ~self.halt),
            take.eq(burst.valid & burst.ready),
            lengths.push.eq(take),
            lengths.item.eq(burst.payload.beats),
            *constants(bus, "aw"),
        ]
        with m.If(take):
            m.d.sync += [bus.awvalid.eq(1), bus.awaddr.eq(burst.payload.address), bus.awlen.eq(burst.payload.beats - 1)]
        with m.Elif(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        self._beats(m, lengths.o)

        m.d.comb += [bus.bready.eq(1), self.client.done.eq(answered), self.bad.eq(bad), self.response.eq(response)]
        m.d.sync += [answered.eq(bus.bvalid), bad.eq(bus.bvalid & (bus.bresp != 0)), response.eq(bus.bresp)]
        m.d.sync += [self.idle.eq(~take & ~outstanding.some), self.outstanding.eq(outstanding.count - bus.awvalid)]
        return m

    def _beats(self, m: Module, lengths: stream.Interface) -> None:
        """Moves the client's beats to W, as many as the bursts taken say."""
        beat, bus = self.client.beat, self.bus
        left, some, last = Signal(5), Signal(), Signal()  # beats of the current burst still to move: how many, any, just one
        room, move = Signal(), Signal()
        m.d.comb += [
            room.eq(~bus.wvalid | bus.wready),
            beat.ready.eq(room & some),
            move.eq(beat.valid & beat.ready),
            lengths.ready.eq(~some | (move & last)),
            self.beat.eq(bus.wvalid & bus.wready),
        ]
        with m.If(lengths.ready):
            m.d.sync += [left.eq(lengths.payload), some.eq(lengths.valid), last.eq(lengths.payload == 1)]
        with m.Elif(move):
            m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
        with m.If(move):
            m.d.sync += [
                bus.wvalid.eq(1),
                bus.wdata.eq(beat.payload.data),
                bus.wstrb.eq(beat.payload.strobe),
                bus.wlast.eq(last),
            ]
        with m.Elif(bus.wready):
            m.d.sync += bus.wvalid.eq(0)
