"""Two runs side by side: clocks of an image, whatever the batches, and no layer is lost."""

import json

import pytest

from cnna.compiler.report import compare
from cnna.spec.errors import DataError

RUN = {"config": "tiny", "device": "rtl", "batch": 2, "cycles": 300}
RUN |= {"layers": [{"name": "a", "cycles": 100}, {"name": "b<", "cycles": 180}, {"name": "old", "cycles": 20}]}
REPORT = {"name": "net", "config": "zcu102", "batch": 1, "predicted": {"cycles": 90}, "measured": None}
REPORT |= {"layers": [{"name": n, "predicted_cycles": c, "cycles": None} for n, c in (("b<", 30), ("a", 55), ("new", 5))]}


def test_clocks_are_those_of_an_image():
    """A batch of two would seem twice as slow, and a predicted report have no clocks."""
    found = compare.compared(compare.side(RUN, "r.json"), compare.side(REPORT, "p.json"))
    assert (found["a"]["clocks"], found["b"]["clocks"], found["ratio"]) == (150, 90, 0.6)
    assert (found["a"]["kind"], found["b"]["kind"]) == ("measured", "predicted")
    layers = {layer["name"]: (layer["a"], layer["b"], layer["difference"]) for layer in found["layers"]}
    assert layers == {"a": (50, 55, 5), "b<": (90, 30, -60), "old": (10, None, None), "new": (None, 5, None)}
    json.dumps(found)


def test_measured_figures_of_a_report_come_before_predicted_ones():
    """The comparison would be of two predictions although both were measured."""
    layers = [{"name": "a", "predicted_cycles": 80, "cycles": 100}]
    assert compare.side({**REPORT, "measured": {"cycles": 120}, "layers": layers}, "r").layers == {"a": 100}


def test_layers_of_one_name_are_added_up():
    """Of two programs that both copy `x`, one would be lost, and the layers would not add up to the whole."""
    layers = [{"name": "x", "cycles": 100}, {"name": "y", "cycles": 20}, {"name": "x", "cycles": 180}]
    assert compare.side({**RUN, "layers": layers}, "r.json").layers == {"x": 140, "y": 10}


def test_layers_that_differ_most_come_first():
    """The layer that somebody looks for would stand among a hundred others; layers of one side explain the rest."""
    lines = compare.text(compare.compared(compare.side(RUN, "r.json"), compare.side(REPORT, "p.json"))).splitlines()
    assert [line.split()[0] for line in lines[4:]] == ["old", "new", "b<", "a"]
    assert lines[0] == "A: r.json: tiny, batch 2, measured"
    assert "B / A 0.600" in lines[2]


def test_the_page_has_each_layer_once():
    """A layer of one side alone would be missing from the table, or a name break the page."""
    page = compare.html(compare.compared(compare.side(RUN, "r.json"), compare.side(REPORT, "p.json")), "")
    assert page.count("<tr data-layer=") == 4
    assert "b&lt;" in page
    assert "b<" not in page


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "p.json: not JSON"),
        (b"[]", "p.json: not what"),
        (b'{"batch": 1}', "p.json: not what"),
        (json.dumps({**RUN, "batch": 0}).encode(), "p.json: not what"),
        (json.dumps({**RUN, "batch": "1"}).encode(), "p.json: not what"),
        (json.dumps({**RUN, "cycles": None, "device": "emulator"}).encode(), "p.json: emulator counts no clocks"),
        (json.dumps({**RUN, "layers": [{"name": "a"}]}).encode(), "p.json: not what"),
        (json.dumps({**RUN, "layers": [{"name": "a", "cycles": "x"}]}).encode(), "p.json: not what"),
        (json.dumps({**REPORT, "predicted": 3}).encode(), "p.json: not what"),
        (b'{"batch": 1, "cycles": "12", "layers": [], "config": "x"}', "p.json: not what"),
        (b'{"batch": 0, "cycles": 12, "layers": [], "config": "x"}', "p.json: not what"),
        (b'{"batch": 1, "cycles": NaN, "layers": [], "config": "x"}', "p.json: not what"),
        (json.dumps({**RUN, "layers": [{"name": 5, "cycles": 1}]}).encode(), "p.json: not what"),
    ],
)
def test_other_files_are_refused(content, words):
    """A user would see a traceback for a file that was mixed up."""
    with pytest.raises(DataError, match=words):
        compare.side(compare.read(content, "p.json"), "p.json")
