"""The report shows what the artifact and the run say, adds up, and refuses figures of another artifact."""

import json
import re
import struct
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex

from cnna.compiler.compile import compile_graph
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.report import report
from cnna.compiler.report.charts import ENGINE_COLOURS, engines
from cnna.compiler.report.picture import drawn, picture
from cnna.compiler.report.table import table
from cnna.compiler.report.trace import dependences, trace
from cnna.sim.rtl.profile import layers
from cnna.spec.config import preset
from cnna.spec.errors import DataError
from cnna.spec.host_time import host_model
from cnna.spec.host_time.end_to_end import end_to_end, gaps
from cnna.spec.program.commands import commands
from cnna.spec.regmap import COUNTED, ENGINES

from ... import detector_models, networks
from ...agreement import artifact_of
from ...host.hand_made import requantised_copy
from ..apart import said_and_apart


@pytest.fixture(scope="module")
def artifact():
    return artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece())


@pytest.fixture
def measured(artifact):
    """A run that took twice what was predicted."""
    layers = [
        {"name": layer["name"], "cycles": 2 * layer["predicted_cycles"], "mac_utilization": 0.25, "stalls": {"token": 3}}
        for layer in artifact.program.manifest["layers"]
    ]
    total = sum(layer["cycles"] for layer in layers)
    return {"config": "tiny", "batch": 2, "device": "rtl", "cycles": total, "layers": layers}


def test_figures_are_those_of_the_manifest(artifact):
    found = report.figures(artifact)
    assert [layer["macs"] for layer in found["layers"]] == [layer["macs"] for layer in artifact.program.manifest["layers"]]
    cycles = max(span.end for span in predicted_spans(artifact.program.program, artifact.config))
    assert found["predicted"]["cycles"] == cycles
    assert found["predicted"]["mac_utilization"] == found["macs"] * 2 / (cycles * artifact.config.macs)
    assert found["measured"] is None
    assert all(layer["cycles"] is None for layer in found["layers"])  # what was not measured is null, never 0
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("case", [3, 4, 7])
def test_predicted_bytes_are_those_that_a_run_counts(case):
    """The program was left out, 9 % of a small network, so that what was measured seemed too much."""
    made = artifact_of(compile_graph(networks.network(case), preset("tiny"), 2).piece())
    counted, found = layers(made.program, []), report.figures(made)
    for kind in ("ddr_read_bytes", "ddr_write_bytes"):
        assert [layer[f"predicted_{kind}"] for layer in found["layers"]] == [layer[kind] for layer in counted]
        assert found["predicted"][kind] == sum(layer[kind] for layer in counted)
    assert 0 <= found["predicted"]["program_bytes"] - len(made.program.program) < 16
    assert f"({found['predicted']['program_bytes']:,} of them the program)" in table(found)


def test_measured_figures_stand_beside(artifact, measured):
    found = report.figures(artifact, measured)
    assert found["measured"]["cycles"] == measured["cycles"]
    assert [layer["cycles"] for layer in found["layers"]] == [layer["cycles"] for layer in measured["layers"]]
    text = table(found)
    assert f"{measured['layers'][0]['cycles']:,}" in text
    assert "measured" not in table(report.figures(artifact))


def test_no_share_of_the_array_for_other_engines(artifact, measured):
    """An older run has such figures, of thousands of per cent, because the layer's clocks are not those that it took."""
    found = report.figures(artifact, measured)
    assert {layer["engine"] for layer in found["layers"]} > {"conv"}
    for layer in found["layers"]:
        shares = {layer["mac_utilization"], layer["predicted_mac_utilization"]}
        assert (shares == {None}) == (layer["engine"] != "conv")


def test_table_has_a_line_for_each_layer(artifact):
    lines = table(report.figures(artifact)).splitlines()
    names = [layer["name"] for layer in artifact.program.manifest["layers"]]
    assert [line.split()[0] for line in lines[-len(names) :]] == names


@pytest.mark.parametrize(
    ("change", "word"),
    [({"config": "zcu102"}, "configuration is zcu102"), ({"batch": 1}, "batch is 1"), ({"layers": []}, "layers are")],
    ids=str,
)
def test_figures_of_another_artifact_are_refused(artifact, measured, change, word):
    with pytest.raises(DataError, match=f"another artifact: their {word}"):
        report.figures(artifact, {**measured, **change})


def test_a_foreign_json_is_refused(artifact):
    with pytest.raises(DataError, match="cnna run --json"):
        report.figures(artifact, {"hello": 1})


@pytest.mark.parametrize("many", [1, 25])
def test_words_of_the_picture_do_not_overlap(artifact, measured, many):
    """Numbers in bars that are too narrow, or ticks of millions of clocks, would be read as other numbers."""
    found = report.figures(artifact, {**measured, "unit_clocks": None})
    found["layers"] = [{**layer, "cycles": layer["cycles"] * 10_000} for layer in found["layers"] * many]
    bars = found["timeline"]["predicted"]
    found["timeline"]["measured"] = [[engine, layer, 1000 * begin, 1000 * end] for engine, layer, begin, end in bars]
    said = said_and_apart(drawn(found))
    assert said.count("1") > 2
    assert {"odd layers", "even layers", "predicted", "measured"} <= {*said}
    assert any(text.endswith(",000,000") for text in said)


@pytest.mark.parametrize("many", [1, 4, 12, 40, 400])
def test_the_picture_of_a_long_network_has_no_empty_quarter(artifact, many):
    """The roofline stood alone at the top of the right half, and nothing below it; no layer may be left out for that."""
    found = report.figures(artifact)
    found["layers"] = [{**layer, "name": f"n{n}", "predicted_cycles": 100 * n} for n, layer in enumerate(found["layers"] * many, 1)]
    figure = drawn(found)
    _, left, *right = figure.axes
    columns = [min(axes.get_position().y0 for axes in column) for column in ([left], right)]
    assert columns[0] == pytest.approx(columns[1], abs=0.02), "a column ends above the other"
    bars = [axes for axes in (left, *right) if "utilisation" in axes.get_xlabel()]
    shown = [int(label.get_text().split()[-1]) for axes in bars for label in axes.get_yticklabels()]
    assert shown == [*range(1, len(found["layers"]) + 1)]
    assert len({axes.get_xlim() for axes in bars}) == 1, "equal bars would be of different lengths"
    assert bars[0].get_xlim()[1] > 100 * len(shown)


def test_picture_and_page_have_the_same_colours(artifact, measured):
    """The weights of one would be taken for the array of the other."""
    axes = drawn(report.figures(artifact, measured)).axes[0]
    rows = [label.get_text().split(",")[0] for label in axes.get_yticklabels()]
    seen = {}
    for bars in axes.collections:
        for path in bars.get_paths():
            seen.setdefault(rows[round(path.vertices[:4, 1].mean())], set()).add(to_hex(bars.get_facecolor()[0]))
    assert seen
    assert seen == {engine: {ENGINE_COLOURS[engine]} for engine in seen}


@pytest.mark.parametrize("with_measured", [False, True])
def test_picture_is_a_whole_png(artifact, measured, tmp_path, with_measured):
    picture(report.figures(artifact, measured if with_measured else None), tmp_path / "r.png")
    raw = (tmp_path / "r.png").read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, pixels = 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at : at + 8])
        pixels += raw[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    assert len(set(zlib.decompress(pixels))) > 20  # something is drawn


def test_trace_has_a_bar_for_each_command_and_none_overlap(artifact, measured):
    """A row of the trace is one engine, which does one thing at a time."""
    events = [event for event in trace(artifact, measured)["traceEvents"] if event["ph"] == "X"]
    assert sum(event["pid"] == 1 for event in events) == len(artifact.program.manifest["commands"])
    assert sum(event["pid"] == 2 for event in events) == len(artifact.program.manifest["layers"])
    for engine in range(5):
        row = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == 1 and e["tid"] == engine)
        assert all(first[1] <= then[0] + 1e-9 for first, then in pairwise(row))
    json.dumps(events, allow_nan=False)


@pytest.fixture
def timed(artifact, measured):
    """A run that was watched: every unit and weight in program order, ten clocks each."""
    units, weights, clock = {engine: [] for engine in COUNTED}, [], 0
    for command in commands(artifact.programs[0].program):
        for _ in range(command.units(artifact.config.chunk_blocks) if command.engine in units else 0):
            clock += 10
            units[command.engine].append(clock)
        if command.engine == "weight":
            weights.append([clock, clock + 9])
            clock += 10
    return {**measured, "programs": [{"cycles": clock, "unit_clocks": units, "weight_clocks": weights}]}


def test_measured_weights_are_a_row_of_trace_page_and_table(artifact, timed):
    """The predicted row of weights would stand alone, as if weights could not be seen to come."""
    bars = {pid: [e for e in trace(artifact, timed)["traceEvents"] if e["pid"] == pid and e["ph"] == "X"] for pid in (1, 2)}
    assert [bar["args"]["command"] for bar in bars[2]] == [bar["args"]["command"] for bar in bars[1]]
    row = [bar for bar in bars[2] if bar["tid"] == ENGINES.index("weight")]
    spans = timed["programs"][0]["weight_clocks"]
    assert [bar["args"]["first clock"] for bar in row] == [first for first, _ in spans]
    assert {bar["args"]["clocks"] for bar in row} == {10}
    found = report.figures(artifact, timed)
    assert engines(found)["encoding"]["y"]["sort"][5:] == [f"{engine}, measured" for engine in ENGINES]
    assert {entry["engine"]: entry["busy_cycles"] for entry in found["engines"]}["weight"] == 10 * len(spans)


def test_a_run_without_them_has_no_row_of_weights(artifact, timed):
    """A run of an earlier version would have an empty row, as if its weights had taken no time."""
    del timed["programs"][0]["weight_clocks"]
    events = trace(artifact, timed)["traceEvents"]
    named = {e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 2}
    assert named == {*COUNTED}
    found = report.figures(artifact, timed)
    assert len(engines(found)["encoding"]["y"]["sort"]) == len(ENGINES) + len(COUNTED)
    assert {entry["engine"]: entry["busy_cycles"] for entry in found["engines"]}["weight"] is None


def test_arrows_lead_from_what_a_command_waits_for(artifact):
    """An arrow to the wrong command would name the wrong cause of a wait."""
    found = list(dependences(artifact))
    played, entries = list(commands(artifact.programs[0].program)), artifact.program.manifest["commands"]
    units = {}
    for command in played:
        units.setdefault(command.engine, []).append((command.number, command.units(artifact.config.chunk_blocks)))
    for first, then in found:
        engine, fields = entries[first]["engine"], vars(played[then].f)
        before = sum(count for number, count in units[engine] if number < first)
        own = dict(units[engine])[first]
        assert before < fields[f"wait_{engine}_count"] <= before + own
    waits = sum(
        bool(vars(command.f)[f"wait_{engine}_enable"] and vars(command.f)[f"wait_{engine}_count"])
        for command in played
        for engine in COUNTED
        if command.engine != "weight"
    )
    assert len(found) == waits > 0


def test_the_trace_counts_bytes_and_draws_arrows(artifact):
    """Perfetto drops an arrow whose end is missing, and a track with names that change."""
    events = trace(artifact)["traceEvents"]
    starts, ends = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "sf")
    assert starts
    assert starts.keys() == ends.keys()
    assert all(start["ts"] <= ends[number]["ts"] for number, start in starts.items())
    tracks: dict[str, list[dict[str, int]]] = {}
    for event in events:
        if event["ph"] == "C":
            tracks.setdefault(event["name"], []).append(event["args"])
    assert len(tracks) == 2
    for track in tracks.values():
        assert {tuple(values) for values in track} == {tuple(track[0])}
        assert sum(sum(values.values()) for values in track) > 0
    words, config = tracks["words in the weight rings"], artifact.config
    assert max(values["array"] for values in words) <= config.ring_words
    assert words[-1] == {"array": 0, "vector": 0}, "what is brought is taken"


def test_the_host_is_on_the_accelerators_line_of_time() -> None:
    """Whoever looks for what a batch waits for would see the accelerator alone, or the host's work before what it needs."""
    artifact = detector_models.made("yolov5").artifact
    plain = replace(artifact, manifest={**artifact.manifest})
    del plain.manifest["detector"]
    for one, names in (
        (artifact, ["packing of the next batch", "host", "decode"]),
        (plain, ["packing of the next batch", "piece 2 on the CPU", "host"]),
    ):
        bars = [event for event in trace(one)["traceEvents"] if event["pid"] == 3 and event["ph"] == "X"]
        assert [bar["name"] for bar in bars] == names
        end = one.predicted_clocks() / one.config.clock_mhz
        assert bars[0]["ts"] == 0
        assert bars[1]["ts"] == pytest.approx(end)
        assert bars[2]["ts"] == pytest.approx(end + bars[1]["dur"])


def test_runs_of_a_stream_are_on_one_line_of_time(artifact):
    """Gaps that nobody sees would be taken for the accelerator's own time; a run that begins too early would hide them."""
    events = trace(artifact)["traceEvents"]
    row = [event for event in events if event["pid"] == 4 and event["ph"] == "X" and event["tid"] == 0]
    assert [bar["name"] for bar in row] == [name for number in range(1, 5) for name in (f"batch {number}", "gap")]
    assert all(then["ts"] == pytest.approx(bar["ts"] + bar["dur"]) for bar, then in pairwise(row))
    manifest, clock = artifact.manifest, artifact.config.clock_mhz
    found = end_to_end(manifest["pieces"], artifact.predicted_clocks(), clock, manifest["batch"])
    assert row[2]["ts"] == pytest.approx(found.in_stream().middle * 1e6)
    assert row[1]["dur"] == pytest.approx(found.gap().middle * 1e6)


def test_a_long_run_waits_for_the_queue_alone():
    """A host that is quicker than the accelerator would seem to hold it up."""
    pieces = requantised_copy(1).manifest["pieces"]
    found = end_to_end(pieces, 3e9, 300, 1)
    assert found.gap().slow == pytest.approx(host_model.LAUNCH_SECONDS.slow)
    assert gaps(found.figures()) == "0.107 to 0.12 us"
    assert end_to_end(pieces, 3, 300, 1).gap().slow > 100 * host_model.LAUNCH_SECONDS.slow


def test_a_report_says_stages() -> None:
    """A detector's user would see the speed of a decode that a Detector does not run."""
    artifact = detector_models.made("yolov5").artifact
    said = table(report.figures(artifact))
    assert re.search(r"a batch alone by stage \(modelled, natively\): packing .* ms, accelerator .* ms, host .* ms, CPU ", said)
    boxes = r"with cnna.Detector, to boxes .* images a second from picture to answer: .* stage: .*, decode [\d.]+ to [\d.]+ ms"
    assert re.search(boxes, said)
