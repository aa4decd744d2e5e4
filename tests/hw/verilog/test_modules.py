"""Names and modules of the generated Verilog, on a small design: ports are members, and equal blocks are one module."""

import re

from amaranth import Cat, Module, Signal
from amaranth.back.verilog import _convert_rtlil_text
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.verilog.modules import Modules, convert
from cnna.hw.verilog.naming import members


class Leaf(wiring.Component):
    """Adds a bit."""

    i: In(8)
    begin: In(1)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.o = part = Module()
        local = Signal(8)
        part.d.comb += local.eq(self.i + self.begin)
        m.d.sync += self.o.eq(local)
        return m


class Root(wiring.Component):
    """Three leaves. One is driven by two registers, one by a register, and one has a constant bit."""

    a: In(8)
    y: Out(8)
    end: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = Leaf()
        m.submodules.second = second = Leaf()
        m.submodules.third = third = Leaf()
        low, high = Signal(4, name="half"), Signal(4, name="half")
        whole = Signal(8)
        m.d.sync += [low.eq(self.a[4:]), high.eq(self.a[:4]), whole.eq(first.o)]
        m.d.comb += [first.i.eq(Cat(low, high)), second.i.eq(whole), third.i.eq(Cat(second.o[:7], 0))]
        m.d.comb += [leaf.begin.eq(self.a[number]) for number, leaf in enumerate((first, second, third))]
        m.d.comb += [self.y.eq(second.o), self.end.eq(third.o)]
        return m


def made() -> Modules:
    """The small design, converted."""
    root = Root()
    ports = [(name, signal, PortDirection.Input if inward else PortDirection.Output) for signal, name, inward in members(root)]
    return convert(Fragment.get(root, None).prepare(ports=ports, hierarchy=("root",)), "root")


def head(text: str, module: str) -> list[str]:
    """The module's ports, in order."""
    found = re.search(rf"^module {module}\((.*)\);", text, re.M)
    assert found, module
    return found[1].split(", ")


def test_ports_are_members_whatever_drives_them():
    """A port would be called after a net of the parent, and cut in two where two registers drive it."""
    text = _convert_rtlil_text(made().rtlil, strip_internal_attrs=True)
    for module in ("cnna_leaf", "cnna_leaf_2"):
        assert sorted(head(text, module)[-3:]) == ["begin_", "i", "o"]
        assert set(head(text, module)[:-3]) == {"clk", "rst"}
    assert re.search(r"input \[7:0\] i;", text)
    assert "\\" not in text.replace("\\$auto", ""), "a name would need an escape in every tool"


def test_equal_blocks_are_one_module():
    """The text would have a module for each instance, or an instance with a constant would lose it."""
    rtlil, blocks = made()
    instances = re.findall(r"^  cell \\(cnna_leaf\w*) \\(first|second|third)$", rtlil, re.M)
    assert instances == [("cnna_leaf", "first"), ("cnna_leaf", "second"), ("cnna_leaf_2", "third")]
    assert list(blocks) == ["root", "cnna_leaf", "cnna_leaf_o", "cnna_leaf_2", "cnna_leaf_o_2"]
    assert blocks["cnna_leaf"].about == "Adds a bit."
    assert blocks["cnna_leaf_o"].about == "Part of Leaf."
    assert blocks["root"].file.endswith("hw/verilog/test_modules.py")
    assert blocks["root"].room == "", "the tests are no room of hw/"


def test_inner_names_are_those_of_the_source():
    """A reader could not find a wire of the Verilog in the source, or two wires would have one name."""
    rtlil = made().rtlil
    root = rtlil[: rtlil.index("\nend\n")]
    for name in ("whole", "half", "half_2", "first__o", "second__i", "half__next"):
        assert re.search(rf"wire width \d+ +\\{name}$", root, re.M), name
    leaf = rtlil[rtlil.index("module \\cnna_leaf\n") :]
    assert "  cell \\cnna_leaf_o \\o_2\n" in leaf, "an instance would have the name of a port"


def test_conversion_is_the_same_every_time():
    """The text would differ between clones."""
    assert made() == made()
