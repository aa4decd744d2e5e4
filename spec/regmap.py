"""The register map: the accelerator's whole programming interface, declared once.

The AXI4-Lite slave (`regfile`), the command structs of the engines (`command`), the driver, the emulator's decode, the
compiler's emitter, `docs/registers.md` and the SystemRDL description are made from it. Pure Python: it imports on a board.

A register program is a list of (offset, value) writes. Writes to an engine's registers fill its shadow set; a write to
its `*_GO` register queues one command with the shadow set's values, which stay for the next command. What the commands
do is in `docs/engines.md`.
"""

from typing import NamedTuple

from cnna.spec.field import Field

VERSION = (1, 2)  # of this map: major, minor; a driver refuses another major, and an older minor
SPACE_BYTES = 0x1000
ENGINES = ("load", "weight", "conv", "vector", "store")  # their numbers, in status and error registers
COUNTED = ("load", "conv", "vector", "store")  # the engines that commands can wait for
SEGMENTS = ("constant", "workspace", "input", "output")  # DDR regions that the host places: numbers of *_SEG
ERRORS = (  # causes, in the order of their numbers
    "none",
    "illegal_register",  # no such register, or not writable
    "illegal_value",  # a field outside its limits
    "read_response",  # SLVERR or DECERR on R
    "write_response",  # SLVERR or DECERR on B
    "watchdog",  # no progress for WATCHDOG clocks
    "run_limit",  # a run of more than RUN_LIMIT clocks
    "outside_segment",  # a command would read or write beyond its segment's SEG_*_BYTES
)
STALLS = ("weights", "feature", "store", "write_back", "residual", "token", "idle")  # why the array did not work
STREAM_ERRORS = (  # why a copy between a stream port and DDR stopped, in the order of their numbers
    "none",
    "illegal",  # its address is no multiple of 16, or it has no bytes
    "response",  # SLVERR or DECERR on R or B
    "early_end",  # the packet ended before the copy
    "late_end",  # the packet went on after it
)
VECTOR_OPS = ("depthwise", "average", "max", "elementwise")

ADDRESS_BITS = 20  # of a feature word address
COUNT_BITS = 24  # of a progress counter
SIZE_BITS = 32  # of a segment's size in bytes
NO_LIMIT = (1 << SIZE_BITS) - 1  # as a segment's size
BOUNDED = ("load", "weight", "store")  # the engines that reach into segments


def _address(name: str, doc: str) -> list[Field]:
    return [Field(name, ADDRESS_BITS, "rw", doc)]


def _step(name: str, doc: str) -> list[Field]:
    return [Field(name, ADDRESS_BITS, "rw", doc, signed=True)]


def _number(name: str, bits: int, doc: str, low: int | None = None, high: int | None = None, signed: bool = False) -> list[Field]:
    return [Field(name, bits, "rw", doc, low=low, high=high, signed=signed)]


def _dma(prefix: str, direction: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_SEG": _number("segment", 2, "Segment that DDR offsets count from (constant, workspace, input, output)."),
        f"{prefix}_DDR": _number("offset", 32, "Byte offset of the first run in the segment; a multiple of 16."),
        f"{prefix}_FM": _address("address", "Feature word address of the first run."),
        f"{prefix}_RUN": _number("words", 17, f"Feature words in a run, contiguous on both sides; {direction}.", low=1),
        f"{prefix}_RUNS": _number("runs", 16, "Runs in a block.", low=1),
        f"{prefix}_DDR_RUN": _number("bytes", 32, "Bytes in DDR from a run to the next; a multiple of 16."),
        f"{prefix}_FM_RUN": _step("words", "Words from a run to the next."),
        f"{prefix}_BLOCKS": _number("blocks", 16, "Blocks.", low=1),
        f"{prefix}_DDR_BLOCK": _number("bytes", 32, "Bytes in DDR from a block to the next; a multiple of 16."),
        f"{prefix}_FM_BLOCK": _step("words", "Words from a block to the next."),
    }


def _source(prefix: str) -> dict[str, list[Field]]:
    """The walk over a source: output pixels outside, window taps inside."""
    return {
        f"{prefix}_SRC": _address(
            "address", "Word that output pixel 0 reads at tap 0, block 0 (modulo 2^20; may lie in the padding)."
        ),
        f"{prefix}_SRC_X": _step("words", "Words from an output pixel's source to the next pixel's (column stride)."),
        f"{prefix}_SRC_ROW": _step("words", "Words added at each new output row, on top of SRC_X for each pixel."),
        f"{prefix}_SRC_IMAGE": _step("words", "Words added at each new image, on top of SRC_X and SRC_ROW."),
        f"{prefix}_SRC_KX": _step("words", "Words from a tap to the next in its row (column dilation)."),
        f"{prefix}_SRC_KY": _step("words", "Words from a tap row to the next (row dilation x pitch)."),
        f"{prefix}_SRC_BLOCK": _step("words", "Words from a channel block to the next."),
        f"{prefix}_OUT": [
            Field("width", 13, "rw", "Output columns.", low=1),
            Field("height", 13, "rw", "Output rows.", low=1),
        ],
        f"{prefix}_IMAGES": _number("images", 9, "Images.", low=1),
        f"{prefix}_KERNEL": [
            Field("width", 8, "rw", "Taps in a row.", low=1),
            Field("height", 8, "rw", "Tap rows.", low=1),
        ],
        f"{prefix}_FIRST": [
            Field("x", 12, "rw", "Source column of pixel 0, tap 0: minus the left padding.", signed=True),
            Field("y", 12, "rw", "Source row of pixel 0, tap 0: minus the top padding.", signed=True),
        ],
        f"{prefix}_STRIDE": [
            Field("x", 6, "rw", "Source columns from an output pixel to the next."),
            Field("y", 6, "rw", "Source rows from an output row to the next."),
            Field("dilation_x", 6, "rw", "Source columns from a tap to the next."),
            Field("dilation_y", 6, "rw", "Source rows from a tap row to the next."),
        ],
        f"{prefix}_IN": [
            Field("width", 13, "rw", "Source columns; a tap outside 0..width-1 reads PAD.", low=1),
            Field("height", 13, "rw", "Source rows; a tap outside 0..height-1 reads PAD.", low=1),
        ],
        f"{prefix}_PAD": _number("value", 8, "What a tap outside the source reads.", signed=True),
    }


def _plane(prefix: str, what: str) -> dict[str, list[Field]]:
    """A walk over output pixels, a chunk's channel blocks inside."""
    return {
        prefix: _address("address", f"Word of {what}'s pixel 0, block 0."),
        f"{prefix}_X": _step("words", "Words from a pixel to the next."),
        f"{prefix}_ROW": _step("words", "Words added at each new row, on top of X for each pixel."),
        f"{prefix}_IMAGE": _step("words", "Words added at each new image, on top of X and ROW."),
        f"{prefix}_BLOCK": _step("words", "Words from a channel block to the next."),
    }


def _clamp(prefix: str, what: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_ZERO": _number("zero", 8, f"Zero point of {what}.", signed=True),
        f"{prefix}_CLAMP": [
            Field("low", 8, "rw", f"Least value of {what}.", signed=True),
            Field("high", 8, "rw", f"Greatest value of {what}.", signed=True),
        ],
    }


def _waits(prefix: str) -> dict[str, list[Field]]:
    return {
        f"{prefix}_WAIT_{engine.upper()}": [
            Field(
                "count",
                COUNT_BITS,
                "rw",
                f"Units that `{engine}` must have finished since start, before unit 0 begins.",
            ),
            Field("step", 1, "rw", "Adds the unit's number to count."),
            Field("enable", 1, "rw", "Waits at all."),
        ]
        for engine in COUNTED
    }


def _outstanding(what: str) -> list[Field]:
    return [Field(f"port{port}", 8, "ro", f"{what}, on port {port}.") for port in range(4)]


def _stream(prefix: str, what: str) -> dict[str, list[Field]]:
    """A copy between a stream port and DDR: one packet."""
    return {
        f"{prefix}_LO": [Field("address", 32, "rw", f"Bus address of the next copy {what}, low half; a multiple of 16.")],
        f"{prefix}_HI": [Field("address", 8, "rw", "High half.")],
        f"{prefix}_BYTES": [Field("bytes", 32, "rw", "Bytes of the packet: any number but 0.")],
        f"{prefix}_START": [Field("start", 1, "pulse", "Starts that copy; SLVERR while busy, resetting or stopped by ERROR.")],
        f"{prefix}_STATUS": [
            Field("busy", 1, "ro", "Between start and the end, by whatever cause."),
            Field("done", 1, "ro", "All bytes were copied; start or a reset clears it."),
            Field("cause", 4, "ro", "Why it stopped, 0 for no error (see `STREAM_ERRORS`); start or a reset clears it."),
            Field("response", 2, "ro", "The bad RRESP or BRESP."),
        ],
    }


def _go(prefix: str, what: str) -> dict[str, list[Field]]:
    return {f"{prefix}_GO": [Field("go", 1, "pulse", f"Queues {what}; holds the write while the queue is full.")]}


_GENERAL: dict[str, list[Field]] = {
    "ID": [Field("magic", 32, "ro", "ASCII 'CNNA', first letter in the lowest byte.", 0x414E4E43)],
    "VERSION": [
        Field("minor", 16, "ro", "Minor version of this map."),
        Field("major", 16, "ro", "Major version of this map."),
    ],
    "ARRAY": [
        Field("pix", 8, "ro", "Output pixels a clock."),
        Field("ci", 8, "ro", "Input channels a clock."),
        Field("co", 8, "ro", "Output channels a clock."),
        Field("ports", 8, "ro", "AXI4 masters."),
    ],
    "MEMORY": [
        Field("bank_words", 16, "ro", "Words in a bank of a region."),
        Field("regions", 8, "ro", "Regions of feature memory."),
        Field("streams", 1, "ro", "1: it has stream ports, and copies between them and DDR."),
    ],
    "RINGS": [
        Field("ring_words", 16, "ro", "Words of the weight ring."),
        Field("vector_ring_words", 16, "ro", "Words of the vector engine's parameter ring."),
    ],
    "CLOCK": [Field("mhz", 16, "ro", "Clock that the image was built for.")],
    "CTRL": [
        Field("start", 1, "pulse", "Clears counters and errors, then plays PROG_COUNT writes from PROG_BASE."),
        Field("begin", 1, "pulse", "Clears counters and errors, then takes the program's writes from AXI4-Lite."),
        Field("soft_reset", 1, "pulse", "Lets AXI4 bursts end, then resets all but this block's rw registers."),
        Field("irq_enable", 1, "rw", "Raises `interrupt` while done or error is set."),
    ],
    "STATUS": [
        Field("busy", 1, "ro", "Between start or begin and done or error."),
        Field("done", 1, "w1c", "END was reached and every engine has finished."),
        Field("error", 1, "ro", "Stopped by ERROR.cause; start, begin or soft reset clears it."),
        Field("resetting", 1, "ro", "A soft reset waits for AXI4 bursts to end."),
        Field("engines", 5, "ro", "Busy engines, a bit each in the order load, weight, conv, vector, store."),
    ],
    "ERROR": [
        Field("cause", 8, "ro", "Number of the cause, 0 for none (see `ERRORS`)."),
        Field("port", 8, "ro", "AXI4 port of a bad response."),
        Field("response", 2, "ro", "The bad RRESP or BRESP."),
    ],
    "ERROR_INFO": [
        Field("offset", 16, "ro", "Register offset of an illegal write; the `*_SEG` of an engine that went outside of its segment.")
    ],
    "PC": [
        Field(
            "count",
            32,
            "ro",
            "Program writes done; after an error, the number of the write that failed or was pending.",
        )
    ],
    "WATCHDOG": [Field("clocks", 32, "rw", "Clocks without progress that stop the accelerator; 0: never.", 1_000_000)],
    "PROG_BASE_LO": [Field("address", 32, "rw", "Bus address of the program, low half; a multiple of 16.")],
    "PROG_BASE_HI": [Field("address", 8, "rw", "High half.")],
    "PROG_COUNT": [Field("writes", 32, "rw", "Writes in the program, 8 bytes each: offset (32 bit), then value (32 bit).")],
    **{
        f"SEG_{name.upper()}_{half}": [Field("address", bits, "rw", f"Bus address of the {name} segment, {text}.")]
        for name in SEGMENTS
        for half, bits, text in (("LO", 32, "low half; a multiple of 4096"), ("HI", 8, "high half"))
    },
    "END": [Field("end", 1, "pulse", "Last write of every program: done is set once every engine has finished.")],
    "OUTSTANDING_READS": _outstanding("Read bursts taken on AR whose last R beat has not come"),
    "OUTSTANDING_WRITES": _outstanding("Write bursts taken on AW whose B has not come"),
    **_stream("STREAM_IN", "from `s_axis` into DDR"),
    **_stream("STREAM_OUT", "from DDR to `m_axis`"),
    "RUN_LIMIT": [Field("clocks", 32, "rw", "Clocks from its start after which a program is stopped; 0: never.")],
    **{
        f"SEG_{name.upper()}_BYTES": [
            Field("bytes", SIZE_BITS, "rw", f"Size of the {name} segment, a multiple of 16; {NO_LIMIT:#x}: no limit.", NO_LIMIT)
        ]
        for name in SEGMENTS
    },
}

_COUNTERS: dict[str, list[Field]] = {
    "CYCLES": [Field("clocks", 32, "ro", "Clocks from start to done.")],
    "ARRAY_ACTIVE": [Field("clocks", 32, "ro", "Clocks in which the array took a step.")],
    "VECTOR_ACTIVE": [Field("clocks", 32, "ro", "Clocks in which the vector engine took a step.")],
    **{
        f"STALL_{cause.upper()}": [Field("clocks", 32, "ro", f"Clocks in which the array waited: {text}.")]
        for cause, text in zip(
            STALLS,
            (
                "for weights",
                "for words from feature memory",
                "at its head for the store engine to free memory",
                "for room behind the requantiser",
                "for residual operands",
                "for another engine's units",
                "for a command",
            ),
            strict=True,
        )
    },
    **{
        f"{kind}_BEATS{port}": [Field("beats", 32, "ro", f"{kind[0]} beats on port {port}.")]
        for kind in ("READ", "WRITE")
        for port in range(4)
    },
    **{
        f"DONE_{engine.upper()}": [Field("units", COUNT_BITS, "ro", f"Units that `{engine}` has finished since start.")]
        for engine in COUNTED
    },
}

_LOAD = {**_dma("LOAD", "read from DDR"), **_waits("LOAD"), **_go("LOAD", "a copy from DDR into feature memory")}
_STORE = {**_dma("STORE", "written to DDR"), **_waits("STORE"), **_go("STORE", "a copy from feature memory into DDR")}

_WEIGHT = {
    "WEIGHT_RING": _number("ring", 1, "0: weight ring, every port. 1: vector ring, port 0 alone."),
    "WEIGHT_SEG": _number("segment", 2, "Segment that WEIGHT_DDR counts from."),
    "WEIGHT_DDR": _number("offset", 32, "Byte offset of port 0's stripe; a multiple of 16."),
    "WEIGHT_PORT": _number("bytes", 32, "Bytes from a port's stripe to the next port's; a multiple of 16."),
    "WEIGHT_BEATS": _number("beats", 28, "Beats of 16 bytes on each port, contiguous.", low=1),
    "WEIGHT_REPEAT": _number("times", 20, "How often the same beats are brought.", low=1),
    **_go("WEIGHT", "a stream into a ring"),
}

_CONV = {
    **_source("CONV"),
    "CONV_BLOCKS": _number("blocks", 12, "Input channel blocks summed over.", low=1),
    "CONV_CHUNKS": _number("chunks", 12, "Output channel chunks: the units of this engine.", low=1),
    "CONV_STREAM": _number("stream", 1, "1: every pixel group takes fresh weights from the ring. 0: a chunk's groups share them."),
    **_clamp("CONV_MID", "the sum's own int8 result"),
    **_plane("CONV_DST", "the destination"),
    "CONV_DST_BLOCKS": _number("blocks", 16, "Channel blocks written in all; those beyond are dropped.", low=1),
    "CONV_RES_ENABLE": _number("enable", 1, "Adds a residual operand."),
    **_plane("CONV_RES", "the residual operand"),
    "CONV_ADD_A": _number("factor", 26, "Multiplier of the sum's int8 result.", signed=True),
    "CONV_ADD_B": _number("factor", 26, "Multiplier of the residual operand.", signed=True),
    "CONV_ADD_OFFSET": _number("offset", 32, "Added to both products.", signed=True),
    "CONV_ADD_SHIFT": _number("bits", 6, "Right shift of the sum, rounded half to even.", low=1, high=55),
    **_clamp("CONV_OUT", "what is written"),
    **_waits("CONV"),
    **_go("CONV", "a convolution"),
}

_VECTOR = {
    "VECTOR_OP": _number("op", 2, "0 depthwise, 1 average, 2 max, 3 elementwise."),
    **_source("VECTOR"),
    "VECTOR_BLOCKS": _number("blocks", 16, "Channel blocks, one after another; co / ci of them (or the rest) are a unit.", low=1),
    "VECTOR_UNIFORM": _number(
        "uniform", 1, "1: block 0's parameters serve all blocks. 0: every block takes its own from the ring."
    ),
    "VECTOR_ADD_B": _number("factor", 26, "Multiplier of tap 1 in an elementwise operation.", signed=True),
    **_clamp("VECTOR_OUT", "what is written"),
    **_plane("VECTOR_DST", "the destination"),
    **_waits("VECTOR"),
    **_go("VECTOR", "a pass of the vector engine"),
}

BLOCKS: dict[str, tuple[int, dict[str, list[Field]]]] = {  # name: (first offset, registers four bytes apart)
    "general": (0x000, _GENERAL),
    "counters": (0x100, _COUNTERS),
    "load": (0x200, _LOAD),
    "weight": (0x280, _WEIGHT),
    "conv": (0x300, _CONV),
    "vector": (0x400, _VECTOR),
    "store": (0x500, _STORE),
}


class Register(NamedTuple):
    """One 32-bit register and where it stands."""

    name: str
    offset: int
    block: str
    fields: tuple[Field, ...]

    def pack(self, **values: int) -> int:
        """The register's word from field values (reset values where none is given).

        ValueError: a value outside its field's limits, with register, field, value and limits.
        """
        word, bit = 0, 0
        for field in self.fields:
            value = int(values.pop(field.name, field.reset))
            low, high = field.limits
            if not low <= value <= high:
                raise ValueError(f"{self.name}.{field.name} = {value} is not within {low}..{high}")
            word |= (value & ((1 << field.bits) - 1)) << bit
            bit += field.bits
        if values:
            raise ValueError(f"{self.name} has no field {', '.join(values)}")
        return word

    def unpack(self, word: int) -> dict[str, int]:
        """Field values of a register's word."""
        values, bit = {}, 0
        for field in self.fields:
            value = (word >> bit) & ((1 << field.bits) - 1)
            if field.signed and value >> (field.bits - 1):
                value -= 1 << field.bits
            values[field.name] = value
            bit += field.bits
        return values


REGISTERS: dict[str, Register] = {
    name: Register(name, base + 4 * index, block, tuple(fields))
    for block, (base, registers) in BLOCKS.items()
    for index, (name, fields) in enumerate(registers.items())
}
BY_OFFSET: dict[int, Register] = {register.offset: register for register in REGISTERS.values()}


def offset(name: str) -> int:
    """Byte offset of the register of that name."""
    return REGISTERS[name].offset


def command_fields(engine: str) -> dict[str, Field]:
    """What a command of that engine carries: `register_field` in lower case, without the engine's prefix.

    A register whose only field is a number keeps just its own name: CONV_SRC_X is `src_x`, CONV_OUT.width is `out_width`.
    """
    prefix, found = engine.upper() + "_", {}
    for register in REGISTERS.values():
        if register.block == engine and not register.name.endswith("_GO"):
            short = register.name.removeprefix(prefix).lower()
            for field in register.fields:
                found[short if len(register.fields) == 1 else f"{short}_{field.name}"] = field
    return found
