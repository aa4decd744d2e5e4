"""The AXI4 write master of one port: bursts whose beats stand ready out on AW and W, B responses counted.

`store.py` is its only client. It offers a burst when all of its beats wait in its FIFO, so a W channel never starves
and a halt never cuts a burst in two.
"""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from cnna.hw.axi import AxiWrite, constants
from cnna.hw.ports import WriteClient

OUTSTANDING = 16  # bursts from AW to B


class WriteMaster(wiring.Component):
    """AW and W run apart, each as the slave takes it; one burst's W beats follow another's without a gap.

    `halt` lets no further burst start, `idle` is set when none is unanswered. `bad` pulses with `response` for a B that was
    not OKAY; `beat` pulses for every W beat.
    """

    client: In(WriteClient())
    bus: Out(AxiWrite())
    halt: In(1)
    idle: Out(1)
    beat: Out(1)
    bad: Out(1)
    response: Out(2)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        burst, bus = self.client.burst, self.bus
        m.submodules.lengths = lengths = SyncFIFOBuffered(width=5, depth=OUTSTANDING)  # beats of bursts whose W is to come
        outstanding, free, take = Signal(range(OUTSTANDING + 1)), Signal(init=1), Signal()
        m.d.comb += [
            burst.ready.eq((~bus.awvalid | bus.awready) & free & ~self.halt),
            take.eq(burst.valid & burst.ready),
            lengths.w_en.eq(take),
            lengths.w_data.eq(burst.payload.beats),
            *constants(bus, "aw"),
        ]
        with m.If(take):
            m.d.sync += [bus.awvalid.eq(1), bus.awaddr.eq(burst.payload.address), bus.awlen.eq(burst.payload.beats - 1)]
        with m.Elif(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        self._beats(m, lengths)

        answered, bad, response = Signal(), Signal(), Signal(2)
        m.d.comb += [bus.bready.eq(1), self.client.done.eq(answered), self.bad.eq(bad), self.response.eq(response)]
        m.d.sync += [answered.eq(bus.bvalid), bad.eq(bus.bvalid & (bus.bresp != 0)), response.eq(bus.bresp)]
        count = outstanding + take - answered
        m.d.sync += [outstanding.eq(count), free.eq(count < OUTSTANDING), self.idle.eq(count == 0)]
        return m

    def _beats(self, m: Module, lengths: SyncFIFOBuffered) -> None:
        """Moves the client's beats to W, as many as the bursts taken say."""
        beat, bus = self.client.beat, self.bus
        left, room, move = Signal(5), Signal(), Signal()  # beats of the current burst still to move, 0: none
        m.d.comb += [
            room.eq(~bus.wvalid | bus.wready),
            beat.ready.eq(room & (left != 0)),
            move.eq(beat.valid & beat.ready),
            lengths.r_en.eq((left == 0) | (move & (left == 1))),
            self.beat.eq(bus.wvalid & bus.wready),
        ]
        with m.If(lengths.r_en):
            m.d.sync += left.eq(0)
            with m.If(lengths.r_rdy):
                m.d.sync += left.eq(lengths.r_data)
        with m.Elif(move):
            m.d.sync += left.eq(left - 1)
        with m.If(move):
            m.d.sync += [
                bus.wvalid.eq(1),
                bus.wdata.eq(beat.payload.data),
                bus.wstrb.eq(beat.payload.strobe),
                bus.wlast.eq(left == 1),
            ]
        with m.Elif(bus.wready):
            m.d.sync += bus.wvalid.eq(0)
