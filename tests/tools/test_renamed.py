"""`tools/renamed.py`: texts that are one netlist by other names, and texts that are not."""

import pytest
from amaranth.back import rtlil, verilog
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection
from equivalent import NotProvenError
from renamed import compare

from cnna.hw.top import Top
from cnna.hw.verilog.lint_fixes import tidy_rtlil, tidy_verilog
from cnna.hw.verilog.memories import MemoryModules
from cnna.hw.verilog.naming import members
from cnna.hw.verilog.writer import generate, missing_domain
from cnna.spec.config import preset

OLD = r"""module t(clk, a, b, y, z);
  input clk;
  input [3:0] a;
  input b;
  output [3:0] y;
  output z;
  wire [3:0] \$1 ;
  \t.one  one (.clk(clk), .\port$1$0 (a[1:0]), .\port$1$2 (a[3:2]), .q(\$1 ));
  \t.two  two (.clk(clk), .\port$2$0 (\$1 ), .q(y));
  assign z = y[0] ^ b;
endmodule
module \t.one (clk, \port$1$0 , \port$1$2 , q);
  input clk;
  input [1:0] \port$1$0 ;
  input [1:0] \port$1$2 ;
  output [3:0] q;
  reg [3:0] q;
  initial q = 4'h0;
  always @(posedge clk) q <= { \port$1$2 , \port$1$0 } + 4'h3;
endmodule
module \t.two (clk, \port$2$0 , q);
  input clk;
  input [3:0] \port$2$0 ;
  output [3:0] q;
  reg [3:0] q;
  initial q = 4'h0;
  always @(posedge clk) q <= \port$2$0 + 4'h3;
endmodule
"""
NEW = """module t(clk, a, b, y, z);
  input clk;
  input [3:0] a;
  input b;
  output [3:0] y;
  output z;
  wire [3:0] one__q;
  cnna_adder one (.clk(clk), .i(a), .q(one__q));
  cnna_adder two (.clk(clk), .i(one__q), .q(y));
  assign z = y[0] ^ b;
endmodule
module cnna_adder(clk, i, q);
  input clk;
  input [3:0] i;
  output [3:0] q;
  reg [3:0] q;
  reg [3:0] q__next;
  initial q = 4'h0;
  always @* q__next = i + 4'h3;
  always @(posedge clk) q <= q__next;
endmodule
"""
pytestmark = pytest.mark.yosys


def test_other_names_borders_and_shared_modules_are_the_same_netlist():
    """Hours of measurements would be taken anew because of names."""
    assert compare(OLD, NEW, "t") == compare(NEW, OLD, "t") == 5  # two sums, two registers, one gate


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("i + 4'h3", "i + 4'h2", id="constant"),
        pytest.param("i + 4'h3", "i - 4'h3", id="operator"),
        pytest.param("q = 4'h0", "q = 4'h1", id="first value"),
        pytest.param("(posedge clk)", "(negedge clk)", id="edge"),
        pytest.param(".i(a)", ".i({ a[3:1], b })", id="wire"),
        pytest.param(".i(one__q), .q(y)", ".i(a), .q(y)", id="instance"),
        pytest.param("y[0] ^ b", "y[1] ^ b", id="bit"),
        pytest.param("input b;", "input [1:0] b;", id="port"),
    ],
)
def test_a_difference_is_found(right, wrong):
    """A proof that lets a difference pass would keep wrong measurements."""
    assert right in NEW
    with pytest.raises(NotProvenError):
        compare(OLD, NEW.replace(right, wrong, 1), "t")


def test_the_accelerator_is_what_amaranth_writes_itself():
    """Names and shared modules would have changed the circuit."""
    config = preset("tiny")
    top, rams = Top(config), MemoryModules()
    ports = {name: (signal, PortDirection.Input if inward else PortDirection.Output) for signal, name, inward in members(top, "_")}
    text = rtlil.convert(
        Fragment.get(top, rams), name="cnna", platform=rams, ports=ports, emit_src=False, missing_domain=missing_domain
    )
    plain = tidy_verilog(verilog._convert_rtlil_text(tidy_rtlil(text), strip_internal_attrs=True))
    assert compare(f"{plain}\n{rams.text()}", generate(config)) > 10_000
