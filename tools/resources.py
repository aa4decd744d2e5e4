"""Synthesises the accelerator with Yosys, counts what it takes of a ZU9 (ZCU102), and writes docs/resources.md.

    .venv/bin/python tools/resources.py [--config C] [--minutes M]

`zcu102x2` has a page of its own, docs/resources-x2.md. Of other configurations it writes only the totals, to docs/resources.json;
tools/bench/board_rows.py makes a page of these.

Synthesised modules are kept in the user's cache folder. With --minutes 0 the page is written from these alone.
"""

import argparse
import datetime
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from joined import Joined, Limits, Longest, join, levels
from netlist import Netlist
from synthesis import COMMAND, Part, split, synthesise_all

from cnna.cli.options import configuration
from cnna.hw.verilog import writer
from cnna.sim.rtl.cache import private
from cnna.spec.boards import ZCU102, board_of
from cnna.spec.errors import UserError
from cnna.spec.files import default_cache

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEPT = "resources.json"
DEVICE = {  # of a ZU9
    "LUTs": ZCU102.chip.luts,
    "flip-flops": ZCU102.chip.flipflops,
    "BRAM36": ZCU102.chip.bram36,
    "DSP48E2": ZCU102.chip.dsps,
}
PAGES = {"zcu102": "resources.md", "zcu102x2": "resources-x2.md"}
SHARES = {  # the fraction of each that the accelerator may take
    "zcu102": {"LUTs": 0.6, "flip-flops": 0.4, "BRAM36": 1.0, "DSP48E2": 1.0},
    "zcu102x2": {"LUTs": 0.7, "flip-flops": 0.45, "BRAM36": 1.0, "DSP48E2": 1.0},
}
DEPTH, LOADS = 5, 512  # LUTs between two registers; pins on a net
NAMED = 64  # so many of the paths and nets that are too long or too wide are named
HEAD = """# Resources of {config}

How much of a ZCU102's ZU9 the configuration `{config}` takes. Yosys synthesised each module alone (`{command}`). This
command wrote the page on {date}:

    make resources{option}

{others}

The longest paths are joined across the borders of modules. They count the LUTs between two registers; a carry chain, a MUXF, a
LUT RAM and a shift register count as one each. Two things would be listed as shortfalls: a net other than clock and reset with more
than {loads} loads, and an output of a DSP or block RAM that leads into logic without a register. Where a path begins or ends at
`aclk2x`, {fast.luts} LUT and nets of {fast.loads} loads are allowed. Nothing here is placed or routed.
"""
OTHERS = {
    "resources.md": "[resources-x2.md](resources-x2.md) is about `zcu102x2`; [boards.md](boards.md) has totals of other boards.",
    "resources-x2.md": "[resources.md](resources.md) is about `zcu102`.",
}
HELD = """## Output registers of block RAMs

Yosys never uses the registers that block RAMs have at their outputs (DOA_REG and DOB_REG; UG573, "Optional Output Registers"), and
maps a register behind a memory to flip-flops. Vivado puts such a register into the block RAM (UG901, "Block RAM with Optional
Output Registers"). So these flip-flops do not count against the limit. `tools/output_registers.py` takes those behind a port of a
memory, if all outputs of the port that are in use lead to nothing but the data inputs of flip-flops. These must be on the port's
clock, share one enable and one reset, start at 0 and be reset to 0. No attribute may keep them or the net before them, and no
border with KEEP_HIERARCHY may lie between. No run of Vivado has shown it for this design. Memory and register lie in different
modules here, while the vendor recommends one level of hierarchy (UG949, "Scenarios Preventing Block RAM Output Register
Inference"). So `bitstreams/build.tcl` synthesises with `-flatten_hierarchy rebuilt`. A star in a name stands for a number:

| module | instances | flip-flops in block RAMs, all instances |
|---|---|---|"""


class Use(NamedTuple):
    """Counts of resources, in the order of DEVICE."""

    luts: int
    flipflops: int
    bram36: float
    dsps: int


class Design(NamedTuple):
    """What is known: modules, instances of each, and netlists of those that are synthesised. `views` are of the largest known."""

    parts: Mapping[str, Part]
    instances: Mapping[str, int]
    netlists: Mapping[str, Netlist]
    views: tuple[Joined, ...]

    @property
    def missing(self) -> list[str]:
        return sorted(self.parts.keys() - self.netlists.keys())


def gather(parts: Mapping[str, Part], netlists: Mapping[str, Netlist], top: str) -> Design:
    """Counts the instances below `top` and joins the netlists. A module below a known one is seen inside that one."""
    instances = Counter({top: 1})
    waiting = [top]
    while waiting:
        part = parts[waiting.pop()]
        for child, count in part.instances.items():
            instances[child] += count
            waiting += [child] * count
    inside = {child for name in netlists for child in parts[name].children}
    return Design(parts, instances, netlists, tuple(join(name, parts, netlists, LOADS) for name in netlists if name not in inside))


def used(design: Design, name: str) -> Use:
    """The resources of one instance, without the modules inside it; of a module that is not synthesised only its own DSPs."""
    found = design.netlists.get(name)
    if found is None:
        return Use(0, 0, 0, design.parts[name].dsps)
    return Use(found.luts, found.flipflops, found.bram_halves / 2, found.dsps)


def paths(design: Design) -> dict[str, Longest]:
    """For each module, the longest path that ends in it."""
    found: dict[str, Longest] = {}
    for view in design.views:
        for name, path in view.paths.items():
            if name not in found or path.depth > found[name].depth:
                found[name] = path
    return found


def held(design: Design) -> Counter[str]:
    """For each module, the flip-flops of all its instances that output registers of block RAMs can hold."""
    return sum((view.held for view in design.views), Counter[str]())


def counted(design: Design) -> dict[str, float]:
    """What counts against the limits, by the names of DEVICE: `taken` without the flip-flops that block RAMs can hold."""
    found = dict(zip(DEVICE, taken(design), strict=True))
    return found | {"flip-flops": found["flip-flops"] - held(design).total()}


def limits(config: str) -> dict[str, float]:
    """How many of each of DEVICE the configuration may take."""
    shares = SHARES.get(config, SHARES["zcu102"])
    return {kind: number * shares[kind] for kind, number in DEVICE.items()}


def page(design: Design, config: str) -> str:
    """The whole page."""
    lines = [_head(config)]
    if missing := design.missing:
        known = sum(design.instances[name] for name in design.netlists)
        lines += [
            f"**Incomplete: {len(missing)} of {len(design.parts)} modules are not synthesised yet** ({known} of "
            f"{sum(design.instances.values())} instances are). The sums are lower bounds: of these modules only the DSP48E2 that",
            "their Verilog names are counted. Paths and nets that lead through them are not known, nor are their own. They are:",
            f"{', '.join(f'`{name}`' for name in missing)}.\n",
        ]
    return (
        "\n".join(
            [
                *lines,
                *_second_opinion(design),
                *_totals(design, config),
                "",
                "## Shortfalls",
                "",
                *(_shortfalls(design, config) or ["None."]),
                "",
                *_held_rows(design),
                *_rows(design),
            ]
        )
        + "\n"
    )


def _head(config: str) -> str:
    name = PAGES.get(config, PAGES["zcu102"])
    option = "" if config == "zcu102" else f" CONFIG={config}"
    today = datetime.date.today().isoformat()
    words = {"config": config, "command": COMMAND, "date": today, "option": option, "others": OTHERS[name]}
    return HEAD.format(**words, loads=LOADS, fast=Limits())


def _second_opinion(design: Design) -> Iterator[str]:
    """How Yosys' own longest paths compare, by module without what is around and in it."""
    more: Counter[int] = Counter()
    for found in design.netlists.values():
        if found.ltp >= 0:
            more[found.ltp - levels(found)] += 1
    if more:
        listed = ", ".join(f"{count} by {difference:+}" for difference, count in sorted(more.items()) if difference)
        yield (
            f"Yosys' own `ltp -noff`, with the vendor's flip-flops, memories and DSPs taken out of its sight, says the same of "
            f"{more[0]} of {more.total()} modules,\neach alone; the others differ ({listed or 'none'}): it counts every CARRY4 of "
            "a chain, and no LUT RAM.\n"
        )


def _totals(design: Design, config: str) -> Iterator[str]:
    yield "| | used | limit | share of the device |\n|---|---|---|---|"
    at_least = "at least " if design.missing else ""
    most, inside, mapped = limits(config), held(design).total(), taken(design)[1]
    for kind, total in counted(design).items():
        if kind == "flip-flops" and inside:
            yield f"| flip-flops as Yosys maps them | {at_least}{mapped:,g} | | {mapped / DEVICE[kind]:.1%} |"
            yield f"| of these in output registers of block RAMs | {inside:,g} | | |"
        name = "flip-flops without those in block RAMs" if kind == "flip-flops" and inside else kind
        yield f"| {name} | {at_least}{total:,g} | {most[kind]:,.0f} | {total / DEVICE[kind]:.1%} |"
    deepest = max((path.depth for path in paths(design).values()), default=0)
    yield f"| LUTs between registers | {at_least}{deepest} | {DEPTH} | |"


def taken(design: Design) -> list[float]:
    """What all instances take together, in the order of DEVICE."""
    each = [[count * amount for amount in used(design, name)] for name, count in design.instances.items()]
    return [sum(column) for column in zip(*each, strict=True)]


def keep(design: Design, config: str, docs: Path) -> dict[str, float]:
    """Writes the totals of a configuration into KEPT, beside those of others, and returns them."""
    file = docs / KEPT
    known = json.loads(file.read_text()) if file.exists() else {}
    urams = sum(count * design.netlists[name].urams for name, count in design.instances.items())
    more = {"URAM288": urams, "flip-flops in block RAMs": held(design).total()}
    known[config] = known.get(config, {}) | dict(zip(DEVICE, taken(design), strict=True)) | more
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return dict(known[config])


def _shortfalls(design: Design, config: str) -> list[str]:
    """What is too many, and the paths and nets that are too long or too wide, one line each, the worst of each kind first."""
    most = limits(config)
    lines = [f"- {kind}: {total:,g} of at most {most[kind]:,.0f}." for kind, total in counted(design).items() if total > most[kind]]
    deep = sorted(((path, name) for name, path in paths(design).items() if path.depth > DEPTH), reverse=True)
    lines += [f"- {path.depth} LUTs in `{name}`: from `{path.start}` to `{path.end}`." for path, name in deep[:NAMED]]
    wide = sorted({net for view in design.views for net in view.loads}, reverse=True)
    lines += [f"- {pins} loads: `{net}`." for pins, net in wide[:NAMED]]
    lines += _fast_shortfalls(design)
    for kind, found in (("paths", deep), ("nets", wide)):
        lines += [f"- {len(found) - NAMED} more {kind} of this kind." for _ in range(len(found) > NAMED)]
    raw = sum((view.raw for view in design.views), Counter[str]())
    lines += [
        f"- {bits} DSP or block RAM outputs of `{name}` lead into logic without a register." for name, bits in sorted(raw.items())
    ]
    for name in sorted(design.netlists):
        one, behind = used(design, name), luts_behind(design.netlists[name])
        if name.startswith("cnna_ram_") and one.bram36 and (behind or one.flipflops):
            lines.append(
                f"- `{name}` has {behind} LUTs and {one.flipflops} flip-flops behind its block RAM ({design.instances[name]}x)."
            )
    return lines


def _fast_shortfalls(design: Design) -> list[str]:
    """The same for the second clock, all of them."""
    deep = sorted(((path, name) for view in design.views for name, path in view.fast.paths.items()), reverse=True)
    lines = [f"- {path.depth} LUTs at `aclk2x` in `{name}`: from `{path.start}` to `{path.end}`." for path, name in deep]
    wide = sorted({net for view in design.views for net in view.fast.loads}, reverse=True)
    return [*lines, *(f"- {pins} loads at `aclk2x`: `{net}`." for pins, net in wide)]


def luts_behind(netlist: Netlist) -> int:
    """LUTs that read a block RAM's outputs: they imitate what it cannot do.

    A LUT before its inputs does not count: Yosys makes a write enable of the port's enable and the write's, which the RAM would
    and by itself.
    """
    outputs = {net for node in netlist.nodes if node.kind in ("block", "raw") for net in node.out}
    return sum(node.kind == "lut" and not outputs.isdisjoint(node.through) for node in netlist.nodes)


def _held_rows(design: Design) -> Iterator[str]:
    """A section on the flip-flops in block RAMs, if there are any."""
    if found := held(design):
        alike: dict[str, list[str]] = {}
        for name in sorted(found):
            alike.setdefault(re.sub(r"\d+", "*", name), []).append(name)
        yield HELD
        for pattern, names in alike.items():
            yield f"| `{pattern}` | {sum(design.instances[name] for name in names)} | {sum(found[name] for name in names):,} |"
        yield ""


def _rows(design: Design) -> Iterator[str]:
    """One row for each module."""
    yield "## Modules\n\nEach instance without the modules in it; the path is the longest that ends in the module.\n"
    yield "| module | instances | LUTs | flip-flops | BRAM36 | DSP48E2 | path |\n|---|---|---|---|---|---|---|"
    longest = paths(design)
    for name in sorted(design.parts):
        one, count = used(design, name), design.instances.get(name, 0)
        if name in design.netlists:
            cells = [
                f"{one.luts:,}",
                f"{one.flipflops:,}",
                f"{one.bram36:g}",
                f"{one.dsps:,}",
                longest[name].depth if name in longest else "-",
            ]
        else:
            cells = ["not synthesised yet", "-", "-", f"{one.dsps:,}" if one.dsps else "-", "-"]
        yield "| " + " | ".join(map(str, (f"`{name}`", count, *cells))) + " |"


def main() -> None:
    """Generates the Verilog, synthesises the modules that are not cached, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="zcu102")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, metavar="M", help="stop Yosys after so many (default: when all is done)"
    )
    parser.add_argument("--verilog", type=Path, metavar="FILE", help="the accelerator's Verilog, if it is written already")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="where synthesised modules are kept")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="where the page is written")
    args = parser.parse_args()
    try:
        config = configuration(args.config)
    except UserError as error:
        sys.exit(f"resources: {error}")
    text = args.verilog.read_text() if args.verilog else writer.generate(config)
    parts = split(text)
    try:
        cache = args.cache or private(default_cache()) / "resources"
        netlists = synthesise_all(parts, cache, args.minutes * 60, lambda line: print(line, flush=True))
    except (RuntimeError, UserError) as error:
        sys.exit(f"resources: {error}")
    design = gather(parts, netlists, writer.TOP)
    if args.config in PAGES:
        (args.docs / PAGES[args.config]).write_text(page(design, args.config))
    if board_of(config) is ZCU102:
        print("\n".join([*_totals(design, args.config), *_shortfalls(design, args.config)]))
    if design.missing:
        print(f"incomplete: {len(design.missing)} modules are not synthesised yet")
    else:
        print(keep(design, args.config, args.docs))


if __name__ == "__main__":
    main()
