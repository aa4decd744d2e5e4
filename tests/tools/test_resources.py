"""`make resources`: Yosys synthesises a small design, its modules are joined, and the page says what is unknown."""

import os
import re
from pathlib import Path

import pytest
import resources
import synthesis
from joined import join
from netlist import Netlist, Node

from cnna.spec.errors import UserError

CHILD = r"""module \t.child (clk, rst, a, q, both);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [7:0] a;
  wire [7:0] a;
  output [7:0] q;
  output both;
  wire both;
  assign both = a[0] & a[1];
  reg [7:0] q = 8'h00;
  always @(posedge clk)
    if (rst) q <= 8'h00;
    else q <= a;
endmodule

"""
TOP = r"""module t(clk, rst, a, b, y);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [7:0] a;
  wire [7:0] a;
  input [7:0] b;
  wire [7:0] b;
  output y;
  reg y = 1'h0;
  wire [7:0] p;
  wire [7:0] r;
  wire c;
  wire d;
  always @(posedge clk)
    y <= p[0] & r[0] & c & d;
  \t.child  one (
    .clk(clk),
    .rst(rst),
    .a(a),
    .q(p),
    .both(c)
  );
  \t.child  two (
    .clk(clk),
    .rst(rst),
    .a(b),
    .q(r),
    .both(d)
  );
endmodule
"""


@pytest.mark.yosys
def test_a_design_is_counted_and_joined_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances might count once, a path be cut at a border, reset look like a wide net, or the cache never be hit."""
    parts = synthesis.split(CHILD + TOP)
    found = synthesis.synthesise_all(parts, tmp_path, 300, lambda line: None)
    design = resources.gather(parts, found, "t")
    assert resources.taken(design)[1:] == [17, 0, 0]  # 8 flip-flops twice, and one
    assert resources.paths(design)["t"].depth == 2  # one LUT in the child and one behind it
    assert resources.paths(design)["t"].start in ("t.a[0]", "t.a[1]", "t.b[0]", "t.b[1]")
    monkeypatch.setattr(synthesis.subprocess, "run", None)  # all comes from the cache
    assert synthesis.synthesise_all(parts, tmp_path, 300, lambda line: None) == found
    loads = {name: pins for pins, name in join("t", parts, found, 0).loads}
    assert loads["t.a[0]"] == 2  # the flip-flop and the LUT in the child
    assert "t.rst" not in loads
    page = resources.page(design, "tiny")
    assert found[r"t.child"].ltp == 1  # the LUT of `both`, by Yosys' own count
    assert "says the same of 2 of 2 modules" in page
    assert "None." in page
    assert "Incomplete" not in page
    assert "| flip-flops | 17 | 219,264 |" in page
    assert "Output registers" not in page
    assert [resources.limits(config)["LUTs"] for config in ("zcu102", "zcu102x2")] == [
        pytest.approx(164_448),
        pytest.approx(191_856),
    ]
    monkeypatch.setitem(resources.SHARES, "zcu102x2", dict.fromkeys(resources.DEVICE, 16 / 548_160))
    assert "- flip-flops: 17 of at most 16." in resources.page(design, "zcu102x2")


def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    """Another user could put netlists there, which the page would count."""
    parts, before = synthesis.split(CHILD), os.umask(0)
    try:
        synthesis.synthesise_all(parts, tmp_path / "cache", 0, lambda line: None)
    finally:
        os.umask(before)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(UserError, match="other users can write into it"):
        synthesis.synthesise_all(parts, tmp_path / "cache", 0, lambda line: None)


def test_what_is_not_synthesised_is_named(tmp_path: Path) -> None:
    """A sum that silently lacks modules would look like a small design; the DSPs that the text names are known all the same."""
    dsp = TOP.replace("endmodule", "  DSP48E2 #(\n    .PREG(32'd1)\n  ) x (\n    .CLK(clk)\n  );\nendmodule")
    parts = synthesis.split(CHILD + dsp)
    found = synthesis.synthesise_all(parts, tmp_path, 0, lambda line: None)
    page = resources.page(resources.gather(parts, found, "t"), "tiny")
    assert "2 of 2 modules are not synthesised yet" in page
    assert "| DSP48E2 | at least 1 |" in page
    assert "| `t.child` | 2 | not synthesised yet |" in page


def test_equal_modules_have_equal_texts() -> None:
    """If names depended on the rest of the design, every change would mean a new synthesis of each module."""
    other = CHILD.replace("t.child", "t.other").replace("rst", "clear")
    again = synthesis.split(other)
    assert again["t.other"].digest == synthesis.split(CHILD + TOP)["t.child"].digest
    declared = "  input rst;\n  wire rst;\n", "  input [7:0] a;\n  wire [7:0] a;\n"  # Yosys writes them by their names
    assert "".join(declared) in CHILD
    swapped = CHILD.replace("".join(declared), "".join(declared[::-1]))
    assert synthesis.split(swapped)["t.child"].digest == again["t.other"].digest


def test_a_lut_behind_a_block_ram_counts_and_one_before_it_does_not() -> None:
    """A register and multiplexers beside every bank would go unseen, or a harmless gate at a write enable be a shortfall."""
    before = [Node("block", [1], [], [], [], [2]), Node("lut", [], [], [3, 4], [], [1])]
    behind = [Node("raw", [], [], [], [], [2]), Node("lut", [], [], [2, 4], [], [5])]
    assert [resources.luts_behind(Netlist(6, [], nodes, [], {}, {})) for nodes in (before, behind, before + behind)] == [0, 1, 1]


CHAINS = """module t(clk, a, b, c, y);
  input clk, a, b, c;
  output [2:0] y;
  reg a1, a2, b1, b2, c1, c2, c3;
  always @(posedge clk) begin
    a1 <= a;
    a2 <= a1;
    b1 <= b;
    c1 <= c;
    c2 <= c1;
  end
  (* srl_style = "srl" *)
  always @(posedge clk)
    b2 <= b1;
  (* keep = "true" *)
  (* srl_style = "srl_reg" *)
  always @(posedge clk)
    c3 <= c2;
  assign y = {a2, b2, c3};
endmodule
"""


@pytest.mark.yosys
def test_short_chains_become_shift_registers_where_an_attribute_asks(tmp_path: Path) -> None:
    """Yosys does not know SRL_STYLE, so it would count too many flip-flops; or a register that must stay would go."""
    parts = synthesis.split(CHAINS)
    asked = synthesis.synthesise_all(parts, tmp_path, 300, lambda line: None)["t"]
    assert (asked.flipflops, asked.luts) == (3, 2)  # a1, a2 and c3; b1 with b2, and c1 with c2, in a LUT each
    plain = synthesis.split(re.sub(r" .. srl_style.*", "", CHAINS))
    assert plain["t"].digest != parts["t"].digest
    assert synthesis.synthesise_all(plain, tmp_path, 300, lambda line: None)["t"].flipflops == 7
