"""Writes commands as a register program. A register is written only if its value changes; the last write is END."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from cnna.compiler.plan.command import PlannedCommand
from cnna.spec.errors import ModelError
from cnna.spec.regmap import BY_OFFSET, CLEARED, GO_OFFSETS, command_fields, offset, registers_of


def emit(commands: Sequence[PlannedCommand]) -> bytes:
    """The program: pairs (offset, value) of 32-bit words, little endian.

    An engine's first command writes all its registers, because their values before it are unknown, except for those that a start
    clears. A command may omit fields that do not matter to it. They keep their value, which at first is the least legal one.
    ModelError: a field cannot hold its value.
    """
    writes: list[tuple[int, int]] = []
    values: dict[str, dict[str, int]] = {}
    for command in commands:
        engine, fields = command.engine, command.fields
        unknown = fields.keys() - command_fields(engine).keys()
        assert not unknown, f"no such command fields: {', '.join(sorted(unknown))}"
        if engine in values:
            known = values[engine]
            changed = {_register_numbers(engine)[name] for name, value in fields.items() if known.get(name) != value}
            known.update(fields)
        else:
            known = values[engine] = {**_least(engine), **fields}
            changed = _unlike_cleared(engine, known)
        for register, names in [registers_of(engine)[number] for number in sorted(changed)]:
            try:
                word = register.pack(**{field.name: known[name] for field, name in zip(register.fields, names, strict=True)})
            except ValueError as error:
                raise ModelError(f"layer {command.layer}, tensor '{command.tensor}': {error}; the layer is too large") from None
            writes.append((register.offset, word))
        writes.append((offset(f"{engine.upper()}_GO"), 1))
    writes.append((offset("END"), 1))
    return np.array(writes, "<u4").tobytes()


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
