"""`joined` on hand-made netlists: what counts on a path, where paths begin and end, and modules joined across borders."""

from collections import Counter
from typing import Any

import pytest
from joined import Joined, Limits, Longest, join, levels
from netlist import Netlist, Node, read
from synthesis import Part, Port

NETS = 40  # of each hand-made module


def ff(data: int, out: int, *control: int) -> Node:
    return Node("ff", [data], list(control), [], [], [out])


def lut(*inputs: int, out: int) -> Node:
    return Node("lut", [], [], list(inputs), [], [out])


def carry(*inputs: int, chain: int, out: list[int]) -> Node:
    return Node("carry", [], [], list(inputs), [chain], out)


def netlist(nodes: list[Node], ports: list[list[int]] | None = None, *children: tuple[int, str, list[list[int]]]) -> Netlist:
    """A module whose nets are named by their numbers ("n3")."""
    return Netlist(NETS, ports or [], nodes, list(children), {}, {net: f"n{net}" for net in range(NETS)})


def part(name: str, ports: str, *children: str) -> Part:
    return Part(name, "", tuple(Port(port, "input", "") for port in ports.split()), {}, children)


def alone(nodes: list[Node], least: int = 0) -> Joined:
    """A module without ports, joined with nothing."""
    return join("t", {"t": part("t", "")}, {"t": netlist(nodes)}, least)


def depth(*nodes: Node) -> int:
    return alone(list(nodes)).paths["t"].depth


def test_a_chain_of_carries_is_one() -> None:
    """If an adder cost nothing, or one for each of its cells, it would hide the longest path, or be it."""
    begin, end = lut(0, out=1), [lut(20, out=21), ff(21, 22)]
    chain = [carry(1, chain=30, out=[2, 3]), carry(31, 32, chain=3, out=[4, 5]), carry(33, chain=5, out=[6, 20])]
    assert alone([begin, *chain, *end]).paths["t"] == Longest(3, "t.n0", "t.n22")
    assert depth(*chain, *end) == 2  # S comes from a register
    assert depth(begin, carry(chain=1, out=[2]), ff(2, 3)) == 2  # from a LUT into CI: the first of a chain
    late = lut(31, out=33)  # into the last of them
    assert depth(late, *chain, *end) == 3
    assert depth(lut(30, out=31), late, begin, *chain, *end) == 4
    assert depth(begin, *chain[:2], lut(4, out=33), chain[2], *end) == 5  # LUT, chain, LUT, the rest of the chain, LUT
    assert depth(*chain, carry(20, chain=34, out=[35]), ff(35, 36)) == 2  # a sum into another chain


def test_a_chain_of_carries_as_yosys_writes_it() -> None:
    """A LUT, three CARRY4, a LUT and a flip-flop: S and DI lead into the chain as well as CI."""

    def path(pin: str) -> int:
        pins: dict[str, list[Any]] = {"CI": [], "CYINIT": ["0"], "DI": ["0"], "S": ["0"]}
        rows: list[tuple[str, dict[str, list[Any]]]] = [("LUT1", {"I0": [2], "O": [3]})]
        for n in range(3):
            first = pins | {pin: [3]} if n == 0 else pins | {"CI": [9 + n]}
            rows.append(("CARRY4", {**first, "O": [20 + n], "CO": [30 + n, 10 + n]}))
        rows += [("LUT2", {"I0": [22], "I1": ["1"], "O": [40]}), ("FDRE", {"C": [50], "CE": ["1"], "D": [40], "Q": [41]})]
        cells = {f"n{n}": {"type": kind, "connections": pins, "port_directions": {}} for n, (kind, pins) in enumerate(rows)}
        found = read({"ports": {}, "cells": cells, "netnames": {"a": {"hide_name": 0, "bits": [2]}}}, "child")
        joined = join("t", {"t": part("t", "")}, {"t": found}, 0)
        assert joined.paths["t"].start == "t.a"
        return joined.paths["t"].depth

    assert {pin: path(pin) for pin in ("S", "DI", "CYINIT", "CI")} == dict.fromkeys(("S", "DI", "CYINIT", "CI"), 3)


def test_a_memory_is_one_from_its_address() -> None:
    """A LUT RAM or shift register is an addressed LUT: without a cost, paths of a queue's output would be one too short."""
    ram = [Node("memory", [1, 10], [11], [], [], []), Node("memory", [], [], [1], [], [2]), Node("memory", [], [], [12], [], [13])]
    assert depth(*ram, ff(2, 3)) == 1
    assert alone([lut(0, out=1), *ram, lut(2, 13, out=3), ff(3, 4)]).paths["t"] == Longest(3, "t.n0", "t.n4")
    assert depth(lut(0, out=14), lut(14, out=1), *ram, ff(13, 4), ff(2, 5, 2)) == 3  # the other output, by its own address: 1
    shift = Node("memory", [5], [6], [1], [], [2])
    assert depth(lut(0, out=1), shift, ff(2, 3)) == 2
    assert depth(lut(2, out=4), ff(4, 3), shift, lut(0, out=1)) == 3  # in any order


def test_a_memory_without_an_address_is_where_a_path_starts() -> None:
    """Its output is still a LUT's and not a register's; what is shifted in comes a clock later."""
    shift = Node("memory", [1], [], [], [], [2])
    assert alone([shift, ff(2, 3)]).paths["t"] == Longest(1, "t.n2", "t.n3")
    assert alone([shift, lut(2, out=4), ff(4, 3)]).paths["t"] == Longest(2, "t.n2", "t.n3")
    assert levels(netlist([lut(0, out=7), lut(7, out=1), shift])) == 2
    assert levels(netlist([shift])) == 1


def test_a_multiplexer_behind_luts_is_one_each() -> None:
    """LUT, MUXF7, MUXF8 must count in Yosys' form, both from a data input and from the select."""
    rows = [
        ("LUT6", {"I0": [2], "O": [3]}),
        ("MUXF7", {"I0": [3], "I1": [4], "S": [5], "O": [6]}),
        ("MUXF8", {"I0": [7], "I1": [8], "S": [6], "O": [9]}),
        ("FDRE", {"D": [9], "Q": [10]}),
    ]
    cells = {f"n{n}": {"type": kind, "connections": pins, "port_directions": {}} for n, (kind, pins) in enumerate(rows)}
    assert levels(read({"ports": {}, "cells": cells, "netnames": {}}, "child")) == 3


@pytest.mark.parametrize(
    "end",
    [
        ff(2, 3),
        ff(9, 3, 8, 2),
        Node("memory", [2], [], [8], [], [3]),
        Node("memory", [8], [2], [], [], [3]),
        Node("block", [8, 2], [], [], [], [3]),
    ],
)
def test_what_ends_a_path(end: Node) -> None:
    """Enables and resets come through the longest logic; data into memories and DSPs make paths like those into flip-flops."""
    found = alone([lut(0, out=1), lut(1, out=2), end]).paths["t"]
    assert found == Longest(2, "t.n0", "t.n3")


def test_the_longest_of_many_paths_is_named() -> None:
    """The first or the last path that ends in the module would be named instead."""
    nodes = [lut(0, out=1), ff(1, 2), lut(1, 3, out=4), lut(4, 5, out=6), ff(6, 7), lut(9, out=8), ff(8, 10)]
    assert alone(nodes).paths["t"] == Longest(3, "t.n0", "t.n7")
    assert alone(nodes[::-1]).paths["t"] == Longest(3, "t.n0", "t.n7")
    assert levels(netlist(nodes)) == 3
    assert levels(netlist([ff(0, 1)])) == 0


def test_a_loop_is_refused() -> None:
    """A loop has no longest path; with a flip-flop in it, it is a counter."""
    with pytest.raises(ValueError, match="a loop without a register"):
        alone([lut(0, 3, out=1), lut(1, out=2), carry(2, chain=5, out=[3])])
    assert depth(lut(0, 3, out=1), lut(1, out=2), ff(2, 3)) == 2
    parts = {"t": part("t", "", "c"), "c": part("c", "a b")}
    with pytest.raises(ValueError, match="a loop without a register"):  # over a border
        join("t", parts, {"t": netlist([lut(1, out=2)], [], (0, "c", [[2], [1]])), "c": netlist([lut(5, out=6)], [[5], [6]])}, 0)


def test_raw_outputs_are_counted_where_they_lead_into_logic() -> None:
    """An output that a flip-flop beside the block takes is harmless; one that enables it, or leads to another block, is not."""
    blocks = [Node("block", [0], [], [], [], [1]), Node("raw", [], [], [], [], [2, 3, 4, 5, 6, 7, 8])]
    readers = [ff(2, 20), ff(20, 21, 3), lut(4, 20, out=22), lut(4, out=23), Node("block", [5], [], [], [], [])]
    readers += [Node("memory", [6], [], [7], [], [24]), carry(25, chain=8, out=[26])]
    assert alone(blocks + readers).raw == Counter({"t": 6})  # all but 2, of which 4 is read twice
    assert not alone([*blocks, ff(2, 20), lut(1, 20, out=22)]).raw
    parts = {"t": part("t", "", "c"), "c": part("c", "q")}
    inner = netlist([Node("raw", [], [], [], [], [7])], [[7]])
    assert join("t", parts, {"t": netlist([lut(1, out=2)], [], (0, "c", [[1]])), "c": inner}, 0).raw == Counter({"c": 1})


THREE = {"t": part("t", "clk go", "m"), "m": part("m", "clk rst a y", "l"), "l": part("l", "a y w clk")}


def three() -> dict[str, Netlist]:
    """t with two m in a row, each with two l of two LUTs: t.n5 -> m (l, l, LUT) -> t.n6 -> m -> t.n7 -> LUT, flip-flop."""
    leaf = netlist([lut(10, out=16), lut(16, 11, out=12), ff(12, 13, 14)], [[10], [11, 12], [], [15]])
    middle = netlist(
        [lut(23, out=24)],
        [[20], [21], [22], [24]],
        (0, "one", [[22], [-1, 25], [], [20]]),
        (0, "two", [[25], [26, 23], [27], [20]]),
    )
    pair = [(0, f"m{n}", [[1], [2], [5 + n], [6 + n]]) for n in range(2)]
    top = netlist([ff(8, 5), ff(4, 3, 2, 5), lut(7, out=8)], [[1], [0]], *pair)
    return {"t": top, "m": middle, "l": leaf}


def test_paths_lead_over_borders_of_two_levels() -> None:
    """A path that is cut at a border, or led to another bit or instance, would look short; the longer one ends inside."""
    found = join("t", THREE, three(), 0)
    assert found.paths["t"] == Longest(11, "t.n5", "t.n5")  # two LUTs in each of four l, one in each of two m, one in t
    assert found.paths["l"] == Longest(9, "t.n5", "t.m1.two.n13")  # l, l, m, l, l: a flip-flop beside the last LUT
    assert "m" not in found.paths
    long = [lut(net, out=net + 1) for net in range(30, 37)] + [lut(37, out=26)]  # into the other input of `two`, its last LUT's
    middle = three()["m"]
    found = join("t", THREE, three() | {"m": middle._replace(nodes=middle.nodes + long)}, 0)
    assert found.paths["t"] == Longest(8 + 1 + 1 + 5 + 1, "t.m0.n30", "t.n5")


def test_a_module_may_lead_a_net_through() -> None:
    """Two ports on one net must join two nets outside."""
    parts = {"t": part("t", "", "c"), "c": part("c", "a y")}
    top = netlist([lut(0, out=1), lut(2, out=3), ff(3, 4)], [], (0, "c", [[1, 8], [2, 9]]))
    found = join("t", parts, {"t": top, "c": netlist([], [[7, 6], [7, 5]])}, 0)
    assert found.paths["t"] == Longest(2, "t.n0", "t.n4")


def test_a_module_that_is_not_known_is_a_register() -> None:
    """Nothing is known of it: paths must start at its outputs, and its inputs must not count as loads."""
    known = three()
    del known["l"]
    found = join("t", THREE, known, 0)
    assert found.paths["t"] == Longest(2, "t.m1.n23", "t.n5")
    assert (1, "t.n5") in found.loads


def test_loads_are_counted_over_borders_without_clock_and_reset() -> None:
    """An enable that reaches every instance is one net; a reset has its own tree wherever a port is called so."""
    loads = join("t", THREE, three(), 0).loads
    named = {name: pins for pins, name in loads}
    assert named["t.n5"] == 2  # the LUT in m0.one, and an enable in t
    assert named["t.m0.n25"] == 2  # the flip-flop in one, the LUT in two
    assert named["t.n6"] == 1
    assert "t.n2" not in named  # rst of m, though t has another name for it
    assert loads == sorted(loads, key=lambda load: -load[0])
    assert {name for _, name in join("t", THREE, three(), 1).loads} == {name for name, pins in named.items() if pins > 1}
    nodes = [ff(1, 2, 3), lut(3, 3, out=4), carry(5, chain=3, out=[6]), Node("memory", [3], [3], [], [], []), ff(3, 7)]
    assert (7, "t.n3") in alone(nodes).loads


def test_clocks_by_port_are_left_out() -> None:
    """If some cell uses a clock as data, the widest nets of all would be called too wide."""
    for name, is_quiet in (("aclk", True), ("clk", True), ("aresetn", True), ("core_rst", True), ("rst", True), ("go", False)):
        found = join("t", {"t": part("t", name)}, {"t": netlist([ff(0, 1, 2)], [[2]])}, 0)
        assert ((1, "t.n2") in found.loads) is not is_quiet, name


def test_the_copy_of_a_reset_is_a_reset_where_it_is_made() -> None:
    """A block without blocks of its own has no port for its copy, so its reset would be called too wide a net."""
    for name, is_quiet in (("core_rst", True), ("core_rst_wanted", False)):
        named = {"t": Part("t", "", (), {"n3": name}, ())}
        found = join("t", named, {"t": netlist([ff(3, 1), ff(5, 3, 4)], [])}, 0)
        assert ((1, f"t.{name}") in found.loads) is not is_quiet, found.loads


def fast(node: Node) -> Node:
    """The node on the second clock, which is net 39."""
    return node._replace(clock=[39])


def doubled(*nodes: Node) -> Joined:
    """A module of these nodes with the second clock at its port."""
    return join("t", {"t": part("t", "go aclk2x")}, {"t": netlist(list(nodes), [[38], [39]])}, 0)


def test_paths_at_the_second_clock_have_one_lut() -> None:
    """A path with half of a clock's time would have as many LUTs as one with a whole; or every slow path would be refused."""
    slow = [lut(0, out=1), lut(1, out=2), ff(2, 3), ff(38, 4)]
    assert doubled(*slow, fast(ff(3, 5)), lut(5, 4, out=6), fast(ff(6, 7)), ff(7, 8)).fast.paths == {}
    into = doubled(*slow, fast(ff(2, 5))).fast.paths
    assert into == {"t": Longest(2, "t.n0", "t.n5")}
    enable = doubled(*slow, fast(ff(4, 5, 2))).fast.paths
    assert enable == {"t": Longest(2, "t.n0", "t.n5")}
    out = doubled(*slow, fast(ff(3, 5)), lut(5, out=6), lut(6, 4, out=7), ff(7, 8), fast(Node("block", [7], [], [], [], [9])))
    assert out.fast.paths == {"t": Longest(2, "t.n5", "t.n8")}
    meets = doubled(*slow, fast(ff(3, 5)), lut(5, 2, out=6), ff(6, 7)).fast.paths  # three LUTs, but two of them from elsewhere
    assert meets == {}
    chain = doubled(fast(ff(3, 5)), lut(5, out=6), carry(6, chain=30, out=[7, 8]), ff(8, 9)).fast.paths
    assert chain == {"t": Longest(2, "t.n5", "t.n9")}


def test_nets_at_the_second_clock_have_few_loads() -> None:
    """A net of hundreds of loads would pass in front of a register of the second clock, behind one, or before its LUT."""
    most = Limits().loads
    for count, wide in ((most, []), (most + 1, [(most + 1, "t.n1")])):
        assert doubled(fast(ff(0, 1)), *(ff(1, 5) for _ in range(count))).fast.loads == wide  # from one
        assert doubled(*(ff(1, 5) for _ in range(count - 1)), fast(ff(1, 6))).fast.loads == wide  # into one
        assert doubled(*(ff(1, 5) for _ in range(count - 1)), lut(1, 2, out=3), fast(ff(3, 6))).fast.loads == wide
    assert doubled(*(ff(1, 5) for _ in range(most + 1)), fast(ff(2, 6))).fast.loads == []


def test_nets_are_called_as_in_the_verilog() -> None:
    """A net must have its outermost name, behind the instances that it lies in."""
    renamed = {"t": Part("t", "", (), {"n1": "queue", "c": "unit"}, ("c",)), "c": Part("c", "", (), {"n7": "level"}, ())}
    inner = netlist([lut(8, out=9), ff(9, 7)], [[6]])
    bits = netlist([ff(2, 1)], [], (0, "c", [[2]]))._replace(names={1: "n1[3]"})
    found = join("t", renamed, {"t": bits, "c": inner}, 0)
    assert found.paths == {"t": Longest(0, "t.unit.n6", "t.queue[3]"), "c": Longest(1, "t.unit.n8", "t.unit.level")}
    unnamed = join("t", renamed, {"t": bits, "c": inner._replace(names={})}, 0)
    assert unnamed.paths["c"].end == "a net without a name in c"
