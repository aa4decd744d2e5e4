"""Writes commands as a register program. A register is written only if its value changes; the last write is END."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from cnna.compiler.plan.command import PlannedCommand
from cnna.spec.errors import ModelError
from cnna.spec.program.commands import Command
from cnna.spec.regmap import BY_OFFSET, CLEARED, GO_OFFSETS, command_fields, offset, registers_of


def emit(commands: Sequence[PlannedCommand]) -> bytes:
    """The program: pairs (offset, value) of 32-bit words, little endian. ModelError: as of `emitted`."""
    return emitted(commands)[0]


def emitted(commands: Sequence[PlannedCommand]) -> tuple[bytes, list[Command]]:
    """The program, and its commands as their engines take them, which need not be decoded then.

    An engine's first command writes all its registers, because their values before it are unknown, except for those that a start
    clears. A command may omit fields that do not matter to it. They keep their value, which at first is the least legal one.
    ModelError: a field cannot hold its value.
    """
    writes: list[tuple[int, int]] = []
    values: dict[str, dict[str, int]] = {}
    decoded: list[Command] = []
    for command in commands:
        engine, fields = command.engine, command.fields
        numbers = _register_numbers(engine)
        assert fields.keys() <= numbers.keys(), f"no such command fields: {', '.join(sorted(fields.keys() - numbers.keys()))}"
        if engine in values:
            known = values[engine]
            changed = {numbers[name] for name, value in fields.items() if known.get(name) != value}
            known.update(fields)
        else:
            known = values[engine] = {**_least(engine), **fields}
            changed = _unlike_cleared(engine, known)
        for number in sorted(changed):
            try:
                writes.append(_write(engine, number, known))
            except ValueError as error:
                raise ModelError(f"layer {command.layer}, tensor '{command.tensor}': {error}; the layer is too large") from None
        decoded.append(Command(len(decoded), len(writes), engine, SimpleNamespace(**known)))
        writes.append((offset(f"{engine.upper()}_GO"), 1))
    writes.append((offset("END"), 1))
    return np.array(writes, "<u4").tobytes(), decoded


class _Packing(NamedTuple):
    """How a register holds fields. Of each: its name, its least and greatest value, its mask, and its first bit."""

    offset: int
    fields: tuple[tuple[str, int, int, int, int], ...]


@cache
def _packings(engine: str) -> Sequence[_Packing]:
    """The registers of `registers_of`."""
    found = []
    for register, names in registers_of(engine):
        bit, fields = 0, []
        for field, name in zip(register.fields, names, strict=True):
            fields.append((name, *field.limits, (1 << field.bits) - 1, bit))
            bit += field.bits
        found.append(_Packing(register.offset, tuple(fields)))
    return found


def _write(engine: str, number: int, known: Mapping[str, int]) -> tuple[int, int]:
    """Offset and word of an engine's register. ValueError: it cannot hold a value; as of `Register.pack`."""
    place, fields = _packings(engine)[number]
    word = 0
    for name, low, high, mask, bit in fields:
        value = known[name]
        if not low <= value <= high:
            register, names = registers_of(engine)[number]
            register.pack(**{field.name: known[own] for field, own in zip(register.fields, names, strict=True)})
        word |= (value & mask) << bit
    return place, word


@cache
def _register_numbers(engine: str) -> Mapping[str, int]:
    """For each field of an engine's commands, the number of its register in `registers_of`."""
    return {name: number for number, (_, names) in enumerate(registers_of(engine)) for name in names}


def _least(engine: str) -> dict[str, int]:
    """The least legal values of an engine's fields, none below 0."""
    return {name: max(0, field.limits[0]) for name, field in command_fields(engine).items()}


def _unlike_cleared(engine: str, known: Mapping[str, int]) -> set[int]:
    """The numbers of an engine's registers without those that a start has cleared and that are to hold 0."""
    registers = enumerate(registers_of(engine))
    return {number for number, (register, names) in registers if register.name not in CLEARED or any(known[name] for name in names)}


def describe_program(commands: Sequence[Mapping[str, Any]], program: bytes) -> str:
    """A program as text: a line for each command, and below it the register writes that belong to it."""
    lines: list[str] = []
    pending: list[str] = []
    found = iter(commands)
    for place, word in np.frombuffer(program, "<u4").reshape(-1, 2).tolist():
        register = BY_OFFSET[place]
        values = ", ".join(f"{name} {value}" for name, value in register.unpack(word).items())
        pending.append(f"  {register.name}: {values}")
        if register.offset in GO_OFFSETS:
            command = next(found)
            lines.append(f"layer {command['layer']} {command['engine']} {command['tensor'] or '-'} {command['origin']}")
            lines += pending
            pending = []
    return "\n".join([*lines, *pending]) + "\n"
