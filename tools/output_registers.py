"""Which flip-flops a block RAM's own output registers can hold. Yosys never uses these, and counts flip-flops of the fabric.

RAMB18E2 and RAMB36E2 have a register behind the latches of each read port (DOA_REG, DOB_REG; UG573, "Optional Output Registers",
"Register Enable", "RSTREG_PRIORITY"), and Vivado puts a register into it that follows the memory (UG901, "Block RAM with Optional
Output Registers"; UG949, "Scenarios Preventing Block RAM Output Register Inference"). A port's flip-flops count as held only if all
of this is so, for all outputs of the port that lead anywhere:

- the output leads to the flip-flop's data and nowhere else;
- the flip-flop is on the same edge of the port's own clock;
- all have the same enable (REGCE), or none, and the same synchronous reset (RSTREG), or none;
- they start at 0 and are reset to 0, and so are the latches: INIT and SRVAL belong to both;
- no attribute keeps the flip-flop or the net before it;
- no module with KEEP_HIERARCHY has a border between the block RAM and the flip-flop.

A port as wide as the whole block (simple dual port: 72 bits, 36 of a half) is one port on both groups of outputs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

KEEPS = ("keep", "dont_touch", "mark_debug", "srl_style", "shreg_extract", "async_reg", "iob")  # attributes; others change nothing
NONE = -1  # in place of a net
_WIDEST = {"RAMB18E2": 36, "RAMB36E2": 72}  # bits of a port that takes both groups of outputs
_GROUPS = {"A": ("CLKARDCLK", ("DOUTADOUT", "DOUTPADOUTP")), "B": ("CLKBWRCLK", ("DOUTBDOUT", "DOUTPBDOUTP"))}
_Nets = Callable[[Iterable[Any]], list[int]]


class Register(NamedTuple):
    """A flip-flop that starts at 0 and is reset to 0. All members are nets; without enable or reset NONE."""

    data: int
    out: int
    clock: int
    enable: int
    reset: int


class Latches(NamedTuple):
    """The outputs of a block RAM's read port, which start at 0 and have no register, and the port's clock."""

    nets: list[int]
    clock: int


class Placed(NamedTuple):
    """Where something lies: its module, and the innermost instance around it whose border stays (KEEP_HIERARCHY)."""

    module: str
    region: str


def register(cell: Mapping[str, Any], nets: _Nets) -> Register | None:
    """The flip-flop of a cell in Yosys' JSON. None: another cell, or a flip-flop that no block RAM can hold."""
    parameters = {name: str(value) for name, value in cell.get("parameters", {}).items()}
    pins = {pin: bits[0] for pin, bits in cell["connections"].items() if bits}
    inverted = any(name.startswith("IS_") and "1" in value for name, value in parameters.items())
    if cell["type"] != "FDRE" or inverted or not _zero(parameters.get("INIT", "0")) or _keeps(cell):
        return None
    enable, reset = pins.get("CE", "1"), pins.get("R", "0")
    if enable in ("0", "x") or reset in ("1", "x") or any(isinstance(pins.get(pin), str | None) for pin in "CDQ"):
        return None
    (data, out, clock) = nets([pins["D"], pins["Q"], pins["C"]])
    return Register(data, out, clock, *(NONE if isinstance(bit, str) else nets([bit])[0] for bit in (enable, reset)))


def latches(cell: Mapping[str, Any], nets: _Nets) -> Iterator[Latches]:
    """The read ports of a block RAM in Yosys' JSON whose output registers are free."""
    if cell["type"] not in _WIDEST:
        return
    parameters = {name: str(value) for name, value in cell.get("parameters", {}).items()}
    width = parameters.get("READ_WIDTH_A", "0")
    ports = ["AB"] if int(width, 2) == _WIDEST[cell["type"]] else ["A", "B"]
    for groups in ports:
        values = [parameters.get(f"{name}_{group}", "0") for group in groups for name in ("INIT", "SRVAL")]
        is_free = all(_zero(parameters.get(f"DO{group}_REG", "1")) for group in groups)
        clock, _ = _GROUPS[groups[0]]
        inverted = "1" in parameters.get(f"IS_{clock}_INVERTED", "0")
        outputs = [bit for group in groups for pin in _GROUPS[group][1] for bit in cell["connections"].get(pin, ())]
        found = nets(bit for bit in outputs if isinstance(bit, int))
        if found and is_free and not inverted and all(map(_zero, values)):
            yield Latches(found, nets(cell["connections"][clock])[0])


def kept(module: Mapping[str, Any], nets: _Nets) -> list[int]:
    """The nets of a module in Yosys' JSON that an attribute keeps."""
    return sorted({net for name in module["netnames"].values() if _keeps(name) for net in nets(name["bits"]) if net != NONE})


def _keeps(item: Mapping[str, Any]) -> bool:
    """Whether a cell or net has an attribute that keeps it; a number 0 switches an attribute off."""
    return any(
        "1" in str(value) or set(str(value)) - set("01") for name, value in item.get("attributes", {}).items() if name in KEEPS
    )


def _zero(bits: str) -> bool:
    return set(bits) <= {"0", "x"}


def held(
    ports: Sequence[tuple[Placed, Latches]],
    registers: Sequence[tuple[Placed, Register]],
    loads: Mapping[int, int],
    keeps: set[int],
) -> Counter[str]:
    """For each module, its flip-flops that block RAMs can hold: nets of the whole design, `loads` the pins that each drives."""
    behind: dict[int, tuple[Placed, Register]] = {one.data: (place, one) for place, one in registers}
    found: Counter[str] = Counter()
    for place, port in ports:
        nets = [net for net in port.nets if loads.get(net, 0)]
        if any(net not in behind or loads[net] > 1 for net in nets):
            continue
        here = [behind[net] for net in nets]
        alike = len({(one.enable, one.reset) for _, one in here}) == 1
        near = all(other.region == place.region and one.clock == port.clock for other, one in here)
        if alike and near and keeps.isdisjoint((*nets, *(one.out for _, one in here))):
            found.update(other.module for other, _ in here)
    return found
