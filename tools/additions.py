"""What a module may have beside the older one that it is proven to behave like: `equivalent.py` with registers, ports and instances
that only the new text has.

Such a proof is an induction over clocks. A `Rule` says of a module's additions what each of them is in every clock:

- `constants`: registers, ports and pins ("instance.port") that keep a value. Yosys proves that a register begins with it and keeps
  it, and that whatever drives a port or pin gives it, if all constants have held so far. It then holds in every clock.
- `twins`: registers that hold what another register holds. They begin alike, and Yosys proves that they stay so.
- `assumed`: registers that keep a value because of what the host does not do. That is not proven; the record names them.
- `apart`: what may differ, such as what a read answers. Each side has its own values of it, free of each other, so the proof shows
  that nothing else depends on them. Whatever takes them must be apart too.

Where one module drives another, both rules must say so: constants are proven where they are driven, and taken as such beyond.

Other additions may have any value. What both texts have is compared as ever.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import equivalent
from equivalent import NotProvenError
from synthesis import Part

from cnna.hw.verilog.writer import TOP
from cnna.spec.regmap import RUN_REGISTERS

Bits = list[int | str]
Cut = dict[str, tuple[str, Bits]]  # by name: "input" or "output" of the logic, and its bits


@dataclass(frozen=True)
class Rule:
    """What a module has more, by names in its text."""

    constants: Mapping[str, int] = field(default_factory=dict)
    assumed: Mapping[str, int] = field(default_factory=dict)
    twins: Mapping[str, str] = field(default_factory=dict)
    apart: tuple[str, ...] = ()  # patterns; "ctrl:5" is a bit of a register


SLAVE = ("answer__payload", "bus__rdata", "bus__rresp")
HELD = {  # active copies of run registers, and the host's words; one of each pair has the name of the older text
    **{f"active_{name.lower()}": name.lower() for name in RUN_REGISTERS if name not in ("PROG_COUNT", "RUN_LIMIT")},
    "prog_count": "program_count",
    "run_limit_2": "run_limit",
}
QUIET = dict.fromkeys(
    ("answered", "full", "dirty", "holds", "claimed", "copying", "put", "pending", "queued", "launch"),
    0,
)
QUEUE = {  # the queue of runs
    "cnna": Rule(
        {f"{block}.{name}": 0 for block in ("regfile", "control") for name in ("launch", "queued")} | {"regfile.pending": 0},
        apart=("s_axi_control_rdata", "s_axi_control_rresp", "regfile.bus__rdata", "regfile.bus__rresp"),
    ),
    "cnna_control": Rule({"launch": 0, "queued": 0}),
    "cnna_control_reg_file": Rule(
        {"launch": 0, "queued": 0, "pending": 0, "held": 0, "queue.ask": 0, "queue.apart": 0, "slave.read__ready": 1}
        | {f"queue.{name}": value for name, value in QUIET.items()},
        {"asks": 0, "ahead": 0},
        HELD,
        (
            "bus__rdata",
            "bus__rresp",
            "ctrl:5",
            "value",
            "found",
            "group*.words",
            "group*.value",
            "group*.known",
            *(f"slave.{name}" for name in SLAVE),
        ),
    ),
    "cnna_control_run_queue": Rule(
        {"ask": 0, "apart": 0, **QUIET, "written": 0, "launching": 0, "restoring": 0},
    ),
    "cnna_control_read_group": Rule(apart=("value",)),  # the first group has VERSION
    "cnna_axi_lite_slave": Rule({"read__ready": 1}, apart=SLAVE),
}
NEVER_QUEUED = ("cnna.regfile.ahead=0", "cnna.regfile.asks=0")  # true where no host queues starts or writes ahead of one


def prove_added(old: Part | None, new: Part, rule: Rule, sides: tuple[Mapping[str, Part], Mapping[str, Part]]) -> None:
    """Proves that the new module, under its rule, does what the old one does; without an old one, that its constants are constant.

    NotProvenError: says why not.
    """
    with tempfile.TemporaryDirectory() as place:
        parts = {"new": new} if old is None else {"old": old, "new": new}
        modules = {"old": {"ports": {}, "cells": {}}} | {
            side: equivalent.elaborated(part, Path(place)) for side, part in parts.items()
        }
        for side in modules:
            equivalent.free_unknowns(side, modules)
        views = {side: _View(part, modules[side], sides[side == "new"]) for side, part in parts.items()}
        before, after = views["old"].cut if old else _unknowns(modules["old"]), views["new"].cut
        _check_begins(views, rule, new.name)
        _apply(before, after, rule, new.name, modules["new"])
        both = {"old": (before, modules["old"]), "new": (after, modules["new"])}
        Path(place, "both.json").write_text(
            json.dumps({"modules": {side: _logic(cut, module) for side, (cut, module) in both.items()}})
        )
        if failed := equivalent.yosys(equivalent.PROOF, Path(place)):
            raise NotProvenError(f"{new.name}: not equal, or not proven: {failed}")


class _View:
    """A module cut open: its ports, its registers and the pins of its instances, by names of the generated Verilog."""

    def __init__(self, part: Part, module: dict[str, Any], parts: Mapping[str, Part]) -> None:
        registers = equivalent.Registers(part, module)
        self.cut: Cut = _unknowns(module)
        for name, port in module["ports"].items():
            if not name.startswith("unknown:"):
                self.cut[f"port:{part.original(name)}"] = port["direction"], port["bits"]
        own_names = {bit: registers.originals[bit] for bit in registers.kinds}
        names = {bit: registers.names[bit] if name.startswith("$") else name for bit, name in own_names.items()}
        self.kinds = {names[bit]: _kind(part, kind) for bit, kind in registers.kinds.items()}
        for own, cell in module["cells"].items():
            pins = cell["connections"]
            if cell["type"] == "$dff":
                for now, following in zip(pins["Q"], pins["D"], strict=True):
                    self.cut[f"now:{names[now]}"] = "input", [now]
                    self.cut[f"next:{names[now]}"] = "output", [following]
            elif not cell["type"].startswith("$"):
                child = parts[part.children[int(cell["type"].removeprefix("child"))]]
                for pin, bits in pins.items():
                    turned = {"input": "output", "output": "input"}[cell["port_directions"][pin]]
                    self.cut[f"pin:{part.original(own)}.{child.original(pin)}"] = turned, bits


def _kind(part: Part, kind: str) -> str:
    """Clock and first value of a register, with the clock's name in the text."""
    edge, clock, begin = kind.split(" ")
    return f"{edge} {part.original(clock)} {begin}"


def _unknowns(module: dict[str, Any]) -> Cut:
    return {name: ("input", port["bits"]) for name, port in module["ports"].items() if name.startswith("unknown:")}


def _matches(item: str, name: str) -> bool:
    """Whether an item of a cut is what a rule calls by that name."""
    kind, _, own = item.partition(":")
    if kind in ("now", "next"):
        return fnmatch(own, name) or fnmatch(own.rpartition(":")[0], name)
    return fnmatch(own, name)


def _check_begins(views: Mapping[str, _View], rule: Rule, module: str) -> None:
    """NotProvenError: registers begin otherwise than their twins, their constants, or the same registers of the old text."""
    new = views["new"].kinds
    for name, kind in new.items():
        register, _, place = name.rpartition(":")
        wanted = kind
        if register in rule.twins:
            wanted = new.get(f"{rule.twins[register]}:{place}", "nothing")
        elif constant := [value for constant, value in rule.constants.items() if _matches(f"now:{name}", constant)]:
            wanted = f"{kind.rpartition(' ')[0]} {constant[0] >> int(place) & 1}"
        elif "old" in views:
            wanted = views["old"].kinds.get(name, kind)
        if kind != wanted:
            raise NotProvenError(f"{module}: register {name} begins as {kind}, not as {wanted}")
    if "old" in views and (gone := sorted(views["old"].kinds.keys() - new.keys())):
        raise NotProvenError(f"{module}: registers differ: {', '.join(gone[:4])}")


def check_borders(part: Part, rules: Mapping[str, Rule], parts: Mapping[str, Part]) -> None:
    """NotProvenError: a rule relies on something at the border of two modules that the other module's rule does not say.

    What a module takes to be constant must be proven where it is driven. What is apart must be apart on both sides, or go into a
    module whose outputs are all apart.
    """
    rule = rules.get(part.name, Rule())
    for number, own in equivalent.instances_of(part):
        child = parts[part.children[number]]
        inner = rules.get(child.name, Rule())
        spreads = not all(_is_apart(rule, f"{own}.{port.name}") for port in child.ports if port.direction == "output")
        for port in child.ports:
            pin = f"{own}.{port.name}"
            sides = (inner, port.name), (rule, pin)
            (taker, taken), (giver, given) = sides if port.direction == "input" else sides[::-1]
            value = taker.constants.get(taken)
            if value is not None and value != giver.constants.get(given):
                raise NotProvenError(f"{part.name}: {pin} is taken to be {value}, and nothing proves it")
            if _is_apart(giver, given) and not _is_apart(taker, taken) and (spreads or port.direction == "output"):
                raise NotProvenError(f"{part.name}: {pin} is apart, and what takes it is not")


def _is_apart(rule: Rule, name: str) -> bool:
    return any(fnmatch(name, known) for known in rule.apart)


def _check_top(part: Part, rule: Rule) -> None:
    """NotProvenError: an input of the accelerator is taken to be constant."""
    if taken := [port.name for port in part.ports if port.direction == "input" and port.name in {**rule.constants, **rule.assumed}]:
        raise NotProvenError(f"{part.name}: nothing proves that {taken[0]} is constant")


def _apply(before: Cut, after: Cut, rule: Rule, module: str, logic: dict[str, Any]) -> None:
    """Changes both cuts as the rule says, until they have the same names."""
    put: dict[int | str, int | str] = {}
    used: set[str] = set()
    for name, value in itertools.chain(rule.constants.items(), rule.assumed.items()):
        for item in [item for item in after if _matches(item, name)]:
            used.add(name)
            direction, bits = after.pop(item)
            first = int(item.rpartition(":")[2]) if item.startswith(("now", "next")) else 0
            values: Bits = [str(value >> first + place & 1) for place in range(len(bits))]
            if direction == "input":
                put |= dict(zip(bits, values, strict=True))
            elif name in rule.constants:
                after[item], before[item] = ("output", bits), ("output", values)
    for name, other in rule.twins.items():
        for item in [item for item in after if _matches(item, name)]:
            used.add(name)
            kind, _, own = item.partition(":")
            twin = f"{kind}:{other}:{own.rpartition(':')[2]}"
            if kind == "now":
                put |= dict(zip(after.pop(item)[1], after[twin][1], strict=True))
            else:
                before[item] = before[twin]
    for name in rule.apart:
        for side, cut in (("old", before), ("new", after)):
            for item in [item for item in cut if _matches(item, name)]:
                used.add(name)
                direction, bits = cut.pop(item)
                if direction == "input":
                    cut[f"{side}:{item}"] = direction, bits
    if unused := sorted({*rule.constants, *rule.assumed, *rule.twins, *rule.apart} - used):
        raise NotProvenError(f"{module}: there is no {', '.join(unused)}")
    for cell in logic["cells"].values():
        pins = cell["connections"]
        pins |= {pin: [put.get(bit, bit) for bit in bits] for pin, bits in pins.items()}
    for item, (direction, bits) in after.items():
        after[item] = direction, [put.get(bit, bit) for bit in bits] if direction == "output" else bits
    _complete(before, after, module)


def _complete(before: Cut, after: Cut, module: str) -> None:
    """Gives each side the other's free inputs, and drops outputs that only the new side has."""
    free = itertools.count(equivalent.UNUSED * 4)
    for item in [item for item in after if item not in before]:
        direction, bits = after[item]
        if direction == "input":
            before[item] = "input", [next(free) for _ in bits]
        else:
            del after[item]
    for item in [item for item in before if item not in after]:
        direction, bits = before[item]
        if direction == "output":
            raise NotProvenError(f"{module}: there is no {item} any more")
        after[item] = "input", [next(free) for _ in bits]
    if unlike := [item for item in after if (after[item][0], len(after[item][1])) != (before[item][0], len(before[item][1]))]:
        raise NotProvenError(f"{module}: {unlike[0]} differs in width or direction")


def _logic(cut: Cut, module: dict[str, Any]) -> dict[str, Any]:
    """The module as Yosys' JSON, of logic alone."""
    cells = {name: cell for name, cell in module["cells"].items() if cell["type"].startswith("$") and cell["type"] != "$dff"}
    ports = {name: {"direction": direction, "bits": bits} for name, (direction, bits) in sorted(cut.items())}
    return {"attributes": {}, "ports": ports, "cells": cells, "netnames": {}}


def prove(old: str, new: str, rules: Mapping[str, Rule], top: str = TOP) -> list[str]:
    """Names, in `new`, of the modules that were proven, as `equivalent.prove` does; rules: by module of `new`. NotProvenError."""
    sides = equivalent.modules_of(old), equivalent.modules_of(new)
    proven: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [(top, top)]
    _check_top(sides[1][top], rules.get(top, Rule()))
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        before, after = sides[0].get(pair[0]), sides[1][pair[1]]
        check_borders(after, rules, sides[1])
        if rule := rules.get(after.name):
            prove_added(before, after, rule, sides)
            inner = equivalent.instances(before) if before else {}
            children, differs = [(inner.get(name, ""), child) for name, child in equivalent.instances(after).items()], True
        elif before is None:
            continue  # nothing was said of what it gives
        else:
            children, differs = equivalent.compare(before, after, top, {})
        waiting += children
        proven += [after.name] if differs else []
    if missing := sorted(rules.keys() - set(proven)):
        raise NotProvenError(f"there is no module {', '.join(missing)}")
    return sorted(proven)


def main() -> None:
    """Proves, prints the modules that were proven, and records the proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where the proof is recorded")
    args = parser.parse_args()
    old, new = args.old.read_text(), args.new.read_text()
    try:
        proven = prove(old, new, QUEUE)
    except NotProvenError as error:
        sys.exit(f"additions: {error}")
    if args.keep:
        equivalent.keep(args.keep, old, new, proven, NEVER_QUEUED)
    print(f"{equivalent.digest(new)[:8]} behaves like {equivalent.digest(old)[:8]}; proven: {', '.join(proven)}")


if __name__ == "__main__":
    main()
