"""Interfaces between modules: signals that travel together are one signature, and all are named here.

`valid`/`ready` pairs are `amaranth.lib.stream`s. Where there is no `ready`, the receiver has reserved room before it asked (a
credit), so that long pipelines run freely and no stall net fans out through them.
"""

from amaranth import Shape, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.config import BEAT_BYTES, PARAM_BITS, Config
from cnna.spec.machine import BEAT_BITS, BUS_BITS
from cnna.spec.regmap import ADDRESS_BITS, CODED, registers_of


class Burst(data.Struct):
    """A burst that a client wants. It has at most BURST_BEATS and never crosses 4 KiB.

    The client of a read has reserved room for its beats. The client of a write has all of them ready in its data stream.
    """

    address: unsigned(BUS_BITS)  # bytes, a multiple of 16
    beats: unsigned(5)


class WriteBeat(data.Struct):
    """One W beat."""

    data: unsigned(BEAT_BITS)
    strobe: unsigned(BEAT_BYTES)


class ReadBeat(data.Struct):
    """One R beat, as the client gets it."""

    data: unsigned(BEAT_BITS)
    last: unsigned(1)  # of its burst


class ReadClient(wiring.Signature):
    """A client of a port's read master, seen from the client. Beats come in the order of bursts, without back-pressure."""

    def __init__(self) -> None:
        super().__init__({"burst": Out(stream.Signature(Burst)), "beat": In(stream.Signature(ReadBeat, always_ready=True))})


class WriteClient(wiring.Signature):
    """A client of a port's write master, seen from the client. `done` pulses once for each burst's B response, in order."""

    def __init__(self) -> None:
        super().__init__({"burst": Out(stream.Signature(Burst)), "beat": Out(stream.Signature(WriteBeat)), "done": In(1)})


def feature_read_request(config: Config, lanes: int, tag_bits: int) -> data.StructLayout:
    """Lanes to read, in any banks. A lane that is not active reads nothing, and its word is anything."""
    return data.StructLayout(
        {"active": unsigned(lanes), "address": data.ArrayLayout(ADDRESS_BITS, lanes), "tag": unsigned(tag_bits)}
    )


def feature_read_response(config: Config, lanes: int, tag_bits: int, blocks: int = 1) -> data.StructLayout:
    """The words of one request, each of so many blocks, and the request's tag."""
    return data.StructLayout({"words": data.ArrayLayout(8 * blocks * config.ci, lanes), "tag": unsigned(tag_bits)})


class FeatureRead(wiring.Signature):
    """A read port of feature memory, seen from the reader. Each request has one response, in order, without back-pressure.

    `blocks`: 2, if a request reads both decks at its addresses, whose deck does not count.
    """

    def __init__(self, config: Config, lanes: int, tag_bits: int, blocks: int = 1) -> None:
        super().__init__(
            {
                "request": Out(stream.Signature(feature_read_request(config, lanes, tag_bits))),
                "response": In(stream.Signature(feature_read_response(config, lanes, tag_bits, blocks), always_ready=True)),
            }
        )


def feature_write_request(config: Config, lanes: int) -> data.StructLayout:
    """Words to write. A lane that is not active writes nothing. `last` asks for a `done` pulse."""
    return data.StructLayout(
        {
            "active": unsigned(lanes),
            "address": data.ArrayLayout(ADDRESS_BITS, lanes),
            "words": data.ArrayLayout(8 * config.ci, lanes),
            "last": unsigned(1),
        }
    )


class FeatureWrite(wiring.Signature):
    """A write port of feature memory, seen from the writer.

    Requests of one port are written in order, and the lanes of one request in the order of their numbers. `done` pulses once for
    each request with `last` set, in order. Every read, at any port, that is taken in the clock of the pulse or later sees what this
    request and all before it wrote. A read taken earlier may see old or new words.
    """

    def __init__(self, config: Config, lanes: int) -> None:
        super().__init__({"request": Out(stream.Signature(feature_write_request(config, lanes))), "done": In(1)})


class Permit(wiring.Signature):
    """Permission to start one more unit, seen from the giver: the handshake of a stream, without a payload."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "ready": In(1)})


RING_LATENCY = 3  # clocks from RingRead.enable to its data
LEVEL_BITS = 13


class RingRead(wiring.Signature):
    """The reading side of a ring, seen from the reader.

    `level` words are ready, counted from the tail. `enable` reads the word at `offset` (below `level`) from the tail;
    it is on `data` RING_LATENCY clocks later. `pop`, in the same or a later clock, frees the tail's word, at most one a clock.
    """

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                "level": In(LEVEL_BITS),
                "enable": Out(1),
                "offset": Out(LEVEL_BITS),
                "pop": Out(1),
                "data": In(width),
            }
        )


def params_layout() -> data.StructLayout:
    """Requantiser parameters of one output channel, as in a ring from bit 0 up."""
    return data.StructLayout({name: unsigned(bits) if name == "shift" else signed(bits) for name, bits in PARAM_BITS.items()})


def sums_layout(config: Config) -> data.ArrayLayout:
    """The array's sums of a pixel group: int32 by pixel, then output channel."""
    return data.ArrayLayout(data.ArrayLayout(signed(32), config.co), config.pix)


def command_layout(engine: str, codebook: bool = True) -> data.StructLayout:
    """An engine's command, which `regfile` queues at a write to its GO register. Its members are `regmap.command_fields`.

    Without `codebook`, those of registers that only accelerators with books have are left out.
    """
    fields = {
        name: field
        for register, names in registers_of(engine)
        if codebook or register.name not in CODED
        for name, field in zip(names, register.fields, strict=True)
    }
    return data.StructLayout({name: Shape(field.bits, field.signed) for name, field in fields.items()})
