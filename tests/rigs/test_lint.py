"""The quick lint finds all that Verilator's whole one does: both must say the same of a module with a fault of each kind."""

from pathlib import Path

import pytest

from .lint import FLAGS, QUICK, findings

# The rule, and what stands in a module with the inputs `a` and `b`, an output `y`, and the clocks that it reads.
FAULTS = {
    "WIDTHTRUNC": "reg [3:0] r; always @(posedge clk) r <= a; assign y = {4'd0, r} ^ a ^ b;",
    "WIDTHEXPAND": "reg [7:0] r; always @(posedge clk) r <= a[3:0]; assign y = r ^ a ^ b;",
    "WIDTHCONCAT": "assign y = a ^ b ^ {1, 7'd0};",
    "UNDRIVEN": "wire [7:0] w; assign y = a ^ b ^ w;",
    "UNUSEDSIGNAL": "wire [7:0] w = a; assign y = a ^ b;",
    "UNUSEDPARAM": "localparam P = 3; assign y = a ^ b;",
    "IMPLICIT": "assign w = a[0]; assign y = a ^ b ^ {7'd0, w};",
    "PINMISSING": "cnna_part p(.i(a)); assign y = a ^ b; @part",
    "PINCONNECTEMPTY": "cnna_part p(.i(a), .o()); assign y = a ^ b; @part",
    "LATCH": "reg [7:0] r; always @* if (a[0]) r = b; assign y = r ^ a;",
    "COMBDLY": "reg [7:0] r; always @* r <= a ^ b; assign y = r;",
    "BLKSEQ": "reg [7:0] r; always @(posedge clk) r = a ^ b; assign y = r;",
    "MULTIDRIVEN": "reg [7:0] r; always @(posedge clk) r <= a; always @(posedge clk2) r <= b; assign y = r;",
    "UNOPTFLAT": "wire [7:0] w = b[0] ? v : a; wire [7:0] v = b[1] ? w + 1 : b; assign y = w ^ v;",
    "CASEINCOMPLETE": "reg [7:0] r; always @* case (a[1:0]) 2'd0: r = 1; 2'd1: r = 2; endcase assign y = r ^ a ^ b;",
    "CASEOVERLAP": "reg [7:0] r; always @* casez (a[1:0]) 2'b1?: r = 1; 2'b?1: r = 2; default: r = b; endcase assign y = r ^ a;",
    "CASEWITHX": "reg [7:0] r; always @* casez (a[1:0]) 2'b1x: r = 1; default: r = b; endcase assign y = r ^ a;",
    "SELRANGE": "assign y = a ^ b ^ {7'd0, a[9]};",
    "CMPCONST": "assign y = a ^ b ^ {7'd0, a > 8'd255};",
    "UNSIGNED": "assign y = a ^ b ^ {7'd0, a >= 8'd0};",
    "SYNCASYNCNET": "reg [7:0] r, s; always @(posedge clk or posedge a[0]) if (a[0]) r <= 0; else r <= b;"
    " always @(posedge clk) if (a[0]) s <= 0; else s <= b; assign y = r ^ s ^ a;",
    "VARHIDDEN": "reg [7:0] r; always @* begin : inner reg [7:0] a; a = b; r = a; end assign y = r ^ a;",
    "DECLFILENAME": "wire [7:0] w; stranger s(.i(a), .o(w)); assign y = w ^ b; @stranger",
}
MODULES = {
    "@part": "endmodule\nmodule cnna_part(input [7:0] i, output [7:0] o); assign o = i;",
    "@stranger": "endmodule\nmodule stranger(input [7:0] i, output [7:0] o); assign o = ~i;",
}


def text_of(rule: str) -> str:
    """A module with the fault."""
    body = FAULTS[rule]
    for mark, module in MODULES.items():
        body = body.replace(mark, module)
    clocks = "".join(f"input {clock}, " for clock in ("clk", "clk2") if f"edge {clock})" in body or f"edge {clock} " in body)
    return f"module cnna({clocks}input [7:0] a, input [7:0] b, output [7:0] y);\n  {body}\nendmodule\n"


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found_without_the_late_passes(rule: str, tmp_path: Path) -> None:
    """The passes that the lint leaves out would have been those that find a fault."""
    whole = findings(text_of(rule), tmp_path, FLAGS)
    assert f"%Warning-{rule}:" in whole or f"%Error-{rule}:" in whole, whole
    assert findings(text_of(rule), tmp_path, QUICK) == whole
