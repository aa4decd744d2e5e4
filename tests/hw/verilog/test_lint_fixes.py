"""The rewriting of RTLIL and Verilog that keeps the linter's findings few. Each rewrite must leave the circuit as it is."""

from cnna.hw.verilog.lint_fixes import tidy_rtlil, tidy_verilog

SUM = r"""module \m
  wire width 3 \a
  wire width 6 \y
  cell $add $1
    parameter \A_SIGNED {signed}
    parameter \B_SIGNED {signed}
    parameter \A_WIDTH 2
    parameter \B_WIDTH 3
    parameter \Y_WIDTH 6
    connect \A {a}
    connect \B 3'110
    connect \Y \y
  end
end
"""
SHIFT = r"""module \m
  cell $shift $7
    parameter \A_SIGNED 0
    parameter \B_SIGNED 0
    parameter \A_WIDTH 4
    parameter \B_WIDTH 2
    parameter \Y_WIDTH 1
    connect \A \a
    connect \B \b
    connect \Y $3
  end
end
"""
VERILOG = r"""module m(a, y, q);
  input a;
  wire a;
  output y;
  wire y;
  output q;
  reg q = 1'h0;
  wire \s.field[0] ;
  (* init = 4'h0 *)
  wire [3:0] unread;
  wire started;
  assign unread = a;
  assign \s.field[0]  = unread;
  assign started = a;
  assign y = ! a;
  always @* begin
    casez (a)
      1'h1:
          casez (y)
            default:
                q = 1'h1;
          endcase
    endcase
  end
endmodule
"""


def test_operands_are_extended_by_their_signs():
    """A negative operand would become a positive one, or an unsigned one negative."""
    signed = tidy_rtlil(SUM.format(signed=1, a=r"\a [2:1]"))
    assert r"connect \A { \a [2] \a [2] \a [2] \a [2] \a [2:1] }" in signed
    assert r"connect \B { 3'111 3'110 }" in signed
    assert signed.count("_WIDTH 6") == 3
    unsigned = tidy_rtlil(SUM.format(signed=0, a=r"\a [2:1]"))
    assert r"connect \A { 4'0000 \a [2:1] }" in unsigned
    assert r"connect \B { 3'000 3'110 }" in unsigned
    assert r"connect \A { \a [2] \a [2] \a [2] \a [2] \a 1'0 }" in tidy_rtlil(SUM.format(signed=1, a=r"{ \a 1'0 }"))


def test_a_picked_bit_leaves_the_others_to_a_name_that_says_so():
    """The bit would not be the lowest one."""
    text = tidy_rtlil(SHIFT)
    assert r"  wire width 3 \unused_above_7" in text
    assert r"connect \Y { \unused_above_7 $3 }" in text
    assert r"parameter \Y_WIDTH 4" in text


def test_verilog_keeps_what_is_read_or_probed():
    """A name that a testbench reads would be gone, a register start at another value, or a case lack or double its default."""
    text = tidy_verilog(VERILOG)
    assert "unread" not in text
    assert "(*" not in text  # an attribute whose wire is gone would stand before a statement, which Yosys refuses
    assert "field" not in text
    assert "assign started = a;" in text
    assert "assign y = ~| a;" in text
    assert "  reg q;\n  initial q = 1'h0;\n" in text
    assert text.count("default:") == 2
