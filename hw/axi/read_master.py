"""The AXI4 read master of one port: sends several clients' bursts out on AR, and returns their beats in the same order.

Its clients are `load.py`, `weights.py` and, on port 0, `sequencer.py` and with streams `streams.py`. They reserve room before they
ask, so RREADY never falls, and one client's full ring cannot block another client's beats.
"""

from amaranth import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import AxiRead, constants
from cnna.hw.base.ports import Burst, ReadClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.spec.machine import BEAT_BITS, READS_OUTSTANDING


class ReadMaster(wiring.Component):
    """Round robin over the clients that ask, so that none starves and an idle client costs the others nothing. With `background`,
    the last client has no turn: its bursts go out when no other client wants one.

    `halt` lets no further burst start; a burst that is outstanding, or whose ARVALID is up, ends as it should. `idle` is set when
    there is none. `beat` is set for every R beat, `bad` with `response` for one that was not OKAY. The client gets it too, so
    that its count stays right. `outstanding` counts the bursts that AR has taken and whose last beat has not come. When there is
    none, the round starts again at the first client, so that a program takes the same clocks each time.
    """

    def __init__(self, clients: int, background: bool = False) -> None:
        self.count, self.turns = clients, clients - background
        super().__init__(
            {
                "clients": In(ReadClient()).array(clients),
                "bus": Out(AxiRead()),
                "halt": In(1),
                "idle": Out(1),
                "beat": Out(1),
                "bad": Out(1),
                "response": Out(2),
                "outstanding": Out(range(READS_OUTSTANDING + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.order = order = RegisteredFifo(unsigned(max(1, (self.count - 1).bit_length())), READS_OUTSTANDING)
        take = Signal()
        granted = Signal()
        ended = Signal()
        wanted = []
        for number, client in enumerate(self.clients):
            m.submodules[f"wanted{number}"] = pair = SkidBuffer(Burst)
            connect(m, flipped(client.burst), pair.i)
            wanted.append(pair.o)
        outstanding = tally(m, READS_OUTSTANDING, granted, ended)  # bursts whose last beat has not come
        m.d.comb += take.eq((~self.bus.arvalid | self.bus.arready) & outstanding.room & ~self.halt)
        grant = self._arbitrate(m, wanted, take, granted)

        with m.If(self.bus.arready):
            m.d.sync += self.bus.arvalid.eq(0)
        with m.If(granted):
            m.d.sync += self.bus.arvalid.eq(1)
            with m.Switch(grant):
                for number, burst in enumerate(wanted):
                    with m.Case(number):
                        m.d.sync += [self.bus.araddr.eq(burst.payload.address), self.bus.arlen.eq(burst.payload.beats - 1)]
        m.d.comb += [*constants(self.bus, "ar"), order.push.eq(granted), order.item.eq(grant)]
        m.d.sync += [self.idle.eq(~granted & ~outstanding.some), self.outstanding.eq(outstanding.count - self.bus.arvalid)]
        self._answer(m, order.o, ended)
        return m

    def _arbitrate(self, m: Module, wanted: list[stream.Interface], take: Signal, granted: Signal) -> Signal:
        """The client whose burst goes out if one does (`granted`). The client after the last winner comes first."""
        grant = Signal(range(max(2, self.count)))
        last = Signal.like(grant)
        m.d.comb += [grant.eq(number) for number in range(self.turns, self.count)]
        for winner in range(self.count):
            with m.If(last == winner):
                for step in range(self.turns, 0, -1):
                    number = (winner + step) % self.turns
                    with m.If(wanted[number].valid):
                        m.d.comb += grant.eq(number)
        m.d.comb += granted.eq(take & Cat(burst.valid for burst in wanted).any())
        for number, burst in enumerate(wanted):
            m.d.comb += burst.ready.eq(take & (grant == number))
        with m.If(granted):
            m.d.sync += last.eq(grant)
        with m.Elif(self.idle):
            m.d.sync += last.eq(0)
        return grant

    def _answer(self, m: Module, order: stream.Interface, ended: Signal) -> None:
        """Registers R and gives each beat to the client whose burst is the oldest."""
        data = Signal(BEAT_BITS)
        last = Signal()
        valid = Signal()
        response = Signal(2)
        m.d.comb += self.bus.rready.eq(1)
        m.d.sync += [valid.eq(self.bus.rvalid), data.eq(self.bus.rdata), last.eq(self.bus.rlast), response.eq(self.bus.rresp)]
        m.d.comb += [ended.eq(valid & last), order.ready.eq(ended), self.beat.eq(valid)]
        m.d.comb += [self.bad.eq(valid & (response != 0)), self.response.eq(response)]
        for number, client in enumerate(self.clients):
            m.d.comb += [
                client.beat.valid.eq(valid & (order.payload == number)),
                client.beat.payload.data.eq(data),
                client.beat.payload.last.eq(last),
            ]
