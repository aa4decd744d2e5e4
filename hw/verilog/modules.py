"""Writes a design as RTLIL in which equal components are one module with many instances.

Amaranth writes a module for every instance. Here its own emitter writes each component in the names of `naming.py`, from the leaves
up. A component whose text exists already becomes an instance of that one. A module is called `cnna_ROOM_CLASS`, after the folder of
`hw/` and the class of the component; if a class has several texts, the second has the number 2.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Module, _ir, _nir
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._xfrm import TransformedElaboratable

from cnna.hw.verilog.naming import Namespace, Naming

_MARK = re.compile(r"\\@(\d+)")  # stands for a module's name until all have theirs
_COUNT, _CAPITAL = re.compile(r"(_?\d+)+$"), re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Block(NamedTuple):
    """What a module comes from: "walk" and "hw/walk/walker.py", "Walker", and the sentences in the first line of its docstring."""

    room: str
    file: str
    name: str
    about: str


class Modules(NamedTuple):
    """RTLIL, and what each of its modules comes from, by the module's name."""

    rtlil: str
    blocks: dict[str, Block]


def convert(design: _ir.Design, top: str) -> Modules:
    """The design as RTLIL; its top module is called `top`."""
    netlist = _ir.build_netlist(design)
    naming = Naming(design, netlist)
    naming.apply()
    empty = rtlil.EmptyModuleChecker(netlist)
    marks: dict[int, int] = {}
    texts: dict[str, int] = {}
    for number, module in reversed([*enumerate(netlist.modules)]):  # a component stands behind the one that it is in
        if not empty.is_empty(number):
            written = _Module("@", emit_src=False)
            _Emitter(written, netlist, module, SignalDict(), empty, marks, naming.instances).emit()
            text = _Lines()
            written.emit(text)
            marks[number] = texts.setdefault(str(text), number)
    return _named({number: text for text, number in texts.items()}, netlist, naming, top)


def _named(texts: dict[int, str], netlist: _nir.Netlist, naming: Naming, top: str) -> Modules:
    """The modules, each with its name, from the top down. texts: by number, with marks in the place of names."""
    names, blocks = {0: top}, _blocks(netlist, naming)
    space = Namespace([top])
    for number in sorted(texts.keys() - {0}):
        names[number] = space.unique(_module_name(blocks[number]))

    def name(found: re.Match[str]) -> str:
        return f"\\{names[int(found[1])]}"

    order = sorted(texts)
    parts = [_MARK.sub(name, texts[number].replace("module \\@", f"module \\@{number}", 1)) for number in order]
    parts[0] = f"attribute \\top 1\n{parts[0]}"
    return Modules("".join(parts), {names[number]: blocks[number] for number in order})


def _blocks(netlist: _nir.Netlist, naming: Naming) -> list[Block]:
    """What each module comes from. A part that has no class of its own belongs to the component around it."""
    found: list[Block] = []
    for number, module in enumerate(netlist.modules):
        if own := next((origin for origin in naming.fragments[number].origins or () if not _wraps(origin)), None):
            found.append(_block(type(own)))
        else:
            assert module.parent is not None, "the top module is a class"
            around, part = found[module.parent], _COUNT.sub("", naming.instances[number])
            found.append(around._replace(name=f"{around.name}.{part}", about=f"Part of {around.name}."))
    return found


def _wraps(origin: Elaboratable) -> bool:
    return isinstance(origin, TransformedElaboratable | Module) or not type(origin).__doc__


def _block(kind: type) -> Block:
    path = kind.__module__.removeprefix("cnna.").split(".")
    room = "/".join(path[1:-1]) if kind.__module__.startswith("cnna.hw.") else ""
    line = (kind.__doc__ or "").strip().partition("\n")[0]
    about = line if line.endswith(".") or ". " not in line else line[: line.rindex(". ") + 1]
    return Block(room, "/".join(path) + ".py", kind.__name__.strip("_"), about)


def _module_name(block: Block) -> str:
    """`cnna_walk_tap_loops` for `TapLoops` of room `walk`, and `cnna_vector_issue` for `VectorIssue` of room `vector`."""
    plain = _CAPITAL.sub("_", block.name.replace(".", "_")).lower()
    return "_".join(filter(None, ("cnna", block.room, f"{plain}_".removeprefix(f"{block.room}_").rstrip("_"))))


class _Module(rtlil.Module):
    """A module whose nameless wires are called `_1`, which Verilog need not escape."""

    def wire(self, width: int, *, name: str | None = None, **kwargs: Any) -> rtlil.Wire:
        return super().wire(width, name=self._auto_name().replace("$", "_") if name is None else name, **kwargs)


class _Lines(rtlil.Emitter):
    """Numbers ports from 1 on: for Yosys, port 0 of a module is its last."""

    @property
    def port_id(self) -> int:
        return self._port

    @port_id.setter
    def port_id(self, number: int) -> None:
        self._port = max(number, 1)


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's, with shared modules. marks: of each module inside, by number. instances: the names of their instances."""

    def __init__(
        self,
        builder: _Module,
        netlist: _nir.Netlist,
        module: _nir.Module,
        names: SignalDict,
        empty: rtlil.EmptyModuleChecker,
        marks: dict[int, int],
        instances: Sequence[str],
    ) -> None:
        super().__init__(builder, netlist, module, names, empty)
        self._marks, self._instances = marks, instances

    def emit_signal_fields(self) -> None:
        """Writes nothing: fields of structures are names that nothing reads."""

    def emit_port_wires(self) -> None:
        super().emit_port_wires()
        for name, (value, flow) in reversed(self.module.ports.items()):  # a net that is in two ports is read from the first
            if flow == _nir.ModuleNetFlow.Input:
                self.nets |= {net: (self.sigport_wires[name][0], bit) for bit, net in enumerate(value)}

    def emit_cell_wires(self) -> None:
        for number in self.module.cells:
            if isinstance(cell := self.netlist.cells[number], _nir.FlipFlop):
                self._name_next(cell, _nir.Value(_nir.Net.from_cell(number, bit) for bit in range(len(cell.data))))
        super().emit_cell_wires()

    def _name_next(self, register: _nir.FlipFlop, value: _nir.Value) -> None:
        """Calls what a register takes next `NAME__next`, if that is the whole and nameless output of one cell here."""
        data = register.data
        name = f"{self.value_names.get(value, '')}__next"
        if value not in self.value_names or data in self.value_names or f"\\{name}" in self.builder.contents or data[0].is_const:
            return
        source = self.netlist.cells[data[0].cell]
        if source.module_idx == register.module_idx and data == _nir.Value(sorted(source.output_nets(data[0].cell))):
            self.value_names[data] = name
            self.sigport_wires[name] = (self.builder.wire(len(data), name=name), data)

    def emit_submodules(self) -> None:
        for inner in self.module.submodules:
            if inner in self._marks:
                ports = {name: self.sigspec(value) for name, (value, _) in self.netlist.modules[inner].ports.items()}
                self.builder.cell(f"\\@{self._marks[inner]}", self._instances[inner], ports=ports)
