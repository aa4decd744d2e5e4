"""The table says what was measured and what was only predicted, and never shows 0 for what is unknown."""

from cnna.compiler.report import compare
from cnna.compiler.report.compare import Side
from cnna.compiler.report.table import cell, columns, printed, stalls_text

LAYER = {"ddr_read_bytes": None, "mac_utilization": 0, "stalls": {"token": 5, "idle": 70, "weights": 6000}}


def test_bytes_are_measured_where_they_can_be():
    """A prediction would stand under the heading of a measurement."""
    measured = {"measured": {}, "layers": [{"ddr_read_bytes": 3}]}
    predicted = {"measured": None, "layers": [{"ddr_read_bytes": None}]}
    assert [heading for heading, key, _ in columns(predicted) if "bytes" in key] == ["DDR read (pred.)", "written (pred.)"]
    assert [heading for heading, key, _ in columns(measured) if "bytes" in key] == ["DDR read", "written"]
    assert not {"cycles", "stalls"} & {key for _, key, _ in columns(predicted)}


def test_what_is_not_known_is_a_dash():
    """A 0 would look like a measurement."""
    assert cell(LAYER, "ddr_read_bytes", "{:,}") == "-"
    assert cell(LAYER, "mac_utilization", "{:.1%}") == "-"


def test_the_greatest_stalls_come_first():
    """Readers look first at the cause that is named first."""
    assert stalls_text(LAYER["stalls"]) == "weights 6,000, idle 70"
    assert (stalls_text({"token": 0}), stalls_text(None)) == ("-", "-")


def test_a_name_stays_in_its_line():
    """A line end in a node's name would break the table, and an escape sequence command the reader's terminal."""
    assert printed("a\nb \x1b[2J \x9b1m é層") == r"a\x0ab \x1b[2J \x9b1m é層"
    one = Side("one", "", "predicted", 1.0, {"a\nb": 5.0})
    assert len(compare.text(compare.compared(one, one)).splitlines()) == 5
