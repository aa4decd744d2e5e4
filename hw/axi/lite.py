"""The AXI4-Lite handshakes of `regfile.py`: one read and one write at a time, side by side.

AW and W may come in either order and any number of clocks apart. B and R wait as long as the master likes.
"""

from amaranth import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.axi.buses import RESP_SLVERR, Axi4Lite
from cnna.spec.machine import CONTROL_BITS


class LiteWrite(data.Struct):
    """A write whose address and data have both come."""

    offset: unsigned(CONTROL_BITS)
    value: unsigned(32)
    strobe: unsigned(4)


class LiteAnswer(data.Struct):
    """R's value, and whether the answer is SLVERR."""

    value: unsigned(32)
    error: unsigned(1)


class AxiLiteSlave(wiring.Component):
    """`write` and `read` each give a request. It must be taken before it is answered; the next comes only after the answer."""

    bus: In(Axi4Lite())
    write: Out(stream.Signature(LiteWrite))
    written: In(stream.Signature(unsigned(1), always_ready=True))  # whether the answer is SLVERR
    read: Out(stream.Signature(CONTROL_BITS))
    answer: In(stream.Signature(LiteAnswer, always_ready=True))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m: Module) -> None:
        bus, payload = self.bus, self.write.payload
        address = Signal()  # AW is held
        word = Signal()  # W is held
        asked = Signal()  # the request is given and not answered
        m.d.comb += [bus.awready.eq(~address), bus.wready.eq(~word), self.write.valid.eq(address & word & ~asked)]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address.eq(1), payload.offset.eq(bus.awaddr)]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [word.eq(1), payload.value.eq(bus.wdata), payload.strobe.eq(bus.wstrb)]
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.written.valid):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(self.written.payload * RESP_SLVERR)]
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += [bus.bvalid.eq(0), address.eq(0), word.eq(0), asked.eq(0)]

    def _read(self, m: Module) -> None:
        bus = self.bus
        held = Signal()
        asked = Signal()
        m.d.comb += [bus.arready.eq(~held), self.read.valid.eq(held & ~asked)]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [held.eq(1), self.read.payload.eq(bus.araddr)]
        with m.If(self.read.valid & self.read.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.answer.valid):
            m.d.sync += [
                bus.rvalid.eq(1),
                bus.rdata.eq(self.answer.payload.value),
                bus.rresp.eq(self.answer.payload.error * RESP_SLVERR),
            ]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += [bus.rvalid.eq(0), held.eq(0), asked.eq(0)]
