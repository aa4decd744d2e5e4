"""Counts of what stands below a module of the generated Verilog, in which one module may have many instances."""

import re
from functools import cache

_HEAD = re.compile(r"^module (\w+)", re.M)
_INSTANCE = re.compile(r"^  (\w+) (?:#\(|\w+ \($)", re.M)


def count_instances(text: str, top: str, kind: str) -> int:
    """How many instances of module or primitive `kind` there are below `top`; each instance of a shared module counts."""
    inside: dict[str, list[str]] = {}
    for part in re.split(r"(?<=^endmodule\n)", text, flags=re.M):
        if found := _HEAD.search(part):
            inside[found[1]] = _INSTANCE.findall(part)

    @cache
    def below(name: str) -> int:
        return sum(1 if child == kind else below(child) for child in inside.get(name, ()))

    return below(top)
