"""The buses of the accelerator as Amaranth signatures, with the channel signals' own names.

Members are flat ("awaddr", not a channel struct), so that the generated Verilog has the port names that Vivado, cocotbext-axi and
every AXI tool look for. All are seen from the master. There is no ID signal: a port has one ID, so its answers come in order.
"""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import (
    AXI_BITS,
    AXI_LITE_BITS,
    BEAT_BITS,
    BURST_BEATS,
    BUS_BITS,
    CONTROL_BITS,
    READS_OUTSTANDING,
    STREAM_BITS,
    WRITES_OUTSTANDING,
)

SIZE_BEAT = (BEAT_BITS // 8).bit_length() - 1  # AxSIZE of a full beat: 16 bytes
BURST_INCR = 1
CACHE_BUFFERABLE = 0b0011  # normal, non-cacheable, bufferable: HP ports are not coherent
PROT_DATA = 0b000  # unprivileged, secure, data
BOUNDARY_BYTES = 4096  # no burst crosses a multiple of this
RESP_OKAY, RESP_SLVERR = 0, 2

SINGLE = {  # port that belongs to no bus: Vivado's type of signal, its name there, parameters
    "aclk": ("clock", "CLK", {"ASSOCIATED_RESET": "aresetn"}),
    "aclk2x": ("clock", "CLK", {}),
    "aresetn": ("reset", "RST", {"POLARITY": "ACTIVE_LOW"}),
    "interrupt": ("interrupt", "INTERRUPT", {"SENSITIVITY": "LEVEL_HIGH"}),
}
OUTPUTS = ("interrupt",)  # of SINGLE
_STREAM: dict[str, str | int] = {"TDATA_NUM_BYTES": BEAT_BYTES, "HAS_TKEEP": 1, "HAS_TLAST": 1, "HAS_TREADY": 1, "HAS_TSTRB": 0}
_STREAM |= dict.fromkeys(("TDEST_WIDTH", "TID_WIDTH", "TUSER_WIDTH"), 0)
# bus, without the number of its port: the parameters by which Vivado's interconnects are sized
_PARAMETERS: dict[str, dict[str, str | int]] = {
    "s_axi_control": {"PROTOCOL": "AXI4LITE", "DATA_WIDTH": AXI_LITE_BITS["data"], "ADDR_WIDTH": CONTROL_BITS},
    "m_axi_gmem": {
        "PROTOCOL": "AXI4",
        "DATA_WIDTH": BEAT_BITS,
        "ADDR_WIDTH": BUS_BITS,
        "ID_WIDTH": 0,
        "MAX_BURST_LENGTH": BURST_BEATS,
        "NUM_READ_OUTSTANDING": READS_OUTSTANDING,
        "NUM_WRITE_OUTSTANDING": WRITES_OUTSTANDING,
    },
    **dict.fromkeys(("s_axis", "m_axis"), _STREAM),
}


def bus_parameters(bus: str) -> dict[str, str]:
    """Vivado's parameters of a bus of the accelerator, such as `m_axi_gmem2`."""
    return {name: str(value) for name, value in _PARAMETERS[bus.rstrip("0123456789")].items()}


def _address_channel(prefix: str) -> dict[str, wiring.Member]:
    return {
        f"{prefix}addr": Out(AXI_BITS["addr"]),
        f"{prefix}len": Out(AXI_BITS["len"]),
        f"{prefix}size": Out(AXI_BITS["size"]),
        f"{prefix}burst": Out(AXI_BITS["burst"]),
        f"{prefix}lock": Out(AXI_BITS["lock"]),
        f"{prefix}cache": Out(AXI_BITS["cache"]),
        f"{prefix}prot": Out(AXI_BITS["prot"]),
        f"{prefix}qos": Out(AXI_BITS["qos"]),
        f"{prefix}valid": Out(AXI_BITS["valid"]),
        f"{prefix}ready": In(AXI_BITS["ready"]),
    }


class AxiRead(wiring.Signature):
    """Read half of AXI4, 128 bit data, 40 bit address, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                **_address_channel("ar"),
                "rdata": In(AXI_BITS["data"]),
                "rresp": In(AXI_BITS["resp"]),
                "rlast": In(AXI_BITS["last"]),
                "rvalid": In(AXI_BITS["valid"]),
                "rready": Out(AXI_BITS["ready"]),
            }
        )


class AxiWrite(wiring.Signature):
    """Write half of AXI4, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                **_address_channel("aw"),
                "wdata": Out(AXI_BITS["data"]),
                "wstrb": Out(AXI_BITS["strb"]),
                "wlast": Out(AXI_BITS["last"]),
                "wvalid": Out(AXI_BITS["valid"]),
                "wready": In(AXI_BITS["ready"]),
                "bresp": In(AXI_BITS["resp"]),
                "bvalid": In(AXI_BITS["valid"]),
                "bready": Out(AXI_BITS["ready"]),
            }
        )


class Axi4(wiring.Signature):
    """Both halves: one m_axi_gmem port."""

    def __init__(self) -> None:
        super().__init__({**AxiWrite().members, **AxiRead().members})


class AxiStream(wiring.Signature):
    """AXI4-Stream, 128 bit, seen from the master. Packets end with TLAST; every beat but the last one is whole (TKEEP)."""

    def __init__(self) -> None:
        super().__init__(
            {
                "tdata": Out(STREAM_BITS["data"]),
                "tkeep": Out(STREAM_BITS["keep"]),
                "tlast": Out(STREAM_BITS["last"]),
                "tvalid": Out(STREAM_BITS["valid"]),
                "tready": In(STREAM_BITS["ready"]),
            }
        )


class Axi4Lite(wiring.Signature):
    """32 bit AXI4-Lite, seen from the master."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(AXI_LITE_BITS["addr"]),
                "awprot": Out(AXI_LITE_BITS["prot"]),
                "awvalid": Out(AXI_LITE_BITS["valid"]),
                "awready": In(AXI_LITE_BITS["ready"]),
                "wdata": Out(AXI_LITE_BITS["data"]),
                "wstrb": Out(AXI_LITE_BITS["strb"]),
                "wvalid": Out(AXI_LITE_BITS["valid"]),
                "wready": In(AXI_LITE_BITS["ready"]),
                "bresp": In(AXI_LITE_BITS["resp"]),
                "bvalid": In(AXI_LITE_BITS["valid"]),
                "bready": Out(AXI_LITE_BITS["ready"]),
                "araddr": Out(AXI_LITE_BITS["addr"]),
                "arprot": Out(AXI_LITE_BITS["prot"]),
                "arvalid": Out(AXI_LITE_BITS["valid"]),
                "arready": In(AXI_LITE_BITS["ready"]),
                "rdata": In(AXI_LITE_BITS["data"]),
                "rresp": In(AXI_LITE_BITS["resp"]),
                "rvalid": In(AXI_LITE_BITS["valid"]),
                "rready": Out(AXI_LITE_BITS["ready"]),
            }
        )


def connect_halves(m: Module, bus: wiring.PureInterface, *halves: wiring.PureInterface) -> None:
    """Connects masters' halves (`AxiWrite`, `AxiRead`) to the pins of one port (`Axi4`), each signal by its half's signature."""
    for half in halves:
        for name, member in half.signature.members.items():
            pins, inner = getattr(bus, name), getattr(half, name)
            m.d.comb += pins.eq(inner) if member.flow == Out else inner.eq(pins)


def constants(bus: wiring.PureInterface, prefix: str) -> list:
    """Assigns the signals of an address channel ("ar" or "aw") that never change: beats of 16 bytes, incrementing."""
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
