"""Writes commands as a register program. A register is written only if its value changes; the last write is END."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cnna.compiler.plan.command import PlannedCommand
from cnna.spec.errors import ModelError
from cnna.spec.regmap import BY_OFFSET, CLEARED, ENGINES, GO_OFFSETS, REGISTERS, command_fields, offset, registers_of


def emit(commands: Sequence[PlannedCommand]) -> bytes:
    """The program: pairs (offset, value) of 32-bit words, little endian.

    An engine's first command writes all its registers, because their values before it are unknown, except for those that a start
    clears. A command may omit fields that do not matter to it. They keep their value, which at first is the least legal one.
    ModelError: a field cannot hold its value.
    """
    writes: list[tuple[int, int]] = []
    values = {engine: {name: max(0, field.limits[0]) for name, field in command_fields(engine).items()} for engine in ENGINES}
    # the values of a register's fields as they were last written, or as a start sets them
    shadow: dict[str, tuple[int, ...]] = {name: (0,) * len(REGISTERS[name].fields) for name in CLEARED}
    for command in commands:
        known = values[command.engine]
        _check_names(command.fields, known)
        known.update(command.fields)
        for register, names in registers_of(command.engine):
            own = tuple([known[name] for name in names])
            if shadow.get(register.name) == own:
                continue
            try:
                word = register.pack(**{field.name: value for field, value in zip(register.fields, own, strict=True)})
            except ValueError as error:
                raise ModelError(f"layer {command.layer}, tensor '{command.tensor}': {error}; the layer is too large") from None
            shadow[register.name] = own
            writes.append((register.offset, word))
        writes.append((offset(f"{command.engine.upper()}_GO"), 1))
    writes.append((offset("END"), 1))
    return np.array(writes, "<u4").tobytes()


def _check_names(fields: Mapping[str, int], known: Mapping[str, int]) -> None:
    unknown = set(fields) - set(known)
    assert not unknown, f"no such command fields: {', '.join(sorted(unknown))}"


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
