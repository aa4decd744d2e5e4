"""Two clients of one write master: the first one's bursts go first; beats and responses find the client of their burst.

On port 0 of an accelerator with streams: `store`, then the copy from the stream (`streams.py`).
"""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.write_master import OUTSTANDING
from cnna.hw.base.ports import WriteBeat, WriteClient
from cnna.hw.base.queue import Queue
from cnna.hw.base.skid_buffer import Pair


class Turn(data.Struct):
    """A burst whose beats are to come: whose, how many."""

    second: unsigned(1)
    beats: unsigned(5)


class WriteShare(wiring.Component):
    """`clients[0]` first; `second_done` is set with a response that is for `clients[1]`."""

    clients: In(WriteClient()).array(2)
    master: Out(WriteClient())
    second_done: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        first, second, master = self.clients[0], self.clients[1], self.master
        m.submodules.turns = turns = Queue(Turn, OUTSTANDING)
        m.submodules.owners = owners = Queue(unsigned(1), OUTSTANDING)
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

    def _beats(self, m: Module, turns: Queue) -> None:
        """Passes the beats of one burst after another, each from its client."""
        left, some, last, second = Signal(5), Signal(), Signal(), Signal()  # of the burst whose turn it is
        m.submodules.going = going = Pair(WriteBeat)
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
