"""The AXI4 write master of one port, and the arbiter in front of it where the port has two clients.

`store.py` is its client. On port 0 of an accelerator with streams, `streams.py` is one too. A burst is offered when all of its
beats wait in a FIFO, so a W channel never starves and a halt never cuts a burst in two.
"""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import AxiWrite, constants
from cnna.hw.base.ports import WriteBeat, WriteClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.spec.machine import WRITES_OUTSTANDING


class WriteMaster(wiring.Component):
    """AW and W run independently, each as fast as the slave takes it. W beats of one burst follow those of another without a gap.

    `halt` lets no further burst start. `idle` is set when no burst is unanswered. `beat` pulses for every W beat, `bad` with
    `response` for a B that was not OKAY. `outstanding` counts the bursts that AW has taken and whose B has not come.
    """

    client: In(WriteClient())
    bus: Out(AxiWrite())
    halt: In(1)
    idle: Out(1)
    beat: Out(1)
    bad: Out(1)
    response: Out(2)
    outstanding: Out(range(WRITES_OUTSTANDING + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        burst, bus = self.client.burst, self.bus
        m.submodules.lengths = lengths = RegisteredFifo(unsigned(5), WRITES_OUTSTANDING)  # beats of bursts whose W is to come
        take = Signal()
        answered = Signal()
        bad = Signal()
        response = Signal(2)
        outstanding = tally(m, WRITES_OUTSTANDING, take, answered)
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
        """Moves the client's beats to W, as many as the bursts that were taken have."""
        beat, bus = self.client.beat, self.bus
        left = Signal(5)  # beats of the current burst still to move
        some = Signal()  # there are any
        last = Signal()  # it is just one
        room = Signal()
        move = Signal()
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


class WriteTurn(data.Struct):
    """A burst whose beats are still to come: whether it is of the second client, and its length."""

    second: unsigned(1)
    beats: unsigned(5)


class WriteArbiter(wiring.Component):
    """Joins two clients of one write master. Bursts of `clients[0]` go first; beats and responses find the client of their burst.

    `second_done` is set with a response that is for `clients[1]`.
    """

    clients: In(WriteClient()).array(2)
    master: Out(WriteClient())
    second_done: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, second, master = self.clients[0], self.clients[1], self.master
        m.submodules.turns = turns = RegisteredFifo(WriteTurn, WRITES_OUTSTANDING)
        m.submodules.owners = owners = RegisteredFifo(unsigned(1), WRITES_OUTSTANDING)
        taken = Signal()
        m.d.comb += [
            master.burst.valid.eq(first.burst.valid | second.burst.valid),
            master.burst.payload.eq(Mux(first.burst.valid, first.burst.payload, second.burst.payload)),
            first.burst.ready.eq(master.burst.ready),
            second.burst.ready.eq(master.burst.ready & ~first.burst.valid),
            taken.eq(master.burst.valid & master.burst.ready),
            turns.push.eq(taken),
            turns.item.second.eq(~first.burst.valid),
            turns.item.beats.eq(master.burst.payload.beats),
            owners.push.eq(taken),
            owners.item.eq(~first.burst.valid),
            owners.o.ready.eq(master.done),
            first.done.eq(master.done & ~owners.o.payload),
            second.done.eq(self.second_done),
            self.second_done.eq(master.done & owners.o.payload),
        ]
        self._beats(m, turns)
        return m

    def _beats(self, m: Module, turns: RegisteredFifo) -> None:
        """Passes the beats of one burst after another, each burst from its client."""
        left = Signal(5)  # of the burst whose turn it is
        some = Signal()
        last = Signal()
        second = Signal()
        m.submodules.going = going = SkidBuffer(WriteBeat)
        connect(m, going.o, flipped(self.master.beat))
        out, moves = going.i, Signal()
        offers = [client.beat for client in self.clients]
        m.d.comb += [
            out.valid.eq(some & Mux(second, offers[1].valid, offers[0].valid)),
            out.payload.eq(Mux(second, offers[1].payload, offers[0].payload)),
            offers[0].ready.eq(out.ready & some & ~second),
            offers[1].ready.eq(out.ready & some & second),
            moves.eq(out.valid & out.ready),
            turns.o.ready.eq(~some | (moves & last)),
        ]
        with m.If(turns.o.ready):
            m.d.sync += [left.eq(turns.o.payload.beats), last.eq(turns.o.payload.beats == 1)]
            m.d.sync += [some.eq(turns.o.valid), second.eq(turns.o.payload.second)]
        with m.Elif(moves):
            m.d.sync += [left.eq(left - 1), last.eq(left == 2)]
