"""Sharing of equal Verilog modules, and counts of what stands below a module."""

from cnna.hw.verilog.dedup import count_instances, share_modules

LEAF = """module {name}(a, y);
  input a;
  output y;
  DSP48E2 #(
    .AREG(32'd1)
  ) dsp (
    .A(a),
    .P(y)
  );
endmodule
"""
PARENT = """module {name}(a, y);
  input a;
  output y;
  {first} left (
    .a(a)
  );
  {second} right (
    .a(a),
    .y(y)
  );
endmodule
"""
LEAVES = [r"\top.a.left ", r"\top.a.right ", r"\top.b.left ", r"\top.b.right "]


def text() -> str:
    """Two parents with two leaves each; all leaves and all parents are equal."""
    top = PARENT.format(name="top", first=r"\top.a ", second=r"\top.b ")
    parents = [PARENT.format(name=rf"\top.{p} ", first=rf"\top.{p}.left ", second=rf"\top.{p}.right ") for p in "ab"]
    return "\n".join([top, *parents, *(LEAF.format(name=name) for name in LEAVES)])


def test_alike_modules_become_one():
    """Four leaves and two parents must become one each: the parents are equal only once their leaves are the same."""
    shared = share_modules(text(), "top")
    assert shared.count("endmodule") == 3
    assert r"  \top.a  left (" in shared
    assert r"  \top.a  right (" in shared
    assert r"\top.b" not in shared


def test_unlike_modules_stay():
    """A leaf with another parameter would be lost."""
    changed = text().replace("32'd1", "32'd2", 1)
    shared = share_modules(changed, "top")
    assert shared.count("endmodule") == 5
    assert shared.count("32'd2") == 1


def test_every_instance_counts():
    """If a shared module's DSPs counted once, a design could exceed the chip."""
    assert count_instances(text(), "top", "DSP48E2") == 4
    assert count_instances(share_modules(text(), "top"), "top", "DSP48E2") == 4
    assert count_instances(text(), "top", "BUFG") == 0
