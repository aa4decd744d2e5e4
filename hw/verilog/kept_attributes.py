"""Moves the attributes of `attributes.py` to where tools look for them in the Verilog that Yosys writes.

- Tools ignore the attributes of a port. An output with attributes gets a register or net inside that has them and drives it.
- A wire that is only another name of a register or net gets no attributes.
- The `always` that writes a register which must stay has `keep`, for Yosys. That of a register of a chain has `srl_style`:
  `tools/synthesis.py` has Yosys follow it.
- KEEP_HIERARCHY moves from the net that brought it to the net's module.
"""

import re

from cnna.hw.base.attributes import CHAIN, COPY, KEEP, NET

INSIDE = "_inside"  # suffix of the register or net behind an output
_OURS = frozenset({*COPY, *NET, *CHAIN})
_NAME = r"\\\S+ |\w[\w$]*"
_MODULE = re.compile(r"^module .*?^endmodule$\n", re.M | re.S)
_ATTRIBUTE = re.compile(r"^  \(\* (\w+) = .* \*\)$")
_DECLARATION = re.compile(rf"^  (?:output|input|wire|reg) (?:signed )?(?:\[\d+:0\] )?({_NAME});$")
_OUTPUT = re.compile(rf"^  output (?:signed )?(?:\[\d+:0\] )?({_NAME});$", re.M)
_ALWAYS = re.compile(rf"^  always @\(posedge .*\n    ({_NAME})(?: ?\[[\d:]+\])? <= ", re.M)
_ASSIGN = re.compile(rf"^  assign ({_NAME}) = (?!(?:{_NAME}) ?(?:\[[\d:]+\])?;$)", re.M)  # not of just another name
_BORDER, _KEEP = f'(* keep_hierarchy = "{NET["keep_hierarchy"]}" *)', f'  (* keep = "{KEEP["keep"]}" *)'


def place_attributes(text: str) -> str:
    """The Verilog with its attributes in place; `text` comes from `lint_fixes.tidy_verilog`."""
    return _MODULE.sub(lambda module: _kept(module[0]) if "  (* " in module[0] else module[0], text)


def _kept(module: str) -> str:
    registers = {name.strip() for name in _ALWAYS.findall(module)}
    driven = registers | {name.strip() for name in _ASSIGN.findall(module)}
    attributes, lines = _parted(module, driven)
    outputs = {name.strip() for name in _OUTPUT.findall(module)} & attributes.keys()
    made: list[str] = []
    for at, line in enumerate(lines):
        declared = _DECLARATION.match(line)
        name = declared[1].strip() if declared else ""
        always = _ALWAYS.match(f"{line}\n{lines[at + 1]}") if line.startswith("  always @(posedge ") else None
        if declared and name in outputs and not line.startswith("  output"):  # `reg` or `wire`, behind the port's own line
            inside = line[: declared.start(1)] + _inside(name) + line[declared.end(1) :]
            made += [line.replace("  reg ", "  wire ", 1), *_written(attributes[name]), inside]
            made.append(f"  assign {declared[1]} = {_inside(name)};")
        elif name in attributes and name not in outputs:
            made += [*_written(attributes[name]), line]
        elif always:
            made += [*_of_always(attributes.get(always[1].strip(), {})), line]
        else:
            made.append(_driving(line, outputs))
    border = any("keep_hierarchy" in found for found in attributes.values())
    return "\n".join([_BORDER, *made] if border else made) + "\n"


def _parted(module: str, driven: set[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The lines with attributes, by the driven name they belong to and by attribute, and the lines that remain."""
    attributes: dict[str, dict[str, str]] = {}
    lines: list[str] = []
    waiting: dict[str, str] = {}
    for line in module.splitlines():
        if (found := _ATTRIBUTE.match(line)) and found[1] in _OURS:
            waiting[found[1]] = line
            continue
        if waiting and not found:
            declared = _DECLARATION.match(line)
            assert declared, f"attributes before {line}"
            if declared[1].strip() in driven:
                attributes[declared[1].strip()] = waiting
            waiting = {}
        lines.append(line)
    return attributes, lines


def _written(attributes: dict[str, str]) -> list[str]:
    return [line for name, line in attributes.items() if name != "keep_hierarchy"]


def _of_always(attributes: dict[str, str]) -> list[str]:
    """What Yosys needs before the `always` of a register with these attributes."""
    style = attributes.get("srl_style", "")
    stays = "dont_touch" in attributes or f'"{CHAIN["srl_style"]}"' in style
    return [*([_KEEP] if stays else []), *([style] if style else [])]


def _inside(name: str) -> str:
    return f"{name}{INSIDE} " if name.startswith("\\") else f"{name}{INSIDE}"


def _driving(line: str, outputs: set[str]) -> str:
    """The line; if it drives one of these outputs, it drives the register or net behind the output instead."""
    found = re.match(rf"^(  initial |  assign |    )({_NAME})(?=(?: ?\[[\d:]+\])? (?:<=|=) )", line)
    if not found or found[2].strip() not in outputs:
        return line
    return found[1] + _inside(found[2].strip()).strip() + " " + line[found.end() :].lstrip()
