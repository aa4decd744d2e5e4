"""`tools/additions.py`: what a module may have more, and what must not be proven."""

import pytest
from additions import NEVER_QUEUED, QUEUE, Rule, prove
from equivalent import NotProvenError

from cnna.hw.control.run_queue import RunQueue

OLD = r"""module t(clk, up, y, told);
  input clk;
  wire clk;
  input up;
  wire up;
  output [3:0] y;
  wire [3:0] y;
  output told;
  reg told;
  initial told = 1'h0;
  reg [3:0] count;
  initial count = 4'h3;
  always @(posedge clk)
    if (up) count <= count + 4'h1;
  always @(posedge clk)
    told <= up;
  assign y = count;
endmodule
"""
NEW = r"""module \t.more (clk, on, ask, q);
  input clk;
  wire clk;
  input on;
  wire on;
  input ask;
  wire ask;
  output q;
  reg q;
  initial q = 1'h0;
  always @(posedge clk)
    q <= ask & on;
endmodule

module t(clk, up, go, y, told);
  input clk;
  wire clk;
  input up;
  wire up;
  input go;
  wire go;
  output [3:0] y;
  wire [3:0] y;
  output told;
  reg told;
  initial told = 1'h0;
  wire q;
  reg asks;
  initial asks = 1'h0;
  reg [3:0] count;
  initial count = 4'h3;
  reg [3:0] shown;
  initial shown = 4'h3;
  always @(posedge clk)
    if (up) count <= count + 4'h1;
  always @(posedge clk)
    if (q) shown <= 4'h0;
    else if (up) shown <= count + 4'h1;
  always @(posedge clk)
    told <= ~up;
  always @(posedge clk)
    asks <= go;
  assign y = shown;
  \t.more  more (
    .clk(clk),
    .on(up),
    .ask(asks),
    .q(q)
  );
endmodule
"""
RULES = {
    "t": Rule({"more.q": 0, "more.ask": 0}, {"asks": 0}, {"shown": "count"}, ("told",)),
    "t.more": Rule({"ask": 0, "q": 0}),
}


def proven(*changes, **others):
    text = NEW
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    rules = {**RULES, "t": Rule(**{**vars(RULES["t"]), **others})}
    return prove(OLD, text, rules, top="t")


def test_constants_twins_and_what_is_apart_are_proven():
    """Rows would be measured again for hours although nothing in them can have changed."""
    assert proven() == ["t", "t.more"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q <= ask & on", "q <= ask | on"),  # a constant that does not stay
        ("reg q;\n  initial q = 1'h0", "reg q;\n  initial q = 1'h1"),  # or does not begin
        ("reg [3:0] shown;\n  initial shown = 4'h3", "reg [3:0] shown;\n  initial shown = 4'h2"),  # twins that begin apart
        ("shown <= count + 4'h1", "shown <= shown + 4'h2"),  # or do not stay twins
        (".ask(asks)", ".ask(up)"),  # a pin that is no constant
        ("if (up) count <=", "if (up & ~told) count <="),  # something depends on what is apart
        ("if (up) count <=", "if (up ^ go) count <="),  # or on what only the new one has
        ("    if (up) count <= count + 4'h1", "    if (up) count <= count - 4'h1"),  # what both have differs
    ],
)
def test_what_differs_is_not_proven(old, new):
    """Measurements of a machine that is another one would count."""
    with pytest.raises(NotProvenError):
        proven((old, new))


@pytest.mark.parametrize("missing", ["assumed", "twins", "constants", "apart"])
def test_without_a_rule_nothing_is_proven(missing):
    """A rule would be there for nothing, or the proof would not need what it says."""
    with pytest.raises(NotProvenError):
        proven(**{missing: () if missing == "apart" else {}})


def test_a_rule_for_nothing_is_refused():
    """A name that has changed would leave its rule behind, and with it what was meant to be proven."""
    with pytest.raises(NotProvenError, match="there is no gone"):
        proven(constants={**RULES["t"].constants, "gone": 0})
    with pytest.raises(NotProvenError, match="there is no module other"):
        prove(OLD, NEW, {**RULES, "other": Rule()}, top="t")


@pytest.mark.parametrize(
    ("module", "rule", "message"),
    [
        ("t.more", Rule({"ask": 0}), "more.q is taken to be 0"),  # nobody proves what it gives
        ("t.more", Rule({"ask": 0, "q": 0, "on": 0}), "more.on is taken to be 0"),  # or what it takes
        ("t.more", Rule({"ask": 1, "q": 0}), "more.ask is taken to be 1"),
        ("t.more", Rule({"ask": 0, "q": 0}, apart=("q",)), "more.q is apart"),  # what takes it would seem to be equal
        ("t", Rule({"more.q": 0, "more.ask": 0}, {"asks": 0}, {"shown": "count"}, ("told", "more.on")), "more.on is apart"),
        ("t", Rule({"more.q": 0, "more.ask": 0, "up": 1}, {"asks": 0}, {"shown": "count"}, ("told",)), "up is constant"),
    ],
)
def test_rules_of_two_modules_that_do_not_fit_are_refused(module, rule, message):
    """Each proof would rely on the other one for what neither of them has proven."""
    with pytest.raises(NotProvenError, match=message):
        prove(OLD, NEW, {**RULES, module: rule}, top="t")


def test_what_the_queue_assumes_is_what_the_record_says():
    """A row would count although nobody has looked whether what its proof assumes was true in its run."""
    assert QUEUE["cnna_control_reg_file"].assumed.keys() == {text.split(".")[-1].split("=")[0] for text in NEVER_QUEUED}
    assert [module for module, rule in QUEUE.items() if rule.assumed] == ["cnna_control_reg_file"]


def test_rules_of_the_queue_name_its_ports():
    """A port that gets another name would be left out of the proof."""
    ports = set(RunQueue.__annotations__)
    assert {name.removeprefix("queue.") for name in QUEUE["cnna_control_reg_file"].constants if name.startswith("queue.")} <= ports
