"""Replaces Verilog modules that are alike by one: 64 memory banks become one module with 64 instances.

Amaranth writes a module for every instance. Instance names stay, and with them the paths that a testbench uses.
"""

import re
from functools import cache, partial

_HEAD = re.compile(r"^module (\\\S+ |\w+)", re.M)
_INSTANCE = re.compile(r"^  (\\\S+ |\w+) (?:#\(|(?:\\\S+ |\w+) \($)", re.M)


def share_modules(text: str, top: str) -> str:
    """The text with every module that equals an earlier one replaced by it, from the leaves up. `top` stays last."""
    names, bodies = [], {}
    for part in re.split(r"(?<=^endmodule\n)", text, flags=re.M):
        if found := _HEAD.search(part):
            name = found[1].strip()
            names.append(name)
            bodies[name] = (part[: found.start()], part[found.end() :])
    merged = True
    while merged:
        first: dict[tuple[str, str], str] = {}
        alias = {name: kept for name in names if (kept := first.setdefault(bodies[name], name)) != name and name != top}
        merged = bool(alias)
        names = [name for name in names if name not in alias]
        if merged:
            use = re.compile(r"^  (\\\S+ |\w+) (\\\S+ |\w+) \($", re.M)
            bodies = {name: (bodies[name][0], use.sub(partial(_renamed, alias), bodies[name][1])) for name in names}
    return "\n".join(f"{bodies[name][0]}module {_written(name)}{bodies[name][1]}" for name in names)


def _renamed(alias: dict[str, str], found: re.Match[str]) -> str:
    module = found[1].strip()
    return f"  {_written(alias[module])} {found[2]} (" if module in alias else found[0]


def _written(name: str) -> str:
    """The name as Verilog writes it: an escaped name ends with a blank."""
    return f"{name} " if name.startswith("\\") else name


def count_instances(text: str, top: str, kind: str) -> int:
    """How many instances of module or primitive `kind` there are below `top`; each instance of a shared module counts."""
    inside: dict[str, list[str]] = {}
    for part in re.split(r"(?<=^endmodule\n)", text, flags=re.M):
        if found := _HEAD.search(part):
            inside[found[1].strip()] = [name.strip() for name in _INSTANCE.findall(part)]

    @cache
    def below(name: str) -> int:
        return sum(1 if child == kind else below(child) for child in inside.get(name, ()))

    return below(top)
