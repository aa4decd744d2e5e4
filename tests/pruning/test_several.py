"""The few best choices of widths: which are solved, and which of them is taken."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.pruning import search
from cnna.pruning.fit import Fit
from cnna.pruning.prune import Goal, prepared, prune
from cnna.pruning.seen import HELD_OUT, Count
from cnna.spec.config import preset
from tests.pruning.small import CONV, NODES, model, sample, spare_weights

SAMPLES = 24
SHARE = 0.2  # of the clocks: more than one family can save as much


@pytest.fixture(scope="module")
def fit() -> Fit:
    network = model(NODES, spare_weights(), "float[N,3,12,12] x", "float[N,6] y")
    samples = sample((SAMPLES, 3, 12, 12))
    return prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(SAMPLES)], lambda *_: None)


def _search(fit: Fit, memory: search.Memory | None = None) -> search.Search:
    return search.Search(fit, preset("tiny"), memory or search.Memory(), lambda *_: None)


def test_choices_differ_and_all_have_few_enough_clocks(fit: Fit) -> None:
    """The same network would be solved twice, or one that saves too little taken for its small damage."""
    seen = _search(fit)
    target = int((1 - SHARE) * seen.clocks({}).total)
    found = seen.several(target, 3)
    assert len(found) > 1
    assert len({tuple(sorted(widths.items())) for widths in found}) == len(found)
    assert all(seen.clocks(widths).total <= target for widths in found)
    totals = [sum(seen.damage(*one) for one in widths.items()) for widths in found]
    assert totals == sorted(totals)
    assert totals[0] <= sum(seen.damage(*one) for one in seen.run(target).items())
    assert seen.several(target, 1) == found[:1]


def test_where_nothing_is_enough_there_is_one_choice(fit: Fit) -> None:
    """Networks that all save too little would be solved one after another, for nothing."""
    seen = _search(fit)
    assert len(seen.several(1, 5)) == 1


def test_the_nearest_of_the_solved_networks_is_taken(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damages of families would be added up, though all together do more or less than that."""
    seen = _search(fit)
    several = seen.several(int((1 - SHARE) * seen.clocks({}).total), 8)
    judged = []

    def together(self: search.Search, widths: Mapping[str, int], model: onnx.ModelProto) -> float:
        judged.append(dict(widths))
        return float(several[-1] != widths)

    monkeypatch.setattr(search.Search, "together", together)
    made = prune(fit, Goal(preset("tiny"), SHARE), search.Memory(), lambda *_: None)
    assert judged == several
    left = {group.nodes[0]: group.channels_left for group in made.groups if group.channels_left < group.channels}
    assert left == several[-1]


def test_all_widths_are_judged_on_what_nothing_was_solved_from(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights fitted to few samples would look best on these."""
    assert [*map(id, fit.held)] == [*map(id, fit.feeds[::HELD_OUT])]
    asked: list[np.ndarray] = []

    def distance(theirs: np.ndarray, ours: np.ndarray) -> float:
        asked.append(theirs)
        return 0.5

    monkeypatch.setattr(search, "distance", distance)
    memory = search.Memory()
    seen = _search(fit, memory)
    assert seen.together({}, fit.found.network.proto) == 0.5
    assert [len(answers) for answers in asked] == [SAMPLES // HELD_OUT]
    assert _search(fit, memory).together({}, fit.found.network.proto) == 0.5
    assert len(asked) == 1, "what was judged is kept"


def test_what_was_judged_is_not_solved_again(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C the longest part of the work would be done once more; or the network would be another one than in one go."""
    real, solved = Fit.pruned, []

    def pruned(self: Fit, removed: Collection[int], count: Count) -> tuple[onnx.ModelProto, dict[int, float]]:
        solved.append(tuple(removed))
        return real(self, removed, count)

    monkeypatch.setattr(Fit, "pruned", pruned)
    memory, goal = search.Memory(), Goal(preset("tiny"), SHARE)
    once = prune(fit, goal, memory, lambda *_: None)
    before = len(solved)
    again = prune(fit, goal, memory, lambda *_: None)
    assert before > 1
    assert len(solved) == before + 1
    assert once.model is not None
    assert again.model == once.model
    assert again.figures() == once.figures()


def test_samples_that_are_all_the_same_are_refused() -> None:
    """All channels would be found to be spare, and nearly all of them would go."""
    network = model(NODES, spare_weights(), "float[N,3,12,12] x", "float[N,6] y")
    with pytest.raises(cnna.DataError, match="net: all 9 samples are the same one"):
        prepared(network, "net", [{"x": np.zeros((1, 3, 12, 12), np.float32)}] * 9, lambda *_: None)


def test_answers_that_are_no_numbers_are_refused() -> None:
    """No choice is nearer than another to NaN: the network would be cut anyhow."""
    samples = sample((9, 3, 12, 12))
    read = NODES.replace("y = Gemm", "n = Neg (f) l = Log (n) y = Gemm").replace("(f, wf", "(l, wf")
    answered = NODES.replace("y = Gemm", "m = Gemm") + " n = Abs (m) o = Neg (n) y = Log (o)"
    for nodes, said in ((answered, "answers some samples with NaN or infinity"), (read, "'y' reads .* that are NaN, or whose")):
        network = model(nodes, spare_weights(), "float[N,3,12,12] x", "float[N,6] y")
        with pytest.raises(cnna.DataError, match=said):
            cnna.prune(network, samples, "tiny", fewer_clocks=0.25)


def test_a_deconvolution_is_a_layer_of_the_report() -> None:
    """A user would read that no layer got narrower, and that nearly half of the clocks are saved."""
    nodes = f"a = Conv {CONV} (x, w1, b1) r = Relu (a) t = ConvTranspose <strides = [2, 2]> (r, wt, b2) y = Conv {CONV} (t, w3)"
    weights = {"w1": (16, 3, 3, 3), "b1": (16,), "wt": (16, 16, 2, 2), "b2": (16,), "w3": (4, 16, 3, 3)}
    network = model(nodes, weights, "float[N,3,12,12] x", "float[N,4,24,24] y")
    found = cnna.prune(network, sample((9, 3, 12, 12)), "tiny", fewer_clocks=0.25)
    rows = {layer["name"]: layer for layer in found.layers}
    assert rows["t"]["op"] == "ConvTranspose"
    assert (rows["t"]["channels"], rows["t"]["channels_left"]) == (16, rows["y"]["inputs_left"]) != (16, 16)
    assert rows["t"]["clocks_left"] < rows["t"]["clocks"]
    assert "of 3 layers, 1 got narrower" in str(found)


def test_a_network_without_channels_that_may_go_is_told_so() -> None:
    """A user of one-dimensional convolutions would look for a configuration at which something can be saved."""
    network = model("y = Conv (x, w1)", {"w1": (16, 3, 3)}, "float[N,3,40] x", "float[N,16,38] y")
    found = cnna.prune(network, sample((9, 3, 40)), "tiny", fewer_clocks=0.25)
    assert "it has no layer whose channels may go: those of two-dimensional convolutions" in str(found)


def test_a_batch_of_several_is_refused_with_what_to_do() -> None:
    """The line would be onnxruntime's own, about dimensions for indices."""
    network = model(NODES, spare_weights(), "float[4,3,12,12] x", "float[4,6] y")
    with pytest.raises(
        cnna.ModelError, match=r"the model: input 'x' has a batch of 4: .* export it with a batch of 1, or an open one"
    ):
        cnna.prune(network, sample((9, 3, 12, 12)), "tiny", fewer_clocks=0.25)


def test_an_operator_that_nobody_runs_names_the_file(tmp_path: Path) -> None:
    """The line would begin with the name of the graph, which says nothing: exporters call it `main_graph`, say."""
    network = model("a = Conv (x, w1) y = Relu (a)", {"w1": (16, 3, 1, 1)}, "float[N,3,12,12] x", "float[N,16,12,12] y")
    network.graph.node[1].domain = "com.example"
    network.opset_import.add(domain="com.example", version=1)
    onnx.save(network, tmp_path / "m.onnx")
    with pytest.raises(cnna.ModelError, match=r"m.onnx: .*com.example:Relu"):
        cnna.prune(tmp_path / "m.onnx", sample((9, 3, 12, 12)), "tiny", fewer_clocks=0.25)


def test_an_error_at_the_end_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk a user would find a file of a strange name, and start from the beginning."""

    def full(*_: object) -> None:
        raise cnna.UserError("p.onnx: no space left on device")

    onnx.save(model(NODES, spare_weights(), "float[N,3,12,12] x", "float[N,6] y"), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", sample((9, 3, 12, 12)))
    files = [str(tmp_path / name) for name in ("m.onnx", "x.npy", "p.onnx")]
    command = ["prune", files[0], "--calib", files[1], "--config", "tiny", "--fewer-clocks", "25%", "-o", files[2]]
    with monkeypatch.context() as patch:
        patch.setattr("cnna.jobs.prune.Pruned.save", full)
        assert main(command) == 2
    assert f"{files[2]}.journal keeps what was measured; the same command goes on from it" in capsys.readouterr().err
    assert main([*command, "--test", str(tmp_path / "none.npy")]) == 2
    assert "keeps what was measured" not in capsys.readouterr().err, "nothing was, this time"
    assert main(command) == 0
    assert not Path(f"{files[2]}.journal").exists()


def test_the_page_says_which_network_the_errors_are_of() -> None:
    """Errors of before the training would be read as those of the network that was written."""
    network = model(NODES, spare_weights(), "float[N,3,12,12] x", "float[N,6] y")
    found = cnna.prune(network, sample((9, 3, 12, 12)), "tiny", fewer_clocks=0.25)
    said = "before the network was fine-tuned"
    assert said not in found.page()
    assert said in replace(found, epochs=3).page()
