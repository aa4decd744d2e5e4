"""The charts draw every layer, as long as its clocks."""

import json
import re

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.report import report
from cnna.compiler.report.charts import RAMPS, charts, joined
from cnna.compiler.report.page import Style, page
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of


@pytest.fixture(scope="module")
def found():
    return report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece()))


def test_bars_are_as_long_as_the_clocks(found):
    """The eye compares lengths, so an engine's bars must be in the ratio of its clocks."""
    values = charts(found)["engines"]["data"]["values"]
    for entry in found["engines"]:
        own = [value for value in values if value["engine"] == entry["engine"]]
        assert sum(value["clocks"] for value in own) == entry["predicted_busy_cycles"]
        assert all(value["clocks"] == value["end"] - value["begin"] for value in own)


def test_only_bars_of_one_layer_that_touch_are_joined():
    """Two layers would become one, or an engine would seem to work in the gap between two commands."""
    bars = [["conv", 0, 0, 5], ["load", 0, 2, 9], ["conv", 0, 5, 8], ["conv", 1, 8, 9], ["conv", 1, 10, 12]]
    assert joined(bars) == [["conv", 0, 0, 8], ["load", 0, 2, 9], ["conv", 1, 8, 9], ["conv", 1, 10, 12]]


def test_the_roofline_has_each_layer_with_macs_once(found):
    """The layer that is left out would be the one that somebody looks for."""
    points = charts(found)["roofline"]["layer"][1]["data"]["values"]
    numbers = [number for number, layer in enumerate(found["layers"], 1) if layer["macs"]]
    assert [value["layer"] for value in points] == numbers


def test_a_chosen_layer_has_one_name_in_the_roofline(found):
    """Its predicted and its measured name would lie on each other, and both on the dots behind them."""
    layers = [{**layer, "cycles": 2 * layer["predicted_cycles"], "busy": layer["predicted_busy"]} for layer in found["layers"]]
    both = {**found, "layers": layers, "measured": {**found["predicted"], "array": None}}
    for figures in (found, both):
        dots, halo, names = charts(figures)["roofline"]["layer"][1:]
        numbers = [value["layer"] for value in names["data"]["values"]]
        assert numbers == sorted(set(numbers)) == sorted({value["layer"] for value in dots["data"]["values"]})
        assert halo["data"] == names["data"]
        assert halo["mark"]["style"] == "halo"


def test_what_has_no_figures_has_no_chart(found):
    """An empty frame would stand on the page of a program that moves nothing."""
    assert set(charts(found)) == {"engines", "memory", "ddr", "array", "roofline"}
    assert set(charts({**found, "memory": [], "ddr": []})) == {"engines", "array", "roofline"}
    json.dumps(charts(found))


def test_the_bytes_of_engines_stand_on_each_other(found):
    """Bars that begin at zero would cover each other, and the sum could not be seen."""
    bars = charts(found)["ddr"]["layer"][0]["data"]["values"]
    tops = {}
    for bar in bars:
        assert bar["low"] == pytest.approx(tops.get(bar["begin"], 0.0))
        tops[bar["begin"]] = bar["high"]
    assert max(tops.values()) == pytest.approx(max(sum(entry["bytes"].values()) for entry in found["ddr"]))


def test_legends_have_titles_in_words(found):
    """`kind` or nothing at all would stand over colours that a reader has to guess."""
    text = json.dumps(charts(found))
    titles = {"engine", "for the engine", "what the array does or waits for"}
    assert titles | {"engine of the layer", "figures"} <= set(re.findall(r'"title": "([^"]*)"', text))
    assert '"orient": "top", "title": null' not in text


def test_the_last_number_of_the_clocks_ends_with_the_axis(found):
    """It would be cut off where the axis ends just behind it, as at 10,500 of 10,548."""
    for name in ("engines", "memory"):
        assert charts(found)[name]["encoding"]["x"]["axis"]["labelFlush"] >= 4 * len("1,000,000")  # pixels: half of a long number


@pytest.mark.parametrize("mode", RAMPS)
def test_every_colour_of_a_ramp_can_be_seen(mode):
    """The darkest dots of an exploration would not be seen on a dark page, the lightest not on a light one."""
    values = re.findall(r"--page: (#\w+)", page("", Style("", "", "", ""), ""))
    back = dict(zip(("light", "dark"), (value if len(value) == 7 else "#ffffff" for value in values), strict=True))[mode]
    for colour in RAMPS[mode]:
        light, dark = sorted((luminance(colour), luminance(back)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 2.5, colour


def luminance(colour):
    """The relative luminance that WCAG defines."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
