"""Joins the netlist of a module with those of the modules inside it (`join`), to find paths between registers and loads of nets.

Modules that are not synthesised are left out: their outputs count as registers, and their inputs do not count as loads.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from netlist import Netlist, Node
from output_registers import NONE, Latches, Placed, Register, held
from synthesis import Part

FAST = ("aclk2x", "fast_clk")  # the second clock, in the accelerator and of a block alone
QUIET = ("aclk", "clk", *FAST, "aresetn", "core_rst", "rst")  # clock and reset: their trees may have any number of loads
DEEPEST = 10_000  # the longest path has fewer steps


class Longest(NamedTuple):
    """A longest path: its LUTs (a carry chain counts as one, a LUT RAM too), where it starts, and where it ends."""

    depth: int
    start: str
    end: str


class Limits(NamedTuple):
    """What is allowed at the second clock: LUTs between two registers one of which is on it, and loads of a net of such a path."""

    luts: int = 1
    loads: int = 64


class Fast(NamedTuple):
    """What exceeds Limits: for each module its longest such path, and nets with their loads, most first."""

    paths: dict[str, Longest]
    loads: list[tuple[int, str]]


class Joined(NamedTuple):
    """`paths`: for each module the longest path that ends in it. `loads`: nets with the number of pins that they drive.

    Clock and reset are left out. `raw`: for each module, the outputs of DSPs and block RAMs without a register that lead elsewhere
    than to a flip-flop's data. `fast`: the paths and nets that are too long or too wide for the second clock. `held`: for each
    module, the flip-flops that output registers of block RAMs can hold.
    """

    paths: dict[str, Longest]
    loads: list[tuple[int, str]]
    raw: Counter[str]
    fast: Fast
    held: Counter[str]


def join(top: str, parts: Mapping[str, Part], netlists: Mapping[str, Netlist], least: int) -> Joined:
    """Joins `top` and all inside it.

    `loads` has the nets that drive more than `least` pins, most first. ValueError: a loop of LUTs.
    """
    flat = _Flat(parts, netlists)
    flat.add(top, f"{top}.", [])
    flat.outside.update(net for nets in netlists[top].ports for net in nets if net != NONE)
    flat.settle()
    arrival = _arrivals([node for _, node in flat.nodes])
    paths: dict[str, Longest] = {}
    for module, node in flat.nodes:
        for net in (*node.data, *node.control):
            depth, start = arrival.get(net, (0, net))
            if module not in paths or depth > paths[module].depth:
                paths[module] = Longest(depth, flat.name(start), flat.name(node.out[0] if node.out else net))
    loads = _count(flat) + Counter(flat.outside)
    registers = held(flat.latches, flat.registers, loads, flat.kept)
    return Joined(paths, _loads(flat, least), _raw(flat), _fast(flat, arrival, Limits()), registers)


def levels(netlist: Netlist) -> int:
    """The longest path within one module by itself, to a register or to an output: what `Longest.depth` counts."""
    return max((depth for depth, _ in _arrivals(netlist.nodes).values()), default=0)


class _Flat:
    """Nodes of all modules, with global nets. `_same` leads from a net to one that it is joined with, and in the end to itself."""

    def __init__(self, parts: Mapping[str, Part], netlists: Mapping[str, Netlist]) -> None:
        self.nodes: list[tuple[str, Node]] = []
        self.quiet: set[int] = set()
        self.fast: set[int] = set()  # nets of the second clock
        self.outside: set[int] = set()  # nets that lead out of what is known
        self.kept: set[int] = set()
        self.registers: list[tuple[Placed, Register]] = []
        self.latches: list[tuple[Placed, Latches]] = []
        self._parts, self._netlists = parts, netlists
        self._same: list[int] = []
        self._names: dict[int, str] = {}

    def name(self, net: int) -> str:
        """A net's name in the generated Verilog, behind the instances that it lies in."""
        if net in self._names:
            return self._names[net]
        return "a net without a name in " + next((module for module, node in self.nodes if net in node.out), "a port")

    def add(self, module: str, place: str, pins: list[list[int]], region: str = "") -> None:
        """Adds a module below the instance `place` ("a.b."); its ports are the global nets `pins`. `region` as in Placed."""
        part, netlist, base = self._parts[module], self._netlists[module], len(self._same)
        self._same += range(base, base + netlist.nets)
        for inner, outer in zip(netlist.ports, pins, strict=False):
            for a, b in zip(inner, outer, strict=False):
                if a >= 0 and b >= 0:
                    self._same[self._root(a + base)] = self._root(b)
        for port, nets in zip(part.ports, netlist.ports, strict=False):
            if port.name in QUIET:
                self.quiet.update(net + base for net in nets if net >= 0)
            if port.name in FAST:
                self.fast.update(net + base for net in nets if net >= 0)
        self.nodes += [(module, _over(node, lambda nets: [net + base for net in nets])) for node in netlist.nodes]
        names = {net + base: part.original(name) for net, name in netlist.names.items()}
        self.quiet.update(net for net, name in names.items() if name in QUIET)  # a copy of the reset, where it is made
        self._names |= {net: place + name for net, name in names.items()}
        region = place if part.stays else region
        self._add_registers(netlist, base, Placed(module, region))
        for number, instance, connected in netlist.children:
            child = part.children[number]
            inside = [[net + base if net >= 0 else -1 for net in nets] for nets in connected]
            if child in self._netlists:
                self.add(child, f"{place}{part.original(instance)}.", inside, region)
            else:
                self.outside.update(net for nets in inside for net in nets if net >= 0)

    def _add_registers(self, netlist: Netlist, base: int, place: Placed) -> None:
        self.kept.update(net + base for net in netlist.kept)
        self.registers += [(place, Register(*(net + base if net != NONE else NONE for net in one))) for one in netlist.registers]
        self.latches += [(place, Latches([net + base for net in one.nets], one.clock + base)) for one in netlist.latches]

    def settle(self) -> None:
        """Gives each net a single number, once all modules have been added."""
        self.nodes = [(module, _over(node, lambda nets: [self._root(net) for net in nets])) for module, node in self.nodes]
        sets = (self.quiet, self.fast, self.outside, self.kept)
        self.quiet, self.fast, self.outside, self.kept = ({self._root(net) for net in nets} for nets in sets)
        self.registers = [(p, Register(*(self._root(net) if net != NONE else NONE for net in one))) for p, one in self.registers]
        self.latches = [(p, Latches([self._root(net) for net in one.nets], self._root(one.clock))) for p, one in self.latches]
        names: dict[int, str] = {}
        for net, name in self._names.items():  # outer modules come first
            names.setdefault(self._root(net), name)
        self._names = names

    def _root(self, net: int) -> int:
        while self._same[net] != net:
            self._same[net] = net = self._same[self._same[net]]
        return net


def _over(node: Node, change: Callable[[list[int]], list[int]]) -> Node:
    """The node with other nets."""
    return Node(node.kind, *(change(list(nets)) for nets in node[1:]))


def _arrivals(nodes: list[Node]) -> dict[int, tuple[int, int]]:
    """For each net, the LUTs and carry chains of the longest path from a register, and the net at which this path starts."""
    driver = {net: node for node in nodes if node.through or node.chain for net in node.out}
    # a shift register or LUT RAM that nothing addresses is no register at its output
    arrival = {net: (1, net) for node in nodes if node.kind == "memory" and not node.through for net in node.out}
    for first in driver.values():
        stack = [first]
        while stack:
            node = stack[-1]
            waiting = next((net for net in (*node.through, *node.chain) if net in driver and net not in arrival), None)
            if waiting is not None and node.out[0] not in arrival:
                if len(stack) > DEEPEST:
                    raise ValueError("a loop without a register")
                stack.append(driver[waiting])
                continue
            stack.pop()
            steps = [(arrival.get(net, (0, net)), 1) for net in node.through]
            steps += [(arrival.get(net, (0, net)), net not in driver or driver[net].kind != "carry") for net in node.chain]
            longest = max((depth + more, start) for (depth, start), more in steps)
            arrival.update(dict.fromkeys(node.out, longest))
    return arrival


def _loads(flat: _Flat, least: int) -> list[tuple[int, str]]:
    """The nets that drive more than `least` pins, without clock and reset."""
    return [(pins, flat.name(net)) for net, pins in _count(flat).most_common() if pins > least and net not in flat.quiet]


def _count(flat: _Flat) -> Counter[int]:
    return Counter(net for _, node in flat.nodes for nets in (node.data, node.control, node.through, node.chain) for net in nets)


def _fast(flat: _Flat, arrival: Mapping[int, tuple[int, int]], limits: Limits) -> Fast:
    """What is too long or too wide at the second clock, on the ways into its registers and on those out of them."""
    driver = {net: node for _, node in flat.nodes if node.through or node.chain for net in node.out}
    late = {net: (0, net) for _, node in flat.nodes if not flat.fast.isdisjoint(node.clock) for net in node.out}
    _reached(flat, late)
    found: dict[str, Longest] = {}
    on_the_way = set(late)
    for module, node in flat.nodes:
        into = not flat.fast.isdisjoint(node.clock)
        for net in (*node.data, *node.control):
            depth, start = arrival.get(net, (0, net)) if into else late.get(net, (0, net))
            on_the_way |= _cone(net, driver) if into else set()
            if depth > max(limits.luts, found[module].depth if module in found else 0):
                found[module] = Longest(depth, flat.name(start), flat.name(node.out[0] if node.out else net))
    count = _count(flat)
    wide = sorted(((count[net], flat.name(net)) for net in on_the_way - flat.quiet if count[net] > limits.loads), reverse=True)
    return Fast(found, wide)


def _reached(flat: _Flat, late: dict[int, tuple[int, int]]) -> None:
    """Adds the nets to which LUTs and carry chains lead from those in `late`, with the most cells on a way and where it starts."""
    readers: dict[int, list[Node]] = {}
    for _, node in flat.nodes:
        for net in (*node.through, *node.chain):
            readers.setdefault(net, []).append(node)
    waiting = list(late)
    while waiting:
        net = waiting.pop()
        depth, start = late[net]
        for node in readers.get(net, ()):
            for out in node.out:
                if out not in late or late[out][0] <= depth:
                    late[out] = depth + 1, start
                    waiting.append(out)


def _cone(net: int, driver: Mapping[int, Node]) -> set[int]:
    """The net, and all nets from which LUTs and carry chains lead to it."""
    found, waiting = {net}, [net]
    while waiting:
        node = driver.get(waiting.pop())
        new = {one for one in (*node.through, *node.chain) if one not in found} if node else set()
        found |= new
        waiting += new
    return found


def _raw(flat: _Flat) -> Counter[str]:
    """For each module, the outputs without a register that are read by a LUT, or by anything but a flip-flop's data."""
    owner = {net: module for module, node in flat.nodes if node.kind == "raw" for net in node.out}
    read: set[int] = set()
    for _, node in flat.nodes:
        read.update(owner.keys() & {*node.control, *node.through, *node.chain, *(() if node.kind == "ff" else node.data)})
    return Counter(owner[net] for net in read)
