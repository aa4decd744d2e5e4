"""Pruning a small network: the clocks that are saved, what is lost, what is kept after Ctrl-C, what is said where nothing is."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.pruning import journal, search
from cnna.pruning.clocks import Clocks
from cnna.pruning.cut import cut
from cnna.pruning.prune import Goal, prepared, prune
from cnna.spec.config import preset
from tests.pruning.small import CONV, NODES, answers, model, sample, spare_weights

SHAPE = (24, 3, 12, 12)


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    return model(NODES, spare_weights(), "float[N,3,12,12] x", "float[N,6] y")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return sample(SHAPE)


def test_spare_channels_go_and_answers_stay(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """The search would take channels that matter, or the layers behind would not make up for those that went."""
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.25)
    assert found.met
    assert found.clocks_left <= 0.75 * found.clocks
    assert found.proto is not None
    assert [layer["channels_left"] for layer in found.layers] == [16, 8, 16, 6]
    (before,), (after,) = answers(network, {"x": samples}), answers(found.proto, {"x": samples})
    assert np.square(after - before).sum() < 1e-6 * np.square(before).sum()
    assert [value.name for value in found.proto.graph.input] == ["x"]
    assert found.proto.graph.input[0].type == network.graph.input[0].type
    assert found.proto.graph.output == network.graph.output
    assert cnna.explain(found.proto, "tiny").predicted_cycles == found.clocks_left


def test_what_is_left_is_solved_anew(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """Layers would keep weights that fit inputs which are no longer there."""
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.45)
    assert found.proto is not None
    apart = sample(SHAPE, seed=9)
    (before,), (after,) = answers(network, {"x": apart}), answers(found.proto, {"x": apart})
    fit = prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(len(samples))], lambda *_: None)
    seen = search.Search(fit, preset("tiny"), search.Memory(), lambda *_: None)
    widths = {group["nodes"][0]: group["channels_left"] for group in found.groups if group["channels_left"] < group["channels"]}
    (plain,) = answers(cut(fit.found, seen.removed(widths)), {"x": apart})
    assert np.square(after - before).sum() < 0.25 * np.square(plain - before).sum()


def test_a_step_that_is_far_more_than_was_asked_is_said(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """A user who asked for little would see points lost for clocks that nobody wanted, and not what to do."""
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.15)
    assert found.saved > 2 * 0.15
    (line,) = [line for line in found.lines if "was asked" in line]
    said = re.fullmatch(
        r"15% was asked: the last step alone, from (\d+) channels of 'c' to (\d+), takes (.*)%, and without it (.*)% would be saved"
        "; --max-loss stops before a step that loses too much",
        line,
    )
    assert said is not None
    fit = prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(len(samples))], lambda *_: None)
    seen = search.Search(fit, preset("tiny"), search.Memory(), lambda *_: None)
    before, after = (1 - seen.clocks({"c": int(said[place])}).total / found.clocks for place in (1, 2))
    assert before < 0.15 <= after
    assert (f"{100 * (after - before):.1f}", f"{100 * before:.1f}") == (said[3], said[4])
    assert "--max-loss" not in str(cnna.prune(network, samples, "tiny", fewer_clocks=0.15, max_loss=100))
    assert "was asked" not in str(cnna.prune(network, samples, "tiny", fewer_clocks=0.4))


def test_a_stated_loss_takes_steps_back(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """A user would get a network that loses more than was stated."""
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.8, max_loss=0, test=sample((40, 3, 12, 12), seed=3))
    assert not found.met
    assert found.said is not None
    assert "would lose more than 0 points" in found.said
    assert found.lost is None or found.lost <= 0


def test_where_every_saving_loses_too_much_all_that_was_tried_is_said(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """A user would not know how far off the stated loss is, or get a network that nothing was removed from."""
    fit = prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(len(samples))], lambda *_: None)
    goal = Goal(preset("tiny"), 0.4, 2.0, lambda model: 3.25)
    found = prune(fit, goal, search.Memory(), lambda *_: None)
    assert found.model is None
    assert not found.met
    assert found.after == found.before
    assert found.said is not None
    assert found.said.startswith("nothing can be saved, since even the least would lose more than 2 points (tried: ")
    assert found.said.count("% of the clocks for 3.25") > 1


def test_a_loss_that_nobody_can_judge_is_refused(
    network: onnx.ModelProto, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user would get a network that was never held to the loss that was stated."""
    monkeypatch.setattr("cnna.jobs.prune._Judging.lost", lambda self, results: None)
    with pytest.raises(cnna.UserError, match="--max-loss: no output can be judged"):
        cnna.prune(network, samples, "tiny", fewer_clocks=0.25, max_loss=1)


def test_nothing_to_save_is_said(samples: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user would get a model that lost channels for nothing, or no reason why there is none."""
    small = {"w1": (8, 3, 3, 3), "w2": (4, 8, 1, 1)}
    onnx.save(
        model(f"y0 = Conv {CONV} (x, w1) y = Softmax <axis = 1> (y0)", small, "float[N,3,12,12] x", "float[N,8,12,12] y"),
        tmp_path / "m.onnx",
    )
    np.save(tmp_path / "x.npy", samples)
    command = ["prune", str(tmp_path / "m.onnx"), "--calib", str(tmp_path / "x.npy"), "--config", "tiny", "--fewer-clocks", "25%"]
    assert main([*command, "-o", str(tmp_path / "p.onnx"), "--json", str(tmp_path / "p.json")]) == 1
    assert not (tmp_path / "p.onnx").exists()
    figures = json.loads((tmp_path / "p.json").read_text())
    assert figures["groups"][0]["why"] == "Softmax (y) needs all of them"
    assert "nothing would be saved" in capsys.readouterr().out


def test_what_was_measured_is_kept_and_gone_on_from(
    network: onnx.ModelProto,
    samples: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After Ctrl-C a user would wait for all of it again, or get another network than in one go."""
    onnx.save(network, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", samples)
    out, kept = tmp_path / "p.onnx", tmp_path / "p.onnx.journal"
    command = ["prune", str(tmp_path / "m.onnx"), "--calib", str(tmp_path / "x.npy"), "--config", "tiny", "--fewer-clocks", "25%"]
    real, calls = search.clocks, []

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "clocks", interrupted)
    assert main([*command, "-o", str(out)]) == 130
    assert f"{kept} keeps what was measured" in capsys.readouterr().err
    assert kept.exists()
    assert main([*command, "--scale", "1/2", "-o", str(out)]) == 2, "damages of other samples were taken"
    assert "is of another model, other samples, another configuration or version" in capsys.readouterr().err
    assert main([*command, "-o", str(out), "--report", str(tmp_path / "p.html")]) == 0
    after = len(calls) - 2
    assert not kept.exists()
    calls.append(1)
    assert main([*command, "-o", str(tmp_path / "whole.onnx")]) == 0
    assert len(calls) - 3 - after == after + 1
    assert out.read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    assert "Channels that go together" in (tmp_path / "p.html").read_text()


def test_a_report_that_cannot_be_written_leaves_the_journal(
    network: onnx.ModelProto,
    samples: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The model would be there, but its report only after all the work again."""
    monkeypatch.chdir(tmp_path)
    onnx.save(network, "m.onnx")
    np.save("x.npy", samples)
    options = ["--config", "tiny", "--fewer-clocks", "30%", "-o", "p.onnx", "--report", "p.html"]
    command = ["prune", "m.onnx", "--calib", "x.npy", *options]

    def full(path: Path, text: str) -> None:
        raise cnna.UserError(f"{path}: no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("cnna.jobs.prune.write_text", full)
        assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        "cnna: p.onnx.journal keeps what was measured; the same command goes on from it",
        "cnna: p.html: no space left on device",
    ]
    assert Path("p.onnx.journal").exists()
    assert main(command) == 0
    assert Path("p.html").exists()
    assert not Path("p.onnx.journal").exists()


def test_what_is_chosen_does_not_depend_on_what_was_kept(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """After Ctrl-C other widths would be expected to do other damage, and the network would be another one than in one go."""
    fit = prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(len(samples))], lambda *_: None)
    memory = search.Memory()
    once = search.Search(fit, preset("tiny"), memory, lambda *_: None)
    whole = once.clocks({}).total
    before = [once.run(int(share * whole)) for share in (0.8, 0.5)]
    assert once.clocks(once.run(int(0.8 * whole))).total <= 0.8 * whole, "what an earlier search compiled is there too"
    expected = [once.expected(family.name, 5) for family in once.families if family.order]
    for family in once.families:
        if family.order:
            memory.damage[f"{family.name} 6"] = 0.5
    again = search.Search(fit, preset("tiny"), memory, lambda *_: None)
    assert [again.run(int(share * whole)) for share in (0.8, 0.5, 0.8)][:2] == before
    assert [again.expected(family.name, 5) for family in again.families if family.order] == expected


def test_what_is_narrower_in_vain_is_given_back(
    network: onnx.ModelProto, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network from which more is asked than it has would lose channels whose removal saves nothing."""
    fit = prepared(network, "net", [{"x": samples[i : i + 1]} for i in range(len(samples))], lambda *_: None)
    seen = search.Search(fit, preset("tiny"), search.Memory(), lambda *_: None)
    first, *others = [family.name for family in seen.families if family.order]
    whole = seen.clocks({})
    assert others

    def only_the_first(widths: Mapping[str, int]) -> Clocks:
        found = Clocks(whole.total - 100 * (first in widths), whole.nodes)
        seen.estimate.learn(widths, found)
        return found

    monkeypatch.setattr(seen, "clocks", only_the_first)
    assert list(seen.run(whole.total // 10)) == [first]


def test_a_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    """Figures of another model would choose the channels."""
    place = tmp_path / "j"
    memory = journal.opened(place, "one")
    memory.damage["a 1"] = 0.5
    memory.changed(memory)
    assert journal.opened(place, "one").damage == {"a 1": 0.5}
    with pytest.raises(cnna.UserError, match="is of another model"):
        journal.opened(place, "other")
    place.write_text("{}")
    with pytest.raises(cnna.UserError, match="is no journal"):
        journal.opened(place, "one")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fewer-clocks", "0"], "'0' is no share"),
        (["--fewer-clocks", "130%"], "'130%' is no share"),
        (["--fewer-clocks", "25%", "--max-loss", "-1"], "'-1' is no number of points"),
        (["--fewer-clocks", "25%", "--report", "p.txt"], "must end in .html or .json"),
    ],
)
def test_a_wrong_option_is_one_line(options: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A mistake would be seen only after the work, or as a traceback."""
    command = ["prune", "m.onnx", "--calib", "x.npz", "-o", str(tmp_path / "p.onnx"), *options]
    try:
        code = main(command)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_journal_that_cannot_be_written_is_said_before_the_work(samples: np.ndarray, tmp_path: Path) -> None:
    """The float network would be run first, for minutes."""
    with pytest.raises(cnna.UserError, match=r"the folder .*none does not exist"):
        cnna.prune("m.onnx", samples, "tiny", fewer_clocks=0.25, journal=tmp_path / "none" / "j")


def test_no_sample_that_differs_is_no_certainty(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """A user would read 0.00 ± 0.00 points of six samples as a promise."""
    right = answers(network, {"x": samples})[0].argmax(1)
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.25, labels=right)
    assert found.lost == found.lost_error == 0
    assert "loses 0.00 points of top-1 on 6 samples held out" in str(found)
    assert "no sample differs, as may be where up to 50 points are lost" in str(found)


def test_a_wrong_label_names_its_file(network: onnx.ModelProto, samples: np.ndarray, tmp_path: Path) -> None:
    """A user would not know which of the files has it."""
    np.save(tmp_path / "y.npy", np.full(len(samples), 6))
    with pytest.raises(cnna.DataError, match=r"y.npy: label 6 is none of the model's 6 classes, 0..5"):
        cnna.prune(network, samples, "tiny", fewer_clocks=0.25, labels=tmp_path / "y.npy")


def test_a_quantised_model_is_refused(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """Its scales would belong to channels that are gone."""
    with pytest.raises(cnna.ModelError, match="quantise"):
        cnna.prune(cnna.quantize(network, samples), samples, "tiny", fewer_clocks=0.25)


def test_too_few_samples_are_refused(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """There would be none to judge on, or none to solve from."""
    with pytest.raises(cnna.DataError, match="needs more than 4 samples"):
        cnna.prune(network, samples[:4], "tiny", fewer_clocks=0.25)


def test_samples_far_out_of_range_are_refused(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """Layers would be solved from infinity, behind six warnings of numpy, and the answers be as good as random."""
    said = r"node '.*' reads or makes numbers of sample 0 that .*, or whose squares are beyond float32; give samples in the range"
    with pytest.raises(cnna.DataError, match=said):
        cnna.prune(network, samples * np.float32(1e25), "tiny", fewer_clocks=0.25)


@pytest.mark.parametrize("nodes", ["y = Relu (x)", "f = Flatten (x) y = Gemm <transB = 1> (f, w)"])
def test_a_model_without_a_layer_to_solve_saves_nothing(nodes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime would be asked for no tensor at all, and the line would be its own, about a file in its source."""
    monkeypatch.setattr("cnna.pruning.prune.LARGEST", 100)
    relu = "Gemm" not in nodes
    made = model(nodes, {} if relu else {"w": (4, 432)}, "float[1,3,12,12] x", "float[1,3,12,12] y" if relu else "float[1,4] y")
    found = cnna.prune(made, sample(SHAPE), "tiny", fewer_clocks=0.25, output=tmp_path / "p.onnx")
    assert not found.met
    assert "nothing would be saved" in str(found)
    assert not (tmp_path / "p.onnx").exists()


def of_domain(domain: str, op: str) -> onnx.ModelProto:
    """A network with an operator of another domain than ONNX's."""
    weights = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3)}
    nodes = f"a = Conv {CONV} (x, w1) r = Relu (a) c = Conv {CONV} (r, w2) y = Relu (c)"
    made = model(nodes, weights, "float[N,3,12,12] x", "float[N,16,12,12] y")
    made.graph.node[1].domain, made.graph.node[1].op_type = domain, op
    made.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return made


def test_an_operator_of_another_domain_is_named_with_what_to_do(samples: np.ndarray) -> None:
    """A user would read that it is not registered, or that it needs all channels, and not that another export helps."""
    with pytest.raises(cnna.ModelError, match=r"my\.own:Foo\(-1\) .*; export it as operators of ONNX, or cut the model there"):
        cnna.prune(of_domain("my.own", "Foo"), samples, "tiny", fewer_clocks=0.25)
    found = cnna.prune(of_domain("com.microsoft", "QuickGelu"), samples, "tiny", fewer_clocks=0.25)
    why = "com.microsoft.QuickGelu (r) may need all of them, as it is none of ONNX's own; export it as operators of ONNX"
    assert found.groups[0]["why"] == why
    assert why in str(found)


def test_layers_without_a_plain_form_are_not_solved(samples: np.ndarray) -> None:
    """Weights of a Gemm that multiplies its result would be solved for another result."""
    scaled = model(
        NODES.replace("<transB = 1>", "<transB = 1, alpha = 2.0>"), spare_weights(), "float[N,3,12,12] x", "float[N,6] y"
    )
    found = cnna.prune(scaled, samples, "tiny", fewer_clocks=0.25)
    assert found.proto is not None
    assert found.layers[-1]["error"] is None
    (before,), (after,) = answers(scaled, {"x": samples}), answers(found.proto, {"x": samples})
    assert np.square(after - before).sum() < 1e-6 * np.square(before).sum()


def test_of_several_outputs_each_is_compared_with_itself(samples: np.ndarray) -> None:
    """What one output loses would be taken from what another one does, in other units, and called certain."""
    nodes = NODES.replace("y = Gemm", "m = MaxPool <kernel_shape = [1, 1]> (s) y = Gemm")
    network = model(nodes, spare_weights(), "float[N,3,12,12] x", "float[N,6] y, float[N,16,12,12] m")
    found = cnna.prune(network, samples, "tiny", fewer_clocks=0.25)
    assert found.proto is not None
    assert found.of == "top-1 of 'm'"
    assert found.lost_error is None
    held = samples[::4]
    whole, pruned = (answers(made, {"x": held})[1].argmax(1) for made in (network, found.proto))
    assert found.lost == pytest.approx(100 * np.mean(whole != pruned), abs=10)
    assert "no sample differs" not in str(found)


def test_nothing_is_said_of_the_certainty_of_two_samples(network: onnx.ModelProto, samples: np.ndarray) -> None:
    """A user would read that up to 150 points of a hundred may be lost."""
    right = answers(network, {"x": samples})[0].argmax(1)
    found = cnna.prune(network, samples[:5], "tiny", fewer_clocks=0.25, labels=right[:5])
    assert found.judged_on == 2
    assert "no sample differs" not in str(found)
