"""The AXI4 read master of one port: bursts of several clients out on AR, their beats back in the same order.

`load.py`, `weights.py` and, on port 0, `sequencer.py` and perhaps `streams.py` are its clients. They reserved room before they
asked, so RREADY never falls and a full ring of one client cannot block another's beats.
"""

from amaranth import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import AxiRead, constants
from cnna.hw.base.ports import ReadBurst, ReadClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.spec.machine import BEAT_BITS, READS_OUTSTANDING


class ReadMaster(wiring.Component):
    """Round robin over clients that ask, so that none starves: an idle client costs the others nothing. With `background`
    the last client has no turn: it is asked when no other wants a burst.

    `halt` lets no further burst start; a burst whose ARVALID is up, or that is outstanding, ends as it should. `idle` is set
    when there is none. `bad` pulses with `response` for a beat that was not OKAY (the client gets it all the same, so
    that its count stays right); `beat` pulses for every R beat. `outstanding` counts bursts taken on AR whose last beat has not
    come. Turns begin anew whenever there is none, so that a program takes the same clocks each time.
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
        take, granted, ended, wanted = Signal(), Signal(), Signal(), []
        for number, client in enumerate(self.clients):
            m.submodules[f"wanted{number}"] = pair = SkidBuffer(ReadBurst)
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
        """The client whose burst goes out if one does (`granted`); the client after the last winner is asked first."""
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
        """Registers R and hands each beat to the client whose burst is the oldest."""
        data, last, valid, response = Signal(BEAT_BITS), Signal(), Signal(), Signal(2)
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
