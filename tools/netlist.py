"""The result of synthesis for one module: `Netlist`, with its cells as nodes of paths, and counts of cells.

`synthesis.py` makes netlists, and `joined.py` joins them across their borders. Nets are numbers within a netlist; constants are
left out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import output_registers
from output_registers import Latches, Register

FORMAT = 3  # version of the saved form: raise it with a change of `read` or `Netlist`, unless `load` reads the older form too
LUT_COST = {  # of a cell that takes LUTs
    **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
    **dict.fromkeys(("INV", "SRL16E", "SRLC16E", "SRLC32E", "RAM32X1S", "RAM64X1S"), 1),
    **dict.fromkeys(("RAM32X1D", "RAM64X1D", "RAM128X1S"), 2),
    **dict.fromkeys(("RAM32M", "RAM64M", "RAM128X1D", "RAM256X1S"), 4),
    **dict.fromkeys(("RAM32M16", "RAM64M8", "RAM256X1D", "RAM512X1S"), 8),
}
FLIPFLOPS = ("FDRE", "FDSE", "FDCE", "FDPE")
BRAM36_HALVES = {"RAMB18E2": 1, "RAMB36E2": 2}
URAM = "URAM288"
CLOCKS = ("C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK")
_DSP_REGISTERS = {"P": "PREG", "PCOUT": "PREG"}
_RAM_REGISTERS = {"DOUTADOUT": "DOA_REG", "DOUTPADOUTP": "DOA_REG", "DOUTBDOUT": "DOB_REG", "DOUTPBDOUTP": "DOB_REG"}
_URAM_REGISTERS = {"DOUT_A": "OREG_A", "DOUT_B": "OREG_B"}


class Node(NamedTuple):
    """A cell, or a part of one whose outputs depend on the same inputs. All members but the first hold nets.

    `data` and `control` end a path in a register. `through` leads to `out` by a LUT, `chain` along a carry chain. Kinds: "ff",
    "lut", "carry", "memory" (LUT RAM, shift registers), "block" (DSP, block RAM, UltraRAM), "raw" (outputs of these without a
    register).
    `clock` is the clock of a register; results that were saved before there were two clocks do not have it.
    """

    kind: str
    data: list[int]
    control: list[int]
    through: list[int]
    chain: list[int]
    out: list[int]
    clock: Sequence[int] = ()


class Netlist(NamedTuple):
    """One module. `ports` has its nets by port, then bit (-1: a constant). `children` are (number, instance, nets by port).

    `ltp` is the length, in cells, that Yosys' `ltp -noff` reports for it (-1: unknown). `registers` are the flip-flops that may
    belong to `latches`, of this module or another; `kept` has the nets that an attribute keeps.
    """

    nets: int
    ports: list[list[int]]
    nodes: list[Node]
    children: list[tuple[int, str, list[list[int]]]]
    cells: dict[str, int]
    names: dict[int, str]
    ltp: int = -1
    registers: Sequence[Register] = ()
    latches: Sequence[Latches] = ()
    kept: Sequence[int] = ()

    @property
    def luts(self) -> int:
        return sum(LUT_COST.get(kind, 0) * count for kind, count in self.cells.items())

    @property
    def flipflops(self) -> int:
        return sum(self.cells.get(kind, 0) for kind in FLIPFLOPS)

    @property
    def bram_halves(self) -> int:
        """Block RAM, in halves of 36 Kb."""
        return sum(halves * self.cells.get(kind, 0) for kind, halves in BRAM36_HALVES.items())

    @property
    def urams(self) -> int:
        return self.cells.get(URAM, 0)

    @property
    def dsps(self) -> int:
        return self.cells.get("DSP48E2", 0)


def read(module: dict[str, Any], child: str) -> Netlist:
    """A module of Yosys' JSON with ports p0, p1 and so on, and black boxes named `child` and a number.

    ValueError: an unknown cell.
    """
    numbers: dict[int, int] = {}

    def nets(bits: Iterable[Any]) -> list[int]:
        return [numbers.setdefault(bit, len(numbers)) if isinstance(bit, int) else -1 for bit in bits]

    def ports(connections: dict[str, list[Any]]) -> list[list[int]]:
        return [nets(connections.get(f"p{index}", [])) for index in range(1 + max((int(n[1:]) for n in connections), default=-1))]

    own = ports({name: port["bits"] for name, port in module["ports"].items()})
    nodes: list[Node] = []
    children: list[tuple[int, str, list[list[int]]]] = []
    count: Counter[str] = Counter()
    registers: list[Register] = []
    latches: list[Latches] = []
    for name, cell in module["cells"].items():
        kind, pins = cell["type"], cell["connections"]
        if kind.startswith(child):
            children.append((int(kind[len(child) :]), name, ports(pins)))
            continue
        count[kind] += 1
        used = {pin: [net for net in nets(bits) if net >= 0] for pin, bits in pins.items() if pin not in CLOCKS}
        clock = [net for pin in CLOCKS for net in nets(pins.get(pin, ())) if net >= 0]
        nodes += (node._replace(clock=clock) for node in _nodes(kind, used, cell.get("parameters", {}), cell["port_directions"]))
        registers += [one for one in [output_registers.register(cell, nets)] if one]
        latches += output_registers.latches(cell, nets)
    names: dict[int, str] = {}
    for name, net in module["netnames"].items():
        if not net["hide_name"]:
            for index, number in enumerate(nets(net["bits"])):
                names.setdefault(number, name if len(net["bits"]) == 1 else f"{name}[{index}]")
    inside = {net for node in nodes if node.kind != "raw" for net in node.out}
    registers = [one for one in registers if one.data not in inside]
    kept = output_registers.kept(module, nets)
    return Netlist(len(numbers), own, nodes, children, dict(count), names, -1, registers, latches, kept)


def _nodes(kind: str, pins: dict[str, list[int]], parameters: dict[str, Any], directions: dict[str, str]) -> Iterator[Node]:
    """The nodes of a cell. ValueError: an unknown cell."""

    def of(*names: str) -> list[int]:
        return [net for name in names for net in pins.get(name, ())]

    if kind in FLIPFLOPS:
        yield Node("ff", of("D"), of("CE", "R", "S", "CLR", "PRE"), [], [], of("Q"))
    elif kind.startswith(("LUT", "MUXF", "INV")):
        yield Node("lut", [], [], of(*(pin for pin in pins if pin != "O")), [], of("O"))
    elif kind in ("CARRY4", "CARRY8"):
        yield Node("carry", [], [], of("S", "DI", "CYINIT", "CI_TOP"), of("CI"), of("O", "CO"))
    elif kind.startswith("SRL"):
        yield Node("memory", of("D"), of("CE"), of(*(pin for pin in pins if pin[0] == "A")), [], of("Q", "Q31"))
    elif kind in LUT_COST:
        yield from _lut_ram(kind, pins, of)
    elif kind in ("DSP48E2", URAM) or kind in BRAM36_HALVES:
        registers = {"DSP48E2": _DSP_REGISTERS, URAM: _URAM_REGISTERS}.get(kind, _RAM_REGISTERS)
        inputs = of(*(pin for pin in pins if directions[pin] == "input"))
        outputs: dict[str, list[int]] = {"block": [], "raw": []}
        for pin in (pin for pin in pins if directions[pin] == "output"):
            # a register that the instance does not name is on, in block RAMs too: Yosys' own maps name theirs to turn them off;
            # that of an UltraRAM is off
            named = parameters.get(registers[pin], "FALSE" if kind == URAM else "1") if pin in registers else "0"
            is_on = named == "TRUE" if kind == URAM else int(str(named), 2)
            outputs["block" if is_on else "raw"] += pins[pin]
        yield Node("block", inputs, [], [], [], outputs["block"])
        if outputs["raw"]:
            yield Node("raw", [], [], [], [], outputs["raw"])
    else:
        raise ValueError(f"cell {kind} is not known")


def _lut_ram(kind: str, pins: dict[str, list[int]], of: Callable[..., list[int]]) -> Iterator[Node]:
    """A LUT RAM: each output depends on its own read address; other inputs end in a register."""
    if "DOA" in pins:
        pairs = [(pin, "ADDR" + pin[2:]) for pin in pins if pin.startswith("DO")]
    else:
        pairs = [(out, start) for out, start in (("SPO", "A"), ("DPO", "DPRA"), ("O", "A")) if out in pins]
    reads = {out: of(*(pin for pin in pins if pin.rstrip("0123456789") == address)) for out, address in pairs}
    last = {"RAM32M16": "ADDRH", "RAM64M8": "ADDRH"}.get(kind, "ADDRD")  # the port that is written at
    where = (last,) if "DOA" in pins else tuple(pin for pin in pins if re.fullmatch(r"A\d*", pin))
    written = of(*(pin for pin in pins if pin.startswith("D") and not pin.startswith(("DO", "DP"))), *where)
    yield Node("memory", written, of("WE"), [], [], [])
    for out, nets in reads.items():
        if pins[out]:
            yield Node("memory", [], [], nets, [], pins[out])


def load(saved: list[Any]) -> Netlist:
    """A netlist that was saved as JSON."""
    nets, ports, nodes, children, cells, names, ltp, registers, latches, keeps = saved
    kept = [(number, instance, pins) for number, instance, pins in children]
    own = {int(net): name for net, name in names.items()}
    own_registers, own_latches = [Register(*one) for one in registers], [Latches(*one) for one in latches]
    return Netlist(nets, ports, [Node(*node) for node in nodes], kept, cells, own, ltp, own_registers, own_latches, keeps)
