"""Lays the Verilog out for a reader: the top module, then the rooms of `hw/` in turn, each module under a comment on what it is."""

import re
from collections.abc import Mapping
from importlib import import_module
from itertools import groupby
from typing import NamedTuple

from cnna.hw.verilog.modules import Block

_MODULE = re.compile(r"^(?:\(\*[^\n]*\n)?module (\w+).*?^endmodule\n", re.M | re.S)
_AUTO = re.compile(r"\\\$auto\$\S+ ")  # a wire that Yosys makes: it numbers them through all modules
_RULE = "/" * 100


class _Laid(NamedTuple):
    room: str
    name: str
    text: str


def lay_out(text: str, top: str, blocks: Mapping[str, Block]) -> str:
    """The modules in order, with comments. blocks: what each module comes from, by its name."""
    modules = [_Laid(blocks[found[1]].room, found[1], _locally_named(found[0])) for found in _MODULE.finditer(text)]
    modules.sort(key=lambda module: (module.name != top, module.room, _natural(module.name)))
    first, rest = modules[0], modules[1:]
    parts = [f"{_comment(blocks[top])}{first.text}"]
    for room, inside in groupby(rest, lambda module: module.room):
        parts.append(f"{_RULE}\n// hw/{room}: {_about(room)}\n{_RULE}\n")
        parts += [f"{_comment(blocks[module.name])}{module.text}" for module in inside]
    return "\n".join(parts)


def _comment(block: Block) -> str:
    return f"// {block.file}, {block.name}: {block.about}\n"


def _about(room: str) -> str:
    """The first line of what the room's door says."""
    return (import_module(f"cnna.hw.{room.replace('/', '.')}".rstrip(".")).__doc__ or "").partition("\n")[0]


def _natural(name: str) -> list[tuple[str, int]]:
    """A key that has `x_2` before `x_10`."""
    return [(word, int(word) if word.isdecimal() else -1) for word in name.split("_")]


def _locally_named(module: str) -> str:
    """The module with names of its own for what Yosys has made: `_initial`, with which an `always @*` begins, and `_made_1`."""
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return names.setdefault(found[0], "_initial" if "dump_module" in found[0] else f"_made_{len(names) + 1}")

    return _AUTO.sub(name, module)
