"""Rewrites what `verilator -Wall` would warn about in Amaranth's RTLIL and in Yosys' Verilog; the circuit stays the same.

`writer.py` passes the RTLIL through `tidy_rtlil` before Yosys, and the Verilog through `tidy_verilog` after it. They remove names
that nothing reads, widen operands to the width of their operator, move the first values of registers into `initial` statements, and
give every `case` a default. `sim/rtl/lint.vlt` waives the warnings that remain and says why.
"""

import re
from collections import Counter
from functools import partial

PROBED = frozenset({"probe_write", "probe_row", "probe_word", "started", "untouched", "number"})  # by `sim/rtl/testbench_top.py`
_MODULE = re.compile(r"^module .*?^end$\n", re.M | re.S)
_SUM, _COMPARISON, _SHIFT = ("$add", "$sub", "$and", "$or", "$xor"), ("$eq", "$ne", "$lt", "$le", "$gt", "$ge"), ("$shift", "$shr")
_CELL = re.compile(rf"^  cell ({'|'.join(map(re.escape, (*_SUM, *_COMPARISON, *_SHIFT)))}) (\S+)\n((?:    .*\n)*)  end\n", re.M)
_PARAMETER = re.compile(r"^    parameter \\(\w+) (\d+)$", re.M)
_ELEMENT = re.compile(r"(\d+'[01xz]*|[\\$]\S+)(?: \[(\d+)(?::\d+)?\])?")  # a constant, a wire, or a slice of a wire

_VERILOG_MODULE = re.compile(r"^module .*?^endmodule$\n", re.M | re.S)
_IDENTIFIER = re.compile(r"\\\S+|(?<![\w$.'])[A-Za-z_][\w$]*")  # the name of a pin is none of these
_WIRE = re.compile(r"^(?:  \(\* \w+ = .* \*\)\n)*  wire (?:signed )?(?:\[\d+:0\] )?(\\\S+ |\w[\w$]*);\n", re.M)
_PORT = re.compile(r"^  (?:input|output) (?:signed )?(?:\[\d+:0\] )?(\\\S+ |\w[\w$]*);\n", re.M)
_ASSIGN = re.compile(r"^  assign (\\\S+ |\w[\w$]*) = (.*);\n", re.M)  # of a whole wire
_INITIAL = re.compile(r"^  reg ((?:\[\d+:0\] )?)(\\\S+ |\w[\w$]*)( ?= .*;)$", re.M)
_IS_ZERO = re.compile(r"^(  assign .* = )! (?=[^;]*;$)", re.M)


def tidy_rtlil(text: str) -> str:
    """Amaranth's RTLIL, with every operand as wide as its operator."""
    return _MODULE.sub(lambda module: _widened(module[0]), text)


def tidy_verilog(text: str) -> str:
    """Yosys' Verilog without unread names, with `initial` statements, a default in every `case`, and `~|` instead of `!`."""
    text = _INITIAL.sub(lambda found: f"  reg {found[1]}{found[2]};\n  initial {found[2]}{found[3]}", text)
    text = _with_defaults(_IS_ZERO.sub(r"\1~| ", text))
    return _VERILOG_MODULE.sub(lambda module: _pruned(module[0]), text)


def _pruned(module: str) -> str:
    """The module without wires that nothing reads: members of a structure, ends of connections, results not needed here."""
    ports = {name.strip() for name in _PORT.findall(module)}
    wires = {name.strip() for name in _WIRE.findall(module)} - ports - PROBED
    uses = Counter(_IDENTIFIER.findall(module))  # an unread wire occurs twice: in its declaration and in its assignment
    sources = {name.strip(): _IDENTIFIER.findall(source) for name, source in _ASSIGN.findall(module)}
    pending = [name for name in wires if uses[name] <= 1 + (name in sources)]
    gone = set()
    while pending:
        name = pending.pop()
        gone.add(name)
        for source in sources.get(name, ()):
            uses[source] -= 1
            if source in wires and uses[source] == 1 + (source in sources):
                pending.append(source)
    for lines in (_ASSIGN, _WIRE):
        module = lines.sub(lambda found: "" if found[1].strip() in gone else found[0], module)
    return module


def _widened(module: str) -> str:
    widths = {name: int(width) for width, name in re.findall(r"^  wire width (\d+) .*?(\S+)$", module, re.M)}
    return _CELL.sub(partial(_widened_cell, widths), module)


def _widened_cell(widths: dict[str, int], found: re.Match[str]) -> str:
    """A cell whose operands are as wide as its sum or comparison. The result of a shift becomes as wide as its operand."""
    kind, name, body = found.groups()
    parameters = {key: int(value) for key, value in _PARAMETER.findall(body)}
    a, b, y = parameters["A_WIDTH"], parameters["B_WIDTH"], parameters["Y_WIDTH"]
    if kind in _SHIFT:
        if y >= a:
            return found[0]
        unused = rf"\unused_above_{name[1:]}"
        body = body.replace(rf"parameter \Y_WIDTH {y}", rf"parameter \Y_WIDTH {a}")
        body = re.sub(r"^    connect \\Y (.*)$", lambda port: rf"    connect \Y {{ {unused} {port[1]} }}", body, flags=re.M)
        return f"  wire width {a - y} {unused}\n\n  cell {kind} {name}\n{body}  end\n"
    needed = max(a, b) if kind in _COMPARISON else y
    signed = bool(parameters["A_SIGNED"] and parameters["B_SIGNED"])
    for port, width in (("A", a), ("B", b)):
        if width < needed:
            body = body.replace(rf"parameter \{port}_WIDTH {width}", rf"parameter \{port}_WIDTH {needed}")
            body = re.sub(
                rf"^    connect \\{port} (.*)$",
                lambda text, width=width: text[0][: -len(text[1])] + _extended(text[1], needed - width, signed, widths),
                body,
                flags=re.M,
            )
    return f"  cell {kind} {name}\n{body}  end\n"


def _extended(operand: str, more: int, signed: bool, widths: dict[str, int]) -> str:
    """An operand extended by `more` bits."""
    inside = operand[2:-2] if operand.startswith("{") else operand
    first = _ELEMENT.match(inside)
    top, at = first.groups() if first else ("", None)
    if not signed or not top:  # an operand of no bits is 0
        above = f"{more}'{'0' * more}"
    elif top[0].isdigit():
        above = f"{more}'{top.partition(chr(39))[2][0] * more}"
    else:
        above = " ".join([f"{top} [{widths[top] - 1 if at is None else at}]"] * more)
    return f"{{ {above} {inside} }}"


def _with_defaults(text: str) -> str:
    lines, open_cases = [], []
    for line in text.splitlines():
        word = line.lstrip()
        if word.startswith(("casez (", "case (", "casex (")):
            open_cases.append(False)
        elif open_cases and word.startswith("default:"):
            open_cases[-1] = True
        elif word == "endcase" and not open_cases.pop():
            lines.append(f"{line[: -len('endcase')]}  default: ;")
        lines.append(line)
    return "\n".join(lines) + "\n"
