"""`tools/equivalent.py`: what Yosys proves to be equal, and what it must not."""

import json
from itertools import pairwise
from pathlib import Path

import equivalent
import pytest
from equivalent import NotProvenError, bare, digest, keep, linked, prove

CHILD = r"""module \t.child (clk, a, q);
  input clk;
  wire clk;
  input [3:0] a;
  wire [3:0] a;
  output [3:0] q;
  reg [3:0] q;
  initial q = 4'h0;
  always @(posedge clk)
    q <= a;
endmodule

"""
TOP = r"""module t(clk, up, down, y, z);
  input clk;
  wire clk;
  input up;
  wire up;
  input down;
  wire down;
  output [3:0] y;
  wire [3:0] y;
  output z;
  wire z;
  wire [3:0] \$1 ;
  reg [3:0] count;
  initial count = 4'h3;
  assign \$1 = down ? count - 4'h1 : count + 4'h1;
  always @(posedge clk)
    if (up ^ down) count <= \$1 ;
  assign z = count == 4'h0;
  \t.child  one (
    .clk(clk),
    .a(count),
    .q(y)
  );
endmodule
"""
OLD = CHILD + TOP
SUM, FEED = r"down ? count - 4'h1 : count + 4'h1", ".a(count)"
LOGIC = r"count ^ {down ? ~|count[2:0] : &count[2:0], down ? ~|count[1:0] : &count[1:0], down ? ~count[0] : count[0], 1'b1}"


def edited(*changes: tuple[str, str]) -> str:
    text = OLD
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.yosys
@pytest.mark.parametrize(
    "new",
    [
        pytest.param(LOGIC, id="gates for an adder"),
        pytest.param(r"count + (down ? 4'hf : 4'h1)", id="one adder for two"),
        pytest.param(r"up ? count + 4'h1 : count - 4'h1", id="equal only while the register is enabled"),
    ],
)
def test_other_logic_is_proven(new: str) -> None:
    """A change that behaves alike would make hours of measurements stale."""
    assert prove(OLD, edited((SUM, new)), "t") == ["t"]


@pytest.mark.yosys
def test_ports_are_found_in_any_order() -> None:
    """A port that is driven by other statements stands at another place; it connects by its name."""
    moved = edited(("(clk, a, q)", "(q, clk, a)"), (SUM, LOGIC))
    assert prove(OLD, moved, "t") == ["t"]
    with pytest.raises(NotProvenError, match=r"^t: not equal"):
        prove(OLD, moved.replace(".clk(clk),\n    .a(count)", ".clk(clk),\n    .a(~count)"), "t")


@pytest.mark.yosys
@pytest.mark.parametrize(
    "change",
    [
        pytest.param((SUM, LOGIC.replace("&count[2:0]", "&count[1:0]")), id="one count of sixteen goes wrong"),
        pytest.param((FEED, ".a(count ^ 4'h1)"), id="the input of an instance"),
        pytest.param(("z = count == 4'h0", "z = count < 4'h2"), id="an output"),
    ],
)
def test_a_wrong_change_is_caught(change: tuple[str, str]) -> None:
    """Rows would pass for measured with hardware that does something else."""
    with pytest.raises(NotProvenError, match=r"^t: not equal, or not proven: .*proof did fail"):
        prove(OLD, edited(change), "t")


@pytest.mark.yosys
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param([("initial count = 4'h3", "initial count = 4'h2")], r"t: registers differ: count/4#0:0$", id="first value"),
        pytest.param([("@(posedge clk)\n    if", "@(negedge clk)\n    if")], r"t: registers differ: count/4", id="edge"),
        pytest.param([("@(posedge clk)\n    if", "@(posedge up)\n    if")], r"t: registers differ: count/4", id="clock"),
        pytest.param([("@(posedge clk)\n    if", "@(posedge \\$1 [0])\n    if")], r"t: a clock that is no port", id="inner clock"),
        pytest.param([("  input up;\n  wire up", "  input [1:0] up;\n  wire [1:0] up")], r"t: the ports differ$", id="port"),
        pytest.param(
            [(r"\t.child  one", r"\t.child  two"), (SUM, LOGIC)], r"t: the instances differ: one#0, two#0$", id="instance"
        ),
        pytest.param([("q <= a", "q <= ~a")], r"t\.child: not equal, .*proof did fail", id="inside a child"),
        pytest.param(
            [("always @(posedge clk)\n    if (up ^ down) count", "always @*\n    if (up ^ down) count")],
            r"t: a \$dlatch, of which nothing",
            id="latch",
        ),
    ],
)
def test_what_cannot_be_alike_is_refused(changes: list[tuple[str, str]], said: str) -> None:
    """Registers and instances are compared before anything is proven of them: a proof about others would be worth nothing."""
    with pytest.raises(NotProvenError, match=said):
        prove(OLD, edited(*changes), "t")


@pytest.mark.yosys
def test_a_register_that_moves_is_refused() -> None:
    """The proof is for one clock: it cannot follow a register through logic."""
    moved = edited(("  reg [3:0] count;", "  reg [3:0] count;\n  reg late;"), ("z = count == 4'h0", "z = late"))
    moved = moved.replace("if (up ^ down) count <=", "late <= count == 4'h0;\n  always @(posedge clk)\n    if (up ^ down) count <=")
    with pytest.raises(NotProvenError, match=r"t: registers differ: late/1#0:0$"):
        prove(OLD, moved, "t")


HELD = (r"q <= a;", r"if (keep) q <= a;")
GATED = CHILD.replace("(clk, a, q)", "(clk, keep, a, q)").replace(
    "  input [3:0] a;", "  input keep;\n  wire keep;\n  input [3:0] a;"
)
WITH_GATE = GATED + TOP.replace(".clk(clk),", ".clk(clk),\n    .keep(up),")


@pytest.mark.yosys
def test_a_proof_under_an_assumption_holds_for_it_alone() -> None:
    """A change that acts only where no measured run has been would make them all stale; or one that acts elsewhere would pass."""
    new = WITH_GATE.replace(*HELD)
    assert prove(WITH_GATE, new, "t", ["t.child.keep=1"]) == ["t.child"]
    for others in ([], ["t.child.keep=0"]):
        with pytest.raises(NotProvenError, match=r"^t\.child: not equal, .*proof did fail"):
            prove(WITH_GATE, new, "t", others)


@pytest.mark.yosys
@pytest.mark.parametrize(
    ("assumed", "said"),
    [
        ("t.child.kept=1", r"^t\.child: no input kept can be 1$"),
        ("t.child.q=1", r"^t\.child: no input q can be 1$"),
        ("t.child.keep=2", r"^t\.child: no input keep can be 2$"),
        ("t.up=1", r"^nothing that differs needs what is assumed of t$"),
        ("t.child.keep", "is no assumption: module.port=value is one"),
    ],
)
def test_an_assumption_that_means_nothing_is_refused(assumed: str, said: str) -> None:
    """A slip in its name would be recorded as if it had been part of the proof."""
    new = WITH_GATE.replace("q <= a;", "q <= a & {4{keep | ~keep}};")
    with pytest.raises(NotProvenError, match=said):
        prove(WITH_GATE, new, "t", [assumed])


NAMELESS = r"""  reg \$signal ;
  reg \$signal$5 ;
  always @(posedge clk)
    \$signal <= up & down;
  always @(posedge clk)
    \$signal$5 <= up | \$signal ;
  assign z = \$signal$5 ;
"""


@pytest.mark.yosys
def test_registers_without_names_are_found_in_any_order() -> None:
    """A new signal may change the numbers of such registers, and the order of these numbers."""
    old = edited(("  assign z = count == 4'h0;\n", NAMELESS))
    new = old.replace(r"\$signal$5 ", r"\$other ").replace(r"\$signal ", r"\$signal$7 ").replace(r"\$other ", r"\$signal$6 ")
    new = new.replace("up & down", "~(~up | ~down)")
    assert prove(old, new, "t") == ["t"]
    with pytest.raises(NotProvenError, match=r"^t: not equal"):
        prove(old, new.replace("up |", "down |"), "t")


def test_attributes_and_comments_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would make every row stale; but what a simulator reads must count."""
    monkeypatch.setattr(equivalent, "yosys", None)
    same = edited(
        ("  reg [3:0] count;", '  (* srl_style = "srl" *)\n  (* keep = "true", dont_touch = "true" *)\n  reg [3:0] count;')
    )
    same = "// of another day\n" + same.replace("  always", '  (* keep = "true" *)\n  always').replace("<= a;", "<= a; // next")
    assert digest(same) == digest(OLD)
    assert prove(OLD, same, "t") == []
    for directive in ("// verilator lint_off WIDTH", "(* full_case = 32'd1 *)", "/* verilator public */"):
        assert directive in bare(f"{directive}\n{OLD}")


def test_a_proof_is_kept_and_followed(tmp_path: Path) -> None:
    """A row would be stale in spite of a proof, or valid without one."""
    texts = [OLD, edited((SUM, LOGIC)), edited((SUM, r"count + (down ? 4'hf : 4'h1)"))]
    one, two, three = map(digest, texts)
    for old, new in pairwise(texts):
        keep(tmp_path / "e.json", old, new, ["t"])
    table = json.loads((tmp_path / "e.json").read_text())
    assert table == {two: {"equals": one, "proven": ["t"]}, three: {"equals": two, "proven": ["t"]}}
    assert (linked(table, three), linked(table, two), linked(table, one)) == ([two, one], [one], [])
    keep(tmp_path / "e.json", texts[2], texts[0], ["t"])  # back to the first text: no endless way
    assert linked(json.loads((tmp_path / "e.json").read_text()), three) == [two, one]


def test_a_proof_under_an_assumption_counts_where_it_is_true(tmp_path: Path) -> None:
    """A row that was measured while the assumption was false would count as measured with today's Verilog."""
    texts = [OLD, edited((SUM, LOGIC)), edited((SUM, r"count + (down ? 4'hf : 4'h1)"))]
    one, two, three = map(digest, texts)
    keep(tmp_path / "e.json", texts[0], texts[1], ["t"])
    keep(tmp_path / "e.json", texts[1], texts[2], ["t"], ["t.up=0"])
    table = json.loads((tmp_path / "e.json").read_text())
    assert table[three] == {"equals": two, "proven": ["t"], "assumed": ["t.up=0"]}
    assert (linked(table, three), linked(table, three, ["t.up=0"]), linked(table, two)) == ([], [two, one], [one])
