"""The register map as documents: SystemRDL for other tools, and docs/registers.md.

`python -m cnna.hw.verilog.describe FILE` writes docs/registers.md.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from cnna.spec.config import Config
from cnna.spec.field import Field
from cnna.spec.regmap import (
    BLOCKS,
    ENGINES,
    ERRORS,
    QUEUE_MINOR,
    REGISTERS,
    SPACE_BYTES,
    STALLS,
    STREAM_ERRORS,
    VERSION,
    Register,
    program_version,
)

_SOFTWARE = {
    "ro": "sw = r; hw = w;",
    "rw": "sw = rw; hw = r;",
    "w1c": "sw = rw; onwrite = woclr; hw = w;",
    "pulse": "sw = w; hw = r;",
}
_ABOUT = {
    "general": "What the accelerator is, what it is asked to do, and its state.",
    "counters": "Counted while a program runs; start and begin clear them.",
    "runs": "The queue of runs.",
    "load": "The load engine's next command.",
    "weight": "The weight engine's next command.",
    "conv": "The convolution engine's next command.",
    "vector": "The vector engine's next command.",
    "store": "The store engine's next command.",
}
_RULES = """\
You find here every register and field of the accelerator, and what may be written when.

Offsets are in bytes. Every register has 32 bits; fields lie from bit 0 up, and bits above the last field are ignored. Access:
`ro` is set by the hardware alone, `rw` keeps what is written, `w1c` is cleared by writing 1, and `pulse` acts when 1 is written and
reads 0. Signed fields are two's complement. Only aligned writes of all four bytes are legal.

What a write over AXI4-Lite may do:

| when | may be written | everything else |
|---|---|---|
| any time | CTRL, STATUS, WATCHDOG; the STREAM registers where MEMORY.streams is 1 | |
| not busy | also the `rw` registers of the general block | SLVERR, no effect |
| busy by CTRL.start, CTRL.queue | also the run registers, while a place is free | SLVERR, no effect; the program runs on |
| busy by CTRL.begin | also the engines' registers and END; each write is answered when it has acted | stops with ERROR; SLVERR |

CTRL.start and CTRL.begin while busy are SLVERR. A write to a `*_GO` register is answered when its command is queued. A program
write that is not to an engine's register or END is `illegal_register`; one with a field outside its limits is `illegal_value`.
Both stop the accelerator, and the host that wrote them gets SLVERR. It also gets SLVERR for a write that is under way when an error
or a reset ends the program. Reads are answered at any time; a read of an offset without a register gets SLVERR.

CTRL.start or CTRL.begin after an error does a soft reset first: STATUS.busy and STATUS.resetting are set at once, and a host that
plays the program itself waits for STATUS.resetting to fall. A soft reset takes as long as the slowest outstanding AXI4 burst.
Until it has ended, STATUS.error, ERROR and the interrupt still belong to the last program, so a host that waits for the end of the
next program resets first. A start or begin that comes during a soft reset begins its program when the reset has ended.

The run registers are PROG_BASE, PROG_COUNT, SEG_*, SEG_*_BYTES and RUN_LIMIT. A start takes their words. CTRL.queue takes a
snapshot of them and starts a program with it, as soon as those before it have ended. So a host sets the run registers for the next
program while one runs, queues it, and then may set them for the one after that. What is written while a program runs changes
neither that program nor those in the queue. WATCHDOG is no run register: it holds for all of them.

- While a program runs and QUEUE.places starts are pending, CTRL.queue and a write to a run register get SLVERR. Once FINISHED has
  counted that program they are legal again: they wait until the next one has begun.
- CTRL.queue is answered when the snapshot is taken. If nothing runs, its program begins. CTRL.start, CTRL.begin and
  CTRL.soft_reset in the same write go before it: then nothing is queued.
- While an error has stopped the accelerator, CTRL.queue is answered by OKAY, starts and clears nothing, and counts in
  QUEUE.dropped: the host may not have seen the error yet. From a soft reset on, or a start or begin after the error, it queues
  again.
- STATUS.busy stays set until the queue is empty and the last program has ended. STATUS.done is set at the end of each program, and
  stays when a program from the queue begins. So done may be set beside busy. A host clears done first, then reads FINISHED.
- FINISHED counts the programs that set done, and goes on through soft resets. A program that an error stops is number FINISHED,
  counted from 0.
- While a program from the queue runs (QUEUE.queued), the counters, DONE_* and PC are those of the program before it, unless
  CTRL.live is set. If FINISHED is the same before and after they are read, and STATUS.error is not set after it, they belong to
  the program with the number FINISHED - 1.
- An error stops one program and drops all that are pending: QUEUE.dropped says how many. ERROR, PC and the counters are then those
  of the program that it stopped, and FINISHED stays as it is. A soft reset clears the queue too.

Four things bound a program. WATCHDOG stops a program that makes no progress. RUN_LIMIT stops a program that runs for too long,
whatever it does. The sequencer fetches PROG_COUNT writes and no more. A command of load, weight or store stops the accelerator by
outside_segment unless all its beats lie in the first `SEG_*_BYTES` of its segment. No beat outside reaches the bus, but beats
inside may have been moved. The `SEG_*_BYTES` registers keep their values through soft resets: whoever starts a program sets them
for it. Copies by the STREAM registers belong to the host and are not checked.

Where MEMORY.streams is 0, the STREAM registers read 0, and writing one is SLVERR. Where MEMORY.codebook is 0, there is no
WEIGHT_CODE.
"""


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _limits(field: Field) -> str:
    low, high = field.limits
    return "" if field.access != "rw" or (field.low is None and field.high is None) else f"{low}..{high}"


def _positions(register: Register) -> Iterator[tuple[Field, int, int]]:
    """Each field with its highest and lowest bit."""
    bit = 0
    for field in register.fields:
        yield field, bit + field.bits - 1, bit
        bit += field.bits


def markdown() -> str:
    """The text of docs/registers.md."""
    lines = [
        "# Registers",
        "",
        f"Generated from `spec/regmap.py`, version {_dotted(VERSION)}, by `python -m cnna.hw.verilog.describe`.",
        f"Programs need {_dotted(program_version(False))}, those with codes for a `codebook` {_dotted(program_version(True))}. "
        f"The queue of runs came with {VERSION[0]}.{QUEUE_MINOR}.",
        "",
    ]
    lines += [_RULES, "## Numbers", ""]
    numbers = {"ERROR.cause": ERRORS, "STATUS.engines, bits": ENGINES, "STALL counters": STALLS}
    for title, names in (numbers | {"STREAM_IN_STATUS.cause, STREAM_OUT_STATUS.cause": STREAM_ERRORS}).items():
        lines.append(f"- {title}: " + ", ".join(f"{number} {name}" for number, name in enumerate(names)))
    for block, (base, _) in BLOCKS.items():
        lines += ["", f"## {block}, from {base:#05x}", "", _ABOUT[block], ""]
        lines += ["| offset | register | bits | field | access | reset | limits | what |", "|---|---|---|---|---|---|---|---|"]
        for register in (r for r in REGISTERS.values() if r.block == block):
            where, name = f"{register.offset:#05x}", register.name
            for field, high, low in _positions(register):
                bits, sign = f"{high}:{low}" if high != low else f"{low}", " (signed)" if field.signed else ""
                reset = f"{field.reset:#x}" if field.reset > 9 else str(field.reset)
                cells = (where, name, bits, field.name + sign, field.access, reset, _limits(field), field.doc)
                lines.append("| " + " | ".join(cells) + " |")
                where = name = ""
    return "\n".join([*lines, ""])


def systemrdl(config: Config) -> str:
    """The map as SystemRDL 2.0, with the capability words of the configuration as resets."""
    from cnna.spec.identity import capability_words

    words = capability_words(config)
    lines = [f"// Register map {_dotted(VERSION)} of cnna, configuration {config.name}.", "addrmap cnna {"]
    lines += ['  name = "cnna";', "  default regwidth = 32;", "  default accesswidth = 32;", "  lsb0;"]
    for register in REGISTERS.values():
        resets = register.unpack(words[register.name]) if register.name in words else {}
        lines.append("  reg {")
        lines.append(f'    name = "{register.name}";')
        for field, high, low in _positions(register):
            reset = resets.get(field.name, field.reset)
            fixed = _SOFTWARE[field.access] if register.name not in words else "sw = r; hw = na;"
            told = field.doc.replace("\\", "\\\\").replace('"', '\\"') + (f" Legal: {_limits(field)}." if _limits(field) else "")
            known = f" = {field.bits}'h{reset & ((1 << field.bits) - 1):x}"
            lines.append(f'    field {{ {fixed} desc = "{told}"; }} {_identifier(field.name)}[{high}:{low}]{known};')
        lines.append(f"  }} {register.name} @ {register.offset:#x};")
    assert max(register.offset for register in REGISTERS.values()) < SPACE_BYTES
    return "\n".join([*lines, "};", ""])


def _identifier(name: str) -> str:
    """The name, escaped if it is a keyword of SystemRDL."""
    return f"\\{name}" if name in ("end", "enable", "count", "low", "high", "shared", "field", "reg") else name


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
