"""Shows that two Verilog texts of an accelerator are one netlist by other names, cut into other modules.

    .venv/bin/python tools/renamed.py OLD.v NEW.v [--keep docs/equivalent.json]

`equivalent.py` proves texts whose modules have the same borders. Here names, ports and modules may differ, and one module may stand
for several; the logic may not. Yosys reads both texts. From each output of the top module, and from each signal that the testbench
looks at, the walk goes back against the signals, through the borders of modules, in both texts at once. It must meet the same
cells with the same parameters, the same first values, constants and inputs, pin by pin. So both have the same value in every clock:
they begin alike, and what each register takes next is the same function of the same registers and inputs.

Modules with a memory, and what neither text describes (DSP48E2), are cells in this walk. The text of the former must be the same.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from equivalent import NotProvenError, bare, keep, yosys

from cnna.hw.verilog.lint_fixes import PROBED
from cnna.hw.verilog.writer import TOP

HOW = "the same netlist by other names"
_READ = "read_verilog one.v; proc -norom; write_json one.json"
_DSP = Path(__file__).resolve().parent.parent / "sim" / "rtl" / "dsp48e2.v"
_ATTRIBUTE = re.compile(r" *\(\* .*? \*\) ?")
_MODULE = re.compile(r"^module (?:\\(\S+) |(\w+)).*?^endmodule\n", re.M | re.S)
Bit = int | str  # of a module: the number of a net, or a constant


@dataclass
class _Module:
    """A module as Yosys' JSON has it."""

    name: str
    found: dict[str, Any]
    leaf: bool = field(init=False)

    def __post_init__(self) -> None:
        self.leaf = bool(self.found.get("memories")) or any(c["type"].startswith("$mem") for c in self.found["cells"].values())

    @cached_property
    def drivers(self) -> dict[int, tuple[str, str, int]]:
        """(cell, port, place) that drives each net; an input of the module has no cell."""
        found: dict[int, tuple[str, str, int]] = {}
        for name, port in self.found["ports"].items():
            if port["direction"] == "input":
                found |= {bit: ("", name, place) for place, bit in enumerate(port["bits"])}
        for name, cell in self.found["cells"].items():
            for port, way in cell["port_directions"].items():
                if way == "output":
                    found |= {bit: (name, port, place) for place, bit in enumerate(cell["connections"].get(port, ()))}
        return found

    @cached_property
    def first_values(self) -> dict[int, str]:
        """The bits that registers have before the first clock."""
        found: dict[int, str] = {}
        for net in self.found["netnames"].values():
            found |= dict(zip(net["bits"], net["attributes"].get("init", "")[::-1], strict=False))
        return found


class _Place:
    """An instance of a module, inside another; the top module has no cell."""

    def __init__(self, module: _Module, around: "_Place | None" = None, cell: str = "") -> None:
        self.module, self.around, self.cell = module, around, cell
        self._inside: dict[str, _Place] = {}

    def inside(self, cell: str, modules: dict[str, _Module]) -> "_Place":
        """The instance of that name in it."""
        if cell not in self._inside:
            self._inside[cell] = _Place(modules[self.module.found["cells"][cell]["type"]], self, cell)
        return self._inside[cell]

    def __str__(self) -> str:
        return f"{self.around}.{self.cell}" if self.around else self.module.name


class _Source(NamedTuple):
    """What a bit comes from: a pin of a cell, an input of the top module (no cell), or a constant (no place)."""

    place: _Place | None
    cell: str
    port: str
    bit: int


class Design:
    """A whole text."""

    def __init__(self, verilog: str, top: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "one.v").write_text(_ATTRIBUTE.sub("", verilog))
            if said := yosys(_READ, Path(folder)):
                raise NotProvenError(f"Yosys: {said}")
            found = json.loads(Path(folder, "one.json").read_text())["modules"]
        self.modules = {name: _Module(name, module) for name, module in found.items()}
        self.top = _Place(self.modules[top])
        box = {port: way for way, port in re.findall(r"^ +(input|output) wire (?:\[\d+:0\] )?(\w+)", _DSP.read_text(), re.M)}
        ways = {name: {port: pins["direction"] for port, pins in module["ports"].items()} for name, module in found.items()}
        for module in found.values():
            for cell in module["cells"].values():
                if "port_directions" not in cell:
                    known = ways.get(cell["type"], box)
                    cell["port_directions"] = {port: known[port] for port in cell["connections"]}
        self._cells = {"DSP48E2"} | {name for name, module in self.modules.items() if module.leaf}

    def is_cell(self, kind: str) -> bool:
        """Whether the walk ends at instances of this kind."""
        return kind.startswith("$") or kind in self._cells

    def source(self, place: _Place, bit: Bit) -> _Source:
        """What drives a bit, through the borders of modules."""
        while isinstance(bit, int):
            cell, port, number = place.module.drivers.get(bit, ("", "", 0))
            if cell:
                if self.is_cell(place.module.found["cells"][cell]["type"]):
                    return _Source(place, cell, port, number)
                place = place.inside(cell, self.modules)
                bit = place.module.found["ports"][port]["bits"][number]
            elif not port:
                return _Source(None, "", "nothing", 0)
            elif place.around is None:
                return _Source(place, "", port, number)
            else:
                bit = place.around.module.found["cells"][place.cell]["connections"].get(port, "z" * (number + 1))[number]
                place = place.around
        return _Source(None, "", f"'{bit}'", 0)

    def inputs(self) -> Iterator[tuple[str, list[Bit]]]:
        """Inputs of the top module: (name, its bits)."""
        for name, port in self.top.module.found["ports"].items():
            if port["direction"] == "input":
                yield name, port["bits"]

    def roots(self) -> Iterator[tuple[str, _Place, list[Bit]]]:
        """Outputs of the top module and signals that a testbench reads: (name, where it is, its bits)."""
        for name, port in self.top.module.found["ports"].items():
            if port["direction"] == "output":
                yield name, self.top, port["bits"]
        waiting = [self.top]
        while waiting:
            place = waiting.pop()
            for name in PROBED & place.module.found["netnames"].keys():
                yield f"{place}.{name}", place, place.module.found["netnames"][name]["bits"]
            for cell, found in place.module.found["cells"].items():
                if not self.is_cell(found["type"]):
                    waiting.append(place.inside(cell, self.modules))


def compare(old: str, new: str, top: str = TOP) -> int:
    """The number of cells that the walk has met. NotProvenError: the two differ; the message says where."""
    texts = [{found[1] or found[2]: found[0] for found in _MODULE.finditer(bare(text))} for text in (old, new)]
    pair = Design(old, top), Design(new, top)
    for name in (name for name, module in pair[1].modules.items() if module.leaf):
        if texts[0].get(name) != texts[1][name]:
            raise NotProvenError(f"{name}, which has a memory, differs")
    roots = [{name: (place, bits) for name, place, bits in design.roots()} for design in pair]
    inputs = [{f"{name}{len(bits)}" for name, bits in design.inputs()} for design in pair]
    if unlike := sorted(roots[0].keys() - roots[1].keys()) or sorted(inputs[0] ^ inputs[1]):
        raise NotProvenError(f"only one has {unlike[0]}")
    waiting = [_Pair(name, *roots[0][name], *roots[1][name]) for name in roots[0]]
    met: set[tuple[int, str, int, str]] = set()
    while waiting:
        wires = waiting.pop()
        if len(wires.bits) != len(wires.others):
            raise NotProvenError(f"{wires.name}: {len(wires.bits)} bits and {len(wires.others)}")
        for bit, other in zip(wires.bits, wires.others, strict=True):
            one, two = pair[0].source(wires.place, bit), pair[1].source(wires.other, other)
            if not _alike(one, two):
                raise NotProvenError(f"{wires.name}: {_said(one)} and {_said(two)}")
            if one.place and two.place and one.cell and (met_now := (id(one.place), one.cell, id(two.place), two.cell)) not in met:
                met.add(met_now)
                waiting += _inputs(one.place, two.place, one.cell, two.cell)
    return len(met)


class _Pair(NamedTuple):
    """Wires of the two texts that must have the same values."""

    name: str
    place: _Place
    bits: list[Bit]
    other: _Place
    others: list[Bit]


def _alike(one: _Source, two: _Source) -> bool:
    """Whether two bits come from the same pin of cells of one kind, the same input of the top module, or the same constant."""
    if (one.port, one.bit, bool(one.place), bool(one.cell)) != (two.port, two.bit, bool(two.place), bool(two.cell)):
        return False
    return not one.cell or _kind(one) == _kind(two)


def _inputs(place: _Place, other: _Place, cell: str, with_cell: str) -> Iterator[_Pair]:
    """The wires at each input of two cells."""
    one, two = place.module.found["cells"][cell], other.module.found["cells"][with_cell]
    for port, way in one["port_directions"].items():
        if way != "output":
            bits, others = one["connections"].get(port, []), two["connections"].get(port, [])
            yield _Pair(f"{place}.{cell}.{port}", place, bits, other, others)


def _kind(source: _Source) -> tuple[Any, ...]:
    """What two cells must have in common: type, parameters, pins, and the first values of a register."""
    assert source.place, "only a cell has a kind"
    module = source.place.module
    first: tuple[str, ...] = ()
    cell = module.found["cells"][source.cell]
    if cell["type"] == "$dff":
        first = tuple(module.first_values.get(bit, "x") for bit in cell["connections"]["Q"])
    return cell["type"], tuple(sorted(cell["parameters"].items())), tuple(sorted(cell["port_directions"].items())), first


def _said(source: _Source) -> str:
    return f"{source.place or ''}.{source.cell}.{source.port}[{source.bit}]".strip(".")


def main() -> None:
    """Compares, prints how many cells there are, and records the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where the proof is recorded")
    args = parser.parse_args()
    old, new = args.old.read_text(), args.new.read_text()
    try:
        cells = compare(old, new)
    except NotProvenError as error:
        sys.exit(f"renamed: {error}")
    if args.keep:
        keep(args.keep, old, new, [HOW])
    print(f"{args.new} is {args.old} by other names: {cells:,} cells, with all instances")


if __name__ == "__main__":
    main()
