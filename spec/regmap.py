"""The register map: the accelerator's whole programming interface, declared once.

The AXI4-Lite slave (`regfile`), the command structs of the engines (`command`), the driver, the emulator's decoder, the
compiler's emitter, `docs/registers.md` and the SystemRDL description are made from it. It is pure Python, so a board can import it.
`command_registers` has the tables of the engines; import the names that it shares with this file from here.

A register program is a list of (offset, value) writes. Writes to an engine's registers fill its shadow set. A write to its
`*_GO` register queues one command with the shadow set's values, which stay for the next command. `docs/engines.md` says what the
commands do.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from cnna.spec.field import Field
from cnna.spec.field import Register as Register
from cnna.spec.program.command_registers import ADDRESS_BITS as ADDRESS_BITS
from cnna.spec.program.command_registers import CONV, COUNTED, LOAD, STORE, VECTOR, WEIGHT
from cnna.spec.program.command_registers import COUNT_BITS as COUNT_BITS
from cnna.spec.program.command_registers import DECK_BIT as DECK_BIT
from cnna.spec.program.command_registers import VECTOR_OPS as VECTOR_OPS
from cnna.spec.program.command_registers import WEIGHT_KINDS as WEIGHT_KINDS

VERSION = (1, 6)  # major and minor version of this map, and of every accelerator that is made from it
PROGRAM_MINOR = 4  # minor version that programs need; drivers refuse accelerators of an older one
CODEBOOK_MINOR = 5  # minor version that programs with CODED registers need: these are for accelerators with `Config.codebook`
QUEUE_MINOR = 6  # minor version from which an accelerator has a queue of runs
SPACE_BYTES = 0x1000
ENGINES = ("load", "weight", "conv", "vector", "store")  # their numbers, in status and error registers
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

SIZE_BITS = 32  # of a segment's size in bytes
NO_LIMIT = (1 << SIZE_BITS) - 1  # as a segment's size
BOUNDED = ("load", "weight", "store")  # the engines that reach into segments
PLACES = 2  # starts that the queue holds


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
        Field("deep", 1, "ro", "1: the array takes two channel blocks a clock, and feature memory has two decks."),
        Field("codebook", 1, "ro", "1: weights may come as codes into books, and there is WEIGHT_CODE."),
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
        Field(
            "queue", 1, "pulse", "Queues a start with the run registers as they are now; done stays. SLVERR if no place is free."
        ),
        Field("live", 1, "rw", "1: counters and PC are those of the program that runs, even if it comes from the queue."),
    ],
    "STATUS": [
        Field("busy", 1, "ro", "Between start or begin and done or error."),
        Field("done", 1, "w1c", "END was reached and every engine has finished; never set beside error."),
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

_RUNS: dict[str, list[Field]] = {
    "FINISHED": [Field("runs", 32, "ro", "Programs that set done, modulo 2^32, from the power-up or `aresetn` on.")],
    "QUEUE": [
        Field("pending", 8, "ro", "Queued starts whose programs have not begun."),
        Field("dropped", 8, "ro", "Queued starts that the error in ERROR has dropped, up to 255; cleared as ERROR is."),
        Field("places", 8, "ro", "Queued starts that may be pending.", PLACES),
        Field("queued", 1, "ro", "The program that runs comes from the queue."),
    ],
}

BLOCKS: dict[str, tuple[int, dict[str, list[Field]]]] = {  # name: (first offset, registers four bytes apart)
    "general": (0x000, _GENERAL),
    "counters": (0x100, _COUNTERS),
    "runs": (0x180, _RUNS),
    "load": (0x200, LOAD),
    "weight": (0x280, WEIGHT),
    "conv": (0x300, CONV),
    "vector": (0x400, VECTOR),
    "store": (0x500, STORE),
}


REGISTERS: dict[str, Register] = {
    name: Register(name, base + 4 * index, block, tuple(fields))
    for block, (base, registers) in BLOCKS.items()
    for index, (name, fields) in enumerate(registers.items())
}
BY_OFFSET: dict[int, Register] = {register.offset: register for register in REGISTERS.values()}
GO_OFFSETS: dict[int, str] = {REGISTERS[f"{engine.upper()}_GO"].offset: engine for engine in ENGINES}  # where a command ends
# A start sets them to 0, for programs from before these registers.
CLEARED = ("CONV_TABLE", "VECTOR_TABLE", "VECTOR_B", "VECTOR_WINDOW", "WEIGHT_CODE")
CODED = ("WEIGHT_CODE",)  # the registers that only accelerators with `Config.codebook` have
RUN_REGISTERS = tuple(  # what a start takes, and a queued start a snapshot of
    name for name in _GENERAL if name.startswith(("PROG_", "SEG_")) or name == "RUN_LIMIT"
)
IN_PROGRAMS: frozenset[int] = frozenset(  # the offsets that a program may write
    [register.offset for register in REGISTERS.values() if register.block in ENGINES] + [REGISTERS["END"].offset]
)


def program_version(codebook: bool) -> tuple[int, int]:
    """The version of the map that programs for an accelerator with or without books need."""
    return (VERSION[0], CODEBOOK_MINOR if codebook else PROGRAM_MINOR)


def there(codebook: bool) -> tuple[Register, ...]:
    """The registers of an accelerator with or without books, in order."""
    return tuple(register for name, register in REGISTERS.items() if codebook or name not in CODED)


def offset(name: str) -> int:
    """Byte offset of the register of that name."""
    return REGISTERS[name].offset


@cache
def registers_of(engine: str) -> tuple[tuple[Register, tuple[str, ...]], ...]:
    """The registers that a command of that engine carries, in order, each with the names of its fields as in `command_fields`."""
    prefix, found = f"{engine.upper()}_", []
    for register in REGISTERS.values():
        if register.block == engine and register.offset not in GO_OFFSETS:
            short = register.name.removeprefix(prefix).lower()
            names = [short] if len(register.fields) == 1 else [f"{short}_{field.name}" for field in register.fields]
            found.append((register, tuple(names)))
    return tuple(found)


@cache
def command_fields(engine: str) -> Mapping[str, Field]:
    """What a command of that engine carries: `register_field` in lower case, without the engine's prefix.

    A register whose only field is a number keeps just its own name: CONV_SRC_X is `src_x`, CONV_OUT.width is `out_width`.
    """
    found = {name: field for register, names in registers_of(engine) for name, field in zip(names, register.fields, strict=True)}
    return MappingProxyType(found)


def command_writes(engine: str, values: Mapping[str, int]) -> list[tuple[int, int]]:
    """All register writes (offset, value) of one command. A field that is not given holds 0, or its least legal value if that is
    higher. Registers that not every accelerator has (CODED) are written only if a field of them is given.

    ValueError: there is no such field, or its value is outside of its limits.
    """
    fields = {name: max(0, field.limits[0]) for name, field in command_fields(engine).items()}
    if unknown := values.keys() - fields.keys():
        raise ValueError(f"{engine} has no field {', '.join(sorted(unknown))}")
    fields |= values
    found = [
        (register.offset, register.pack(**{field.name: fields[name] for field, name in zip(register.fields, names, strict=True)}))
        for register, names in registers_of(engine)
        if register.name not in CODED or values.keys() & set(names)
    ]
    return [*found, (offset(f"{engine.upper()}_GO"), 1)]
