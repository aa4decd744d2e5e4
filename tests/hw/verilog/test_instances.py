"""Counts of what stands below a module."""

from cnna.hw.verilog.instances import count_instances

SHARED = """module leaf(a, y);
  input a;
  output y;
  DSP48E2 #(
    .AREG(32'd1)
  ) dsp (
    .A(a),
    .P(y)
  );
endmodule

module pair(a, y);
  input a;
  output y;
  leaf left (
    .a(a)
  );
  leaf right (
    .a(a),
    .y(y)
  );
endmodule

module top(a, y);
  input a;
  output y;
  pair first (
    .a(a)
  );
  pair second (
    .a(a),
    .y(y)
  );
endmodule
"""


def test_every_instance_counts():
    """If a shared module's DSPs counted once, a design could exceed the chip."""
    assert count_instances(SHARED, "top", "DSP48E2") == 4
    assert count_instances(SHARED, "pair", "DSP48E2") == 2
    assert count_instances(SHARED, "top", "pair") == 2
    assert count_instances(SHARED, "top", "BUFG") == 0
