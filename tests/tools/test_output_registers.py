"""Flip-flops in the output registers of block RAMs: each condition by itself, and a small design that Yosys synthesises."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import resources
import synthesis
from joined import join
from netlist import Netlist, read
from output_registers import NONE, Latches, Placed, Register, held

HERE = Placed("m", "")
PORT = Latches([1, 2], 9)
PAIR = [Register(1, 11, 9, 5, 6), Register(2, 12, 9, 5, 6)]
LOADS = {1: 1, 2: 1}
FREE = {"DOA_REG": "0", "DOB_REG": "0"}
BLOCK: dict[str, list[Any]] = {"CLKARDCLK": [90], "CLKBWRCLK": [91], "DOUTADOUT": [1, "x"], "DOUTPADOUTP": [2], "DOUTBDOUT": [3]}

RAM = """module ram(clk, w_en, addr, w_data, r0_data);
  input clk, w_en;
  input [8:0] addr;
  input [15:0] w_data;
  (* ram_style = "block" *) reg [15:0] mem [0:511];
  output reg [15:0] r0_data;
  always @(posedge clk)
    if (w_en) mem[addr] <= w_data;
  always @(posedge clk)
    r0_data <= mem[addr];
endmodule

"""
FENCE = r"""(* keep_hierarchy = "yes" *)
module \t.fence (clk, w_en, addr, w_data, q);
  input clk;
  input w_en;
  input [8:0] addr;
  input [15:0] w_data;
  output [15:0] q;
  wire [15:0] q;
  ram inside (
    .clk(clk),
    .w_en(w_en),
    .addr(addr),
    .w_data(w_data),
    .r0_data(q)
  );
endmodule

"""
BEHIND = {  # what stands behind a memory's 16 outputs, and how many flip-flops its output register can hold
    "plain": ("  always @(posedge clk)\n    q_plain <= d_plain;", 16),
    "enable": ("  always @(posedge clk)\n    if (rst) q_enable <= 16'h0000;\n    else if (en) q_enable <= d_enable;", 16),
    "unused": ("  always @(posedge clk)\n    q_unused[7:0] <= d_unused[7:0];", 8),
    "halves": ("  always @(posedge clk)\n    if (en) q_halves[7:0] <= d_halves[7:0];", 0),
    "ones": ("  always @(posedge clk)\n    if (rst) q_ones <= 16'hffff;\n    else q_ones <= d_ones;", 0),
    "other": ("  always @(posedge fast)\n    q_other <= d_other;", 0),
    "read": ("  always @(posedge clk)\n    q_read <= d_read;", 0),
    "logic": ("  always @(posedge clk)\n    q_logic <= d_logic + addr;", 0),
    "kept": ('  (* keep = "true" *)\n  always @(posedge clk)\n    q_kept <= d_kept;', 0),
    "touched": ("  always @(posedge clk)\n    q_touched <= d_touched;", 0),
    "fenced": ("  always @(posedge clk)\n    q_fenced <= d_fenced;", 0),
    "shown": ("  always @(posedge clk)\n    q_shown <= d_shown;", 0),
}
MORE = {
    "halves": "  always @(posedge clk)\n    q_halves[15:8] <= d_halves[15:8];",
    "read": "  always @(posedge clk)\n    also <= ^d_read[1:0];",
}


def text() -> str:
    """A module with a memory for each row of BEHIND."""
    ports = ["clk", "fast", "rst", "en", "w_en", "addr", "w_data", "also", "d_shown", *(f"q_{name}" for name in BEHIND)]
    lines = [f"module t({', '.join(ports)});", *(f"  input {name};" for name in ports[:5])]
    lines += ["  input [8:0] addr;", "  input [15:0] w_data;", "  output also;", "  reg also;", "  output [15:0] d_shown;"]
    for name, (behind, _) in BEHIND.items():
        lines += ['  (* dont_touch = "true" *)'] * (name == "touched")
        lines += [f"  wire [15:0] d_{name};", f"  output [15:0] q_{name};", f"  reg [15:0] q_{name};", behind, MORE.get(name, "")]
        lines += [f"  initial q_{name} = 16'h{'ffff' if name == 'ones' else '0000'};"]
        pins = {"clk": "clk", "w_en": "w_en", "addr": "addr", "w_data": "w_data"}
        pins |= {"q" if name == "fenced" else "r0_data": f"d_{name}"}
        kind = "\\t.fence " if name == "fenced" else "ram"
        lines += [f"  {kind} {name} (", ",\n".join(f"    .{pin}({net})" for pin, net in pins.items()), "  );"]
    return "\n".join([*lines, "endmodule\n"])


@pytest.mark.yosys
def test_a_design_holds_what_its_block_rams_can(tmp_path: Path) -> None:
    """A register that the block RAM cannot hold would be taken off the count, or one that it can hold stay on it."""
    parts = synthesis.split(RAM + FENCE + text())
    assert [name for name, part in parts.items() if part.stays] == ["t.fence"]
    found = synthesis.synthesise_all(parts, tmp_path, 300, lambda line: None)
    assert found["ram"].bram_halves == 1
    assert found["t"].flipflops == 16 * len(BEHIND) - 8 + 1
    assert join("t", parts, found, 0).held == Counter(t=sum(bits for _, bits in BEHIND.values()))
    for name, (_, bits) in BEHIND.items():
        outputs = {net for net, own in found["t"].names.items() if parts["t"].original(own).startswith(f"q_{name}[")}
        others = [one for one in found["t"].registers if one.out not in outputs]
        without = found | {"t": found["t"]._replace(registers=others)}
        assert join("t", parts, found, 0).held.total() - join("t", parts, without, 0).held.total() == bits, name
    design = resources.gather(parts, found, "t")
    total, inside = found["t"].flipflops, sum(bits for _, bits in BEHIND.values())
    assert (resources.taken(design)[1], resources.counted(design)["flip-flops"]) == (total, total - inside)
    page = resources.page(design, "zcu102x2")
    assert "make resources CONFIG=zcu102x2\n" in page
    assert f"| flip-flops as Yosys maps them | {total} | |" in page
    assert f"| flip-flops without those in block RAMs | {total - inside} | 246,672 |" in page
    assert f"| `t` | 1 | {inside} |" in page


@pytest.mark.parametrize(
    ("change", "bits"),
    [
        ({}, 2),
        ({"loads": {1: 2, 2: 1}}, 0),
        ({"loads": {1: 1}, "registers": PAIR[:1]}, 1),
        ({"registers": PAIR[:1]}, 0),
        ({"registers": [PAIR[0], PAIR[1]._replace(enable=7)]}, 0),
        ({"registers": [PAIR[0], PAIR[1]._replace(reset=NONE)]}, 0),
        ({"registers": [PAIR[0], PAIR[1]._replace(clock=8)]}, 0),
        ({"registers": [one._replace(clock=8) for one in PAIR]}, 0),
        ({"keeps": {1}}, 0),
        ({"keeps": {12}}, 0),
        ({"keeps": {5}}, 2),
        ({"place": Placed("n", "")}, 2),
        ({"place": Placed("n", "t.fence.")}, 0),
    ],
)
def test_each_condition(change: dict[str, Any], bits: int) -> None:
    """One condition that is not looked at, and figures are too small."""
    place = change.get("place", HERE)
    registers = [(place, one) for one in change.get("registers", PAIR)]
    found = held([(HERE, PORT)], registers, change.get("loads", LOADS), change.get("keeps", set()))
    assert found == Counter({place.module: bits} if bits else {})


@pytest.mark.parametrize(
    ("parameters", "ports"),
    [
        ({}, [([1, 2], 90), ([3], 91)]),
        ({"READ_WIDTH_A": f"{36:b}"}, [([1, 2, 3], 90)]),
        ({"READ_WIDTH_A": f"{18:b}"}, [([1, 2], 90), ([3], 91)]),
        ({"DOA_REG": "1"}, [([3], 91)]),
        ({"INIT_B": "0x1"}, [([1, 2], 90)]),
        ({"SRVAL_A": "10"}, [([3], 91)]),
        ({"INIT_B": "xx", "SRVAL_B": "0x"}, [([1, 2], 90), ([3], 91)]),
        ({"IS_CLKARDCLK_INVERTED": "1"}, [([3], 91)]),
        ({"READ_WIDTH_A": f"{36:b}", "DOB_REG": "1"}, []),
    ],
)
def test_the_ports_of_a_block(parameters: dict[str, str], ports: list[tuple[list[int], int]]) -> None:
    """Two ports taken for one have one enable too few; a latch that starts at 1 has no register that starts at 0."""
    assert [(list(port.nets), port.clock) for port in one("RAMB18E2", BLOCK, **FREE | parameters).latches] == ports


def one(kind: str, pins: dict[str, list[Any]], **parameters: str) -> Netlist:
    """A module of one cell; a port with all nets makes `read` keep their numbers."""
    directions = {pin: "input" if pin in ("C", "D", "CE", "R", "CLKARDCLK", "CLKBWRCLK") else "output" for pin in pins}
    cell = {"type": kind, "parameters": parameters, "port_directions": directions, "connections": pins}
    return read({"ports": {"p0": {"bits": list(range(99))}}, "cells": {"n0": cell}, "netnames": {}}, "child")
