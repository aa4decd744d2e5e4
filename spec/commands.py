"""Decodes register writes into commands, from `spec.regmap` alone: the emulator's front end and the report's reader.

A `Decoder` keeps every engine's shadow registers as the RTL's register file does; a write to an engine's GO register
answers with the command it queues.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace

import numpy as np

from cnna.spec.config import Config
from cnna.spec.regmap import BY_OFFSET, ENGINES, REGISTERS, VECTOR_OPS, command_fields

WRITE_BYTES = 8  # of one program write: offset, then value, 32 bit each, little endian


class IllegalWriteError(Exception):
    """A write that the accelerator refuses: `cause` as in `regmap.ERRORS`, and the register's offset."""

    def __init__(self, cause: str, offset: int) -> None:
        super().__init__(f"{cause} at register offset {offset:#x}")
        self.cause, self.offset = cause, offset


@dataclass(frozen=True)
class Command:
    """One command as its engine takes it: `f` has a value for each name of `regmap.command_fields(engine)`."""

    number: int  # of the GO write among the program's GO writes
    pc: int  # number of the GO write in the program
    engine: str
    f: SimpleNamespace

    def units(self, chunk_blocks: int) -> int:
        """Units that other engines can wait for, of an accelerator with that many blocks in a chunk; `weight` has none."""
        if self.engine == "vector":
            return -(-self.f.blocks // chunk_blocks)
        return int({"conv": getattr(self.f, "chunks", 0), "weight": 0}.get(self.engine, 1))

    def least_clocks(self, config: Config) -> int:
        """Clocks that its engine is at work on it, if nothing ever holds it up."""
        f = self.f
        if self.engine == "weight":
            return int(f.beats * f.repeat)
        if self.engine in ("load", "store"):
            return int(f.blocks * f.runs * -(-f.run // config.beat_words) // config.ports)
        groups = -(-f.images * f.out_height * f.out_width // config.pix)
        taps = 1 if self.engine == "vector" and VECTOR_OPS[f.op] == "elementwise" else f.kernel_height * f.kernel_width
        return int(groups * taps * f.blocks * (f.chunks if self.engine == "conv" else 1))

    def __str__(self) -> str:
        return f"{self.engine} command {self.number} (program write {self.pc})"


@cache
def _names(register: str) -> tuple[str, ...]:
    """The command members that a register's fields become, in order."""
    engine = REGISTERS[register].block
    names = iter(command_fields(engine))
    for other in REGISTERS.values():
        if other.block == engine and not other.name.endswith("_GO"):
            members = tuple(next(names) for _ in other.fields)
            if other.name == register:
                return members
    raise KeyError(register)


@cache
def _decode(offset: int, value: int) -> tuple[str, str, dict[str, int] | None]:
    """(engine, register, command members) of a legal program write; members None for GO and END."""
    register = BY_OFFSET.get(offset)
    if register is None or (register.block not in ENGINES and register.name != "END"):
        raise IllegalWriteError("illegal_register", offset)
    if register.name == "END" or register.name.endswith("_GO"):
        return register.block, register.name, None
    values = register.unpack(value)
    for spec in register.fields:
        low, high = spec.limits
        if not low <= values[spec.name] <= high:
            raise IllegalWriteError("illegal_value", offset)
    return register.block, register.name, dict(zip(_names(register.name), values.values(), strict=True))


@dataclass
class Decoder:
    """Shadow registers of all engines, and how many writes and commands there have been."""

    shadow: dict[str, dict[str, int]] = field(
        default_factory=lambda: {e: {name: f.reset for name, f in command_fields(e).items()} for e in ENGINES}
    )
    writes: int = 0
    commands: int = 0

    def restart(self) -> None:
        """What `CTRL.start` does: counts from 0; shadow registers stay."""
        self.writes = self.commands = 0

    def write(self, offset: int, value: int) -> Command | str | None:
        """One program write: the command it queues, "end", or None. IllegalWriteError: it is refused and not counted."""
        engine, register, members = _decode(offset, value)
        pc, self.writes = self.writes, self.writes + 1
        if members is not None:
            self.shadow[engine].update(members)
            return None
        if register == "END":
            return "end"
        number, self.commands = self.commands, self.commands + 1
        return Command(number, pc, engine, SimpleNamespace(**self.shadow[engine]))


def program_writes(program: bytes) -> list[tuple[int, int]]:
    """(offset, value) of each write of a program."""
    return [(int(o), int(v)) for o, v in np.frombuffer(program, "<u4").reshape(-1, 2)]


def commands(program: bytes) -> Iterator[Command]:
    """The commands of a program, in order, from fresh shadow registers. IllegalWriteError: a write is refused."""
    decoder = Decoder()
    for offset, value in program_writes(program):
        made = decoder.write(offset, value)
        if isinstance(made, Command):
            yield made
