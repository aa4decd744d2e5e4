"""The measured timeline is the program's: who worked when, from the clocks at which units were finished."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.predict.timeline import bars_of, busy, layer_clocks, measured_bars, predicted_bars
from cnna.compiler.report.report import figures
from cnna.spec.config import preset
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import DataError
from cnna.spec.program.commands import commands
from cnna.spec.regmap import COUNTED

from ... import networks
from ...agreement import artifact_of


@pytest.fixture(scope="module")
def artifact():
    return compile_graph(networks.network(3), preset("tiny"), 2).piece()


@pytest.fixture
def finished(artifact):
    """Every command in its turn, with a hundred clocks a unit: what a machine without any overlap would count."""
    clocks, clock = {engine: [] for engine in COUNTED}, 1000
    for command in commands(artifact.program):
        if command.engine in clocks:
            for _ in range(command.units(artifact.config.chunk_blocks)):
                clock += 100
                clocks[command.engine].append(clock)
    return clocks


def test_measured_bars_end_when_their_units_did(artifact, finished):
    """If units were given to another command, a layer would be drawn where it never was."""
    bars = measured_bars(artifact, finished)
    assert {engine: max(bar.end for bar in bars if bar.engine == engine) for engine in busy(bars) if busy(bars)[engine]} == {
        engine: clocks[-1] for engine, clocks in finished.items() if clocks
    }
    owners = [int(artifact.manifest["commands"][bar.command]["layer"]) for bar in bars]
    assert [bar.layer for bar in bars] == owners
    counted = Counter(command.engine for command in commands(artifact.program) if command.engine != "weight")
    assert Counter(bar.engine for bar in bars) == counted


def test_an_engine_does_one_thing_at_a_time(artifact, finished):
    """Overlapping bars would add up to more than all clocks."""
    for bars in (measured_bars(artifact, finished), predicted_bars(artifact)):
        for engine in COUNTED:
            own = sorted((bar.begin, bar.end) for bar in bars if bar.engine == engine)
            assert all(begin <= end for begin, end in own)
            assert all(first[1] <= then[0] for first, then in pairwise(own))


@pytest.mark.parametrize(
    ("change", "words"), [(lambda clocks: clocks[:-1], "the program has more"), (lambda clocks: [*clocks, 9], "more units")]
)
def test_clocks_of_another_program_are_refused(artifact, finished, change, words):
    """Such clocks would be drawn all the same, shifted by a unit."""
    with pytest.raises(DataError, match=words):
        measured_bars(artifact, {**finished, "conv": change(finished["conv"])})


@pytest.fixture
def brought(artifact):
    """The clocks of the first and last beat of every weight command, 50 clocks after each other; every third one ends late."""
    weights = [command for command in commands(artifact.program) if command.engine == "weight"]
    return [[50 * number, 50 * number + (90 if number % 3 == 0 else 30)] for number in range(len(weights))]


def test_measured_weights_have_a_lane(artifact, finished, brought):
    """Weights that were seen to come would be drawn nowhere, or as the command before; ports that are ahead would overlap."""
    bars = measured_bars(artifact, finished, brought)
    assert [bar.command for bar in bars] == [command.number for command in commands(artifact.program)]
    lane = [bar for bar in bars if bar.engine == "weight"]
    assert len(lane) > 3
    assert all(begin <= bar.begin <= bar.end for bar, (begin, _) in zip(lane, brought, strict=True))
    assert all(first.end <= then.begin for first, then in pairwise(lane))
    assert [bar.end for bar in lane[::3]] == [last + 1 for _, last in brought[::3]]
    others = [bar for bar in bars if bar.engine != "weight"]
    assert others == measured_bars(artifact, finished), "what brings weights ahead holds nothing up"


@pytest.mark.parametrize("change", [lambda spans: spans[:-1], lambda spans: [*spans, [9, 9]]], ids=["fewer", "more"])
def test_weights_of_another_program_are_refused(artifact, finished, brought, change):
    """They would be drawn at the wrong layers."""
    with pytest.raises(DataError, match="than the program"):
        measured_bars(artifact, finished, change(brought))


def test_layers_share_all_clocks(artifact):
    """A clock that no layer has, or that two have, would change the total of the table's column."""
    bars = predicted_bars(artifact)
    shares = layer_clocks(bars, len(artifact.manifest["layers"]))
    assert sum(shares) == max(bar.end for bar in bars)
    assert min(shares) >= 0


def test_the_manifest_has_what_is_predicted(artifact):
    """A report would add up to other clocks than the manifest's layers, or draw other bars."""
    manifest = artifact.manifest
    owners = [command["layer"] for command in manifest["commands"]]
    assert predicted_bars(artifact) == bars_of(predicted_spans(artifact.program, artifact.config, PLANNED), owners)
    found = figures(artifact_of(artifact))
    assert found["predicted"]["cycles"] == manifest["predicted"]["cycles"] == artifact.predicted_clocks()
    assert [layer["predicted_cycles"] for layer in found["layers"]] == [layer["predicted_cycles"] for layer in manifest["layers"]]
    slow = figures(artifact_of(artifact), memory=DdrSpeed(2, 120))["predicted"]
    assert slow["ddr"] == {"bytes_per_cycle": 2, "latency_cycles": 120}
    assert found["predicted"]["cycles"] < slow["cycles"] <= artifact.predicted_clocks(DdrSpeed(2, 120))


def test_an_artifact_from_before_that_is_predicted_anew(artifact):
    """Its layers have only the compiler's estimates, which must not stand in a report as predictions."""
    manifest = {name: value for name, value in artifact.manifest.items() if name != "predicted"}
    assert figures(artifact_of(replace(artifact, manifest=manifest))) == figures(artifact_of(artifact))
