"""Decodes register writes into commands, from `spec.regmap` alone, for the emulator, reports and the check of programs.

A `Decoder` keeps every engine's shadow registers as the RTL's register file does, write by write. A write to an engine's GO
register answers with the command that it queues, if its bit 0 is set. `tables_of` decodes a whole program at once, into a table for
each engine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.config import Config
from cnna.spec.program.window import steps_in_row
from cnna.spec.regmap import (
    BY_OFFSET,
    CLEARED,
    ENGINES,
    GO_OFFSETS,
    IN_PROGRAMS,
    REGISTERS,
    VECTOR_OPS,
    Register,
    command_fields,
    registers_of,
)

WRITE_BYTES = 8  # of one program write: offset, then value, each 32 bit, little endian

Numbers = NDArray[np.int64]
Fields = Mapping[str, Numbers]


class IllegalWriteError(Exception):
    """The accelerator refuses a write: `cause` is one of `regmap.ERRORS`, and `offset` the register's."""

    def __init__(self, cause: str, offset: int) -> None:
        super().__init__(f"{cause} at register offset {offset:#x}")
        self.cause, self.offset = cause, offset


class UnsoundError(Exception):
    """A program is unsound. The message says what is wrong, in words that follow a file's name."""


@dataclass(frozen=True)
class Command:
    """One command as its engine takes it. `f` has a value for each name of `regmap.command_fields(engine)`."""

    number: int  # of this GO write among the program's GO writes
    pc: int  # number of the GO write in the program
    engine: str
    f: SimpleNamespace

    def units(self, chunk_blocks: int) -> int:
        """Units for which other engines can wait, in an accelerator with that many blocks in a chunk. `weight` has none."""
        if self.engine == "vector":
            return -(-self.f.blocks // chunk_blocks)
        return int({"conv": getattr(self.f, "chunks", 0), "weight": 0}.get(self.engine, 1))

    def least_clocks(self, config: Config) -> int:
        """The clocks that its engine works on it if nothing ever holds it up."""
        f = self.f
        if self.engine == "weight":
            return int(f.beats * f.repeat)
        if self.engine in ("load", "store"):
            return int(f.blocks * f.runs * -(-f.run // config.beat_words) // config.ports)
        groups = -(-f.images * f.out_height * f.out_width // config.pix)
        if self.engine == "conv":
            return int(groups * f.kernel_height * f.kernel_width * f.blocks * f.chunks)
        taps = 1 if VECTOR_OPS[f.op] == "elementwise" else f.kernel_height * steps_in_row(f.kernel_width, f.window_apart)
        return int(groups * taps * f.blocks)

    def __str__(self) -> str:
        return f"{self.engine} command {self.number} (program write {self.pc})"


@cache
def _decode(offset: int, value: int) -> tuple[str, str, dict[str, int] | None]:
    """(engine, register, members) of a legal program write; members, those of a command, are None for GO and END."""
    if offset not in IN_PROGRAMS:
        raise IllegalWriteError("illegal_register", offset)
    register = BY_OFFSET[offset]
    if offset in GO_OFFSETS or register.name == "END":
        return register.block, register.name, None
    values = register.unpack(value)
    for spec in register.fields:
        low, high = spec.limits
        if not low <= values[spec.name] <= high:
            raise IllegalWriteError("illegal_value", offset)
    names = next(names for other, names in registers_of(register.block) if other is register)
    return register.block, register.name, dict(zip(names, values.values(), strict=True))


@dataclass
class Decoder:
    """Shadow registers of all engines, and the numbers of writes and commands so far."""

    shadow: dict[str, dict[str, int]] = field(
        default_factory=lambda: {e: {name: f.reset for name, f in command_fields(e).items()} for e in ENGINES}
    )
    writes: int = 0
    commands: int = 0

    def restart(self) -> None:
        """Does what `CTRL.start` does: counts and the registers CLEARED begin at 0; other shadow registers stay."""
        self.writes = self.commands = 0
        for register in (REGISTERS[name] for name in CLEARED):
            names = next(names for other, names in registers_of(register.block) if other is register)
            self.shadow[register.block].update(dict.fromkeys(names, 0))

    def write(self, offset: int, value: int) -> Command | str | None:
        """Takes one program write.

        Returns the command that it queues, "end", or None, as for a GO or END whose bit 0 is clear. IllegalWriteError: the write
        does not count.
        """
        engine, register, members = _decode(offset, value)
        pc, self.writes = self.writes, self.writes + 1
        if members is not None:
            self.shadow[engine].update(members)
            return None
        if not value & 1:
            return None
        if register == "END":
            return "end"
        number, self.commands = self.commands, self.commands + 1
        return Command(number, pc, engine, SimpleNamespace(**self.shadow[engine]))


class CommandTable(NamedTuple):
    """All commands of one engine. numbers: of each among the GO writes; f: for each of `regmap.command_fields`, one entry each."""

    engine: str
    numbers: Numbers
    f: Fields


def program_writes(program: bytes) -> list[tuple[int, int]]:
    """(offset, value) of each write of a program."""
    words = np.frombuffer(program, "<u4").reshape(-1, 2)
    return list(zip(words[:, 0].tolist(), words[:, 1].tolist(), strict=True))


def go_writes(program: bytes) -> NDArray[np.int64]:
    """The numbers of the writes that end a command, in order: those to a `*_GO` register with bit 0 set."""
    offsets, values = np.frombuffer(program, "<u4").reshape(-1, 2).T
    return np.flatnonzero(np.isin(offsets, list(GO_OFFSETS)) & (values & 1 == 1))


def commands(program: bytes) -> Iterator[Command]:
    """The commands of a program, in order, from fresh shadow registers. IllegalWriteError: a write is refused."""
    decoder = Decoder()
    for offset, value in program_writes(program):
        made = decoder.write(offset, value)
        if isinstance(made, Command):
            yield made


def tables_of(program: bytes) -> dict[str, CommandTable]:
    """The commands of a program by engine, from fresh shadow registers.

    UnsoundError: a write that programs may not make, a field outside its limits, a GO or END whose bit 0 is clear, no END, or an
    END that is not the last write.
    """
    offsets, values = np.frombuffer(program, "<u4").reshape(-1, 2).T.astype(np.int64)
    foreign = np.flatnonzero(~np.isin(offsets, list(IN_PROGRAMS)))
    if foreign.size:
        raise UnsoundError(f"write {foreign[0]} of program.bin is to offset {offsets[foreign[0]]:#x}, which no program may write")
    idle = np.flatnonzero(np.isin(offsets, [*GO_OFFSETS, REGISTERS["END"].offset]) & (values & 1 == 0))
    if idle.size:
        what = f"{BY_OFFSET[int(offsets[idle[0]])].name} to {values[idle[0]]:#x}, which does nothing: bit 0 must be 1"
        raise UnsoundError(f"write {idle[0]} of program.bin sets {what}")
    if np.flatnonzero(offsets == REGISTERS["END"].offset).tolist() != [len(offsets) - 1]:
        raise UnsoundError("program.bin does not end with a write to END, its only one")
    pcs = go_writes(program)
    tables = {}
    for go, engine in GO_OFFSETS.items():
        numbers = np.flatnonzero(offsets[pcs] == go)
        tables[engine] = CommandTable(engine, numbers, _fields(engine, offsets, values, pcs[numbers]))
    return tables


def _fields(engine: str, offsets: Numbers, values: Numbers, at: Numbers) -> dict[str, Numbers]:
    """The value of each field of an engine's commands, at the GO writes `at`."""
    found = {}
    for register, names in registers_of(engine):
        written = np.flatnonzero(offsets == register.offset)
        last = np.searchsorted(written, at) - 1
        for name, own, reset in _unpacked(register, written, values[written], names):
            found[name] = np.where(last >= 0, own[last], reset) if own.size else np.full(len(at), reset, np.int64)
    return found


def _unpacked(register: Register, written: Numbers, words: Numbers, names: Sequence[str]) -> Iterator[tuple[str, Numbers, int]]:
    """(name, values, reset value) of each field of a register's words. UnsoundError: a value outside the field's limits."""
    bit = 0
    for name, spec in zip(names, register.fields, strict=True):
        own = (words >> bit) & ((1 << spec.bits) - 1)
        if spec.signed:
            own = own - ((own >> (spec.bits - 1)) << spec.bits)
        low, high = spec.limits
        bad = np.flatnonzero((own < low) | (own > high))
        if bad.size:
            what = f"{register.name}.{spec.name} to {own[bad[0]]}, not within {low}..{high}"
            raise UnsoundError(f"write {written[bad[0]]} of program.bin sets {what}")
        yield name, own, spec.reset
        bit += spec.bits
