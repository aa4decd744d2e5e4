"""The figures of a run are means of its batches; nothing is invented, and clocks of units are of that run only."""

from cnna.spec.artifact import Artifact, ProgramPiece
from cnna.spec.config import as_dict, preset
from cnna.spec.manifest import LayerEntry
from cnna.spec.metrics import RunRecords, summary
from cnna.spec.regmap import STALLS

from ..host.hand_made import requantised_copy

COPY = requantised_copy()


def layer(name: str, op: str, engine: str) -> LayerEntry:
    """A layer of 6400 multiply-accumulates a batch."""
    return {**COPY.program.manifest["layers"][0], "name": name, "op": op, "engine": engine, "macs": 6400}


LAYERS = [layer("a", "Conv", "conv")]


def artifact(*programs: list[LayerEntry], config: str = "tiny") -> Artifact:
    """An artifact with a program for each list of layers and a batch of 2."""
    stored = as_dict(preset(config))
    pieces = tuple(ProgramPiece({**COPY.program.manifest, "config": stored, "layers": layers}, b"", b"") for layers in programs)
    return Artifact({**COPY.manifest, "config": stored, "macs": 3200 * len(pieces)}, pieces, b"")


ONE = artifact(LAYERS)
COUNTERS = {f"stall_{cause}": 0 for cause in STALLS}


def run(cycles):
    return {"cycles": cycles, "read_beats0": 10, "read_beats1": 2, "write_beats0": 3, **COUNTERS}


def test_a_figure_is_the_mean_of_the_batches():
    """MACs are of an image and cycles of a batch: mixed up, every speed would be off by the batch."""
    found = summary(ONE, "rtl", [RunRecords([run(100), run(300)])], 1.0, True)
    assert found["cycles"] == 200
    assert found["mac_utilization"] == 3200 * 2 / (200 * 64)
    assert found["fps_at_300mhz"] == 2 * 300e6 / 200
    assert (found["ddr_read_bytes"], found["ddr_write_bytes"]) == (16 * 12, 16 * 3)
    assert found["layers"][0]["macs"] == 3200


def test_two_blocks_a_clock_are_twice_the_multiplies():
    """With depth 2, more than the whole array would seem to be used."""
    found = summary(artifact(LAYERS, config="tinyx2"), "rtl", [RunRecords([run(100)])], 1.0, True)
    assert found["mac_utilization"] == 3200 * 2 / (100 * 128)


def test_programs_of_one_model_add_up():
    """Programs run one after another: a mean over them would make a model of two pieces twice as quick."""
    found = summary(artifact(LAYERS, LAYERS), "rtl", [RunRecords([run(100)]), RunRecords([run(60), run(80)])], 1.0, True)
    assert found["cycles"] == 170
    assert found["mac_utilization"] == 6400 * 2 / (170 * 64)
    assert found["ddr_read_bytes"] == 2 * 16 * 12
    assert [program["cycles"] for program in found["programs"]] == [100, 70]
    assert len(found["layers"]) == 2
    assert summary(artifact(LAYERS, LAYERS), "rtl", [RunRecords([run(100)]), RunRecords()], 1.0, True)["cycles"] is None


def test_what_nothing_measured_is_none():
    """A zero would read as infinitely fast."""
    found = summary(ONE, "emulator", [RunRecords()], 1.0, None)
    measured = ("cycles", "mac_utilization", "fps_at_300mhz", "ddr_read_bytes", "ddr_write_bytes", "fps_end_to_end", "cpu_seconds")
    assert all(found[key] is None for key in measured)
    assert found["programs"] == [{"cycles": None, "unit_clocks": None, "weight_clocks": None}]
    assert set(found["stalls"].values()) == {None}
    assert found["layers"][0]["cycles"] is None


def test_the_array_is_used_by_its_own_layers_alone():
    """A depthwise layer works while the array has clocks of the next one: it would use "44100.0%" of the array."""
    layers = [layer("a", "Conv", "conv"), layer("b", "Depthwise", "vector")]
    profile = [{"cycles": c, "stalls": {}, "ddr_read_bytes": 0, "ddr_write_bytes": 0} for c in (199, 1)]
    found = summary(artifact(layers), "rtl", [RunRecords([run(200)], profile)], 1.0, None)
    assert [layer["mac_utilization"] for layer in found["layers"]] == [6400 / (199 * 64), None]


def test_units_are_dated_one_by_one():
    """An engine may finish two units in a clock, or never work."""
    events = [(5, "load", 1), (7, "conv", 2), (9, "conv", 3)]
    found = summary(ONE, "rtl", [RunRecords([run(10)], None, events)], 1.0, None)
    assert found["programs"][0]["unit_clocks"] == {"load": [5], "conv": [7, 7, 9], "vector": [], "store": []}


def test_units_of_the_run_before_are_forgotten():
    """Counts are cleared a clock after the start; otherwise each unit of a second batch would be finished in clock 1."""
    events = [(1, "load", 1), (1, "conv", 3), (2, "load", 0), (2, "conv", 0), (6, "load", 1), (8, "conv", 1), (9, "conv", 3)]
    found = summary(ONE, "rtl", [RunRecords([run(10)], None, events)], 1.0, None)
    assert found["programs"][0]["unit_clocks"] == {"load": [6], "conv": [8, 9, 9], "vector": [], "store": []}
