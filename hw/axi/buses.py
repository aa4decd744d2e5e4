"""The buses of the accelerator as Amaranth signatures, with the channel signals' own names.

Members are flat ("awaddr", not a channel struct), so that the ports of the generated Verilog are the names that Vivado,
cocotbext-axi and every AXI tool look for. All are seen from the master. There is no ID signal: a port has one ID, so its
answers come in order.
"""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import BEAT_BITS, BURST_BEATS, BUS_BITS
from cnna.spec.regmap import SPACE_BYTES

SIZE_BEAT = (BEAT_BITS // 8).bit_length() - 1  # AxSIZE of a full beat: 16 bytes
BURST_INCR = 1
CACHE_BUFFERABLE = 0b0011  # normal, non-cacheable, bufferable: HP ports are not coherent
PROT_DATA = 0b000  # unprivileged, secure, data
BOUNDARY_BYTES = 4096  # no burst crosses a multiple of this
RESP_OKAY, RESP_SLVERR = 0, 2
CONTROL_BITS = SPACE_BYTES.bit_length() - 1  # of an AXI4-Lite address


def _address_channel(prefix: str) -> dict[str, wiring.Member]:
    return {
        f"{prefix}addr": Out(BUS_BITS),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}lock": Out(1),
        f"{prefix}cache": Out(4),
        f"{prefix}prot": Out(3),
        f"{prefix}qos": Out(4),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


class AxiRead(wiring.Signature):
    """Read half of AXI4, 128 bit data, 40 bit address, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                **_address_channel("ar"),
                "rdata": In(BEAT_BITS),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiWrite(wiring.Signature):
    """Write half of AXI4, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                **_address_channel("aw"),
                "wdata": Out(BEAT_BITS),
                "wstrb": Out(BEAT_BITS // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class Axi4(wiring.Signature):
    """Both halves: one m_axi_gmem port."""

    def __init__(self) -> None:
        super().__init__({**AxiWrite().members, **AxiRead().members})


class AxiStream(wiring.Signature):
    """AXI4-Stream, 128 bit, seen from the master: packets that end with TLAST, whole beats but for the last one's TKEEP."""

    def __init__(self) -> None:
        super().__init__(
            {
                "tdata": Out(BEAT_BITS),
                "tkeep": Out(BEAT_BITS // 8),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )


class Axi4Lite(wiring.Signature):
    """32 bit AXI4-Lite, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(CONTROL_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(CONTROL_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


def connect_halves(m: Module, bus: wiring.PureInterface, *halves: wiring.PureInterface) -> None:
    """Connects masters' halves (`AxiWrite`, `AxiRead`) to the pins of one port (`Axi4`), each signal by its half's signature."""
    for half in halves:
        for name, member in half.signature.members.items():
            pins, inner = getattr(bus, name), getattr(half, name)
            m.d.comb += pins.eq(inner) if member.flow == Out else inner.eq(pins)


def constants(bus: wiring.PureInterface, prefix: str) -> list:
    """Assignments of an address channel's ("ar" or "aw") signals that never change: beats of 16 bytes, incrementing."""
    values = {
        "size": SIZE_BEAT,
        "burst": BURST_INCR,
        "lock": 0,
        "cache": CACHE_BUFFERABLE,
        "prot": PROT_DATA,
        "qos": 0,
    }
    return [getattr(bus, prefix + name).eq(value) for name, value in values.items()]


def whole_burst(beats: int, address: int) -> bool:
    """Whether a burst of 16-byte beats is one the masters may send."""
    size = beats * BEAT_BITS // 8
    return 1 <= beats <= BURST_BEATS and address // BOUNDARY_BYTES == (address + size - 1) // BOUNDARY_BYTES
