"""Fine-tuning: the torch module answers as onnxruntime does, the pruned network comes nearer, and Ctrl-C loses no epoch."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import cnna
from cnna.cli.main import main
from cnna.spec.json_text import json_text
from tests.pruning.small import answers, model, numbers, sample

CONV = "<pads = [1, 1, 1, 1]>"
NODES = f"""a = Conv {CONV} (x, w1, b1) n = BatchNormalization (a, s, o, m, v) r = Relu (n) c = Conv {CONV} (r, w2, b2)
q = Add (c, r) g = GlobalAveragePool (q) f = Flatten (g) y = Gemm <transB = 1> (f, wf, bf)"""
SHAPES: dict[str, Sequence[int] | NDArray[Any]] = {
    "w1": (16, 3, 3, 3),
    "b1": (16,),
    "s": (16,),
    "o": (16,),
    "m": (16,),
    "w2": (16, 16, 3, 3),
    "b2": (16,),
    "bf": (6,),
}
OTHERS = [
    ("p = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x) y = LeakyRelu (p)", "float[1,3,6,6] y"),
    ('y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"> (x)', "float[1,3,6,6] y"),
    ("y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x)", "float[1,3,6,6] y"),
    ("y = ConvTranspose <strides = [2, 2], pads = [1, 0, 1, 2], output_padding = [1, 1]> (x, wt)", "float[1,4,24,24] y"),
    ('y = Conv <strides = [2, 2], auto_pad = "SAME_LOWER"> (x, w1, b1)', "float[1,16,6,6] y"),
    (
        "a, b = Split <axis = 1> (x, parts) c = Concat <axis = 1> (b, a) d = Clip (c, low, high) y = HardSwish (d)",
        "float[1,3,12,12] y",
    ),
    ("t = Transpose <perm = [0, 2, 3, 1]> (x) u = Reshape (t, rows) y = Softmax <axis = 2> (u)", "float[1,144,3] y"),
    ("t = Slice (x, first, last, axes, steps) y = ReduceMean <axes = [2, 3], keepdims = 0> (t)", "float[1,3] y"),
    (
        'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , twice)',
        "float[1,3,24,24] y",
    ),
]
CONSTANTS: dict[str, Sequence[int] | NDArray[Any]] = {
    "wt": (3, 4, 3, 3),
    "w1": SHAPES["w1"],
    "b1": SHAPES["b1"],
    "parts": numbers(1, 2),
    "rows": numbers(0, -1, 3),
    "low": np.array(-0.5, np.float32),
    "high": np.array(0.7, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "first": numbers(9, 1),
    "last": numbers(2, 8),
    "axes": numbers(2, 3),
    "steps": numbers(-2, 1),
}

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch (extra `train`) takes hundreds of MB, so CI has none")


def _network() -> onnx.ModelProto:
    weights: dict[str, Sequence[int] | NDArray[Any]] = {**SHAPES, "wf": (6, 16), "v": np.ones(16, np.float32)}
    return model(NODES, weights, "float[N,3,12,12] x", "float[N,6] y")


def _files(folder: Path, epochs: str = "3") -> list[str]:
    """The command that prunes and fine-tunes, without its output."""
    x = sample((80, 3, 12, 12))
    onnx.save(_network(), folder / "m.onnx")
    np.savez(folder / "calib.npz", x=x[:24])
    np.savez(folder / "train.npz", x=x)
    options = ["--calib", str(folder / "calib.npz"), "--config", "tiny", "--fewer-clocks", "40%", "--epochs", epochs]
    return ["prune", str(folder / "m.onnx"), *options, "--finetune", str(folder / "train.npz")]


@pytest.mark.slow
@TORCH
@pytest.mark.parametrize(("nodes", "output"), OTHERS)
def test_the_module_answers_as_onnxruntime_does(nodes: str, output: str) -> None:
    """A network would be trained that is another one in the file."""
    from cnna.pruning.torch_graph import TorchGraph

    used = {
        name: value
        for name, value in CONSTANTS.items()
        if name in nodes.replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    made = model(nodes, used, "float[1,3,12,12] x", output)
    TorchGraph(made, "net").checked({"x": sample((1, 3, 12, 12))})


@pytest.mark.slow
@TORCH
def test_training_brings_the_pruned_network_nearer(tmp_path: Path) -> None:
    """A user would train for hours, and the file would have the old weights, other names or another form."""
    command = _files(tmp_path, "80")
    assert main([*command[:-4], "-o", str(tmp_path / "p.onnx")]) == 0
    assert main([*command, "-o", str(tmp_path / "t.onnx"), "--json", str(tmp_path / "t.json")]) == 0
    plain, tuned = (onnx.load(tmp_path / name) for name in ("p.onnx", "t.onnx"))
    assert [one.name for one in plain.graph.initializer] == [one.name for one in tuned.graph.initializer]
    assert list(plain.graph.node) == list(tuned.graph.node)
    assert plain.graph.input == tuned.graph.input
    x = np.load(tmp_path / "train.npz")["x"]
    whole, before, after = (answers(one, {"x": x})[0] for one in (onnx.load(tmp_path / "m.onnx"), plain, tuned))
    assert np.square(after - whole).sum() < 0.7 * np.square(before - whole).sum()
    assert not list(tmp_path.glob("*.checkpoint"))


@TORCH
def test_layers_inside_are_those_that_kept_their_form() -> None:
    """Layers would be taught what others make, or one whose result is only added would be hindered from making up for the other."""
    from cnna.pruning.finetune import Samples, Trainer, Tuning, distance
    from cnna.pruning.torch_graph import TorchGraph

    whole, x = _network(), sample((24, 3, 12, 12))
    assert TorchGraph(whole, "net").inside() == ["a", "n", "q"], "c is only added, y is the output"
    nodes = f"a = Conv {CONV} (x, w1) r = Relu (a) c = Conv {CONV} (r, w2) q = Relu (c) y = Conv (q, w3)"
    wide, narrow = (
        model(nodes, {"w1": (n, 3, 3, 3), "w2": (8, n, 3, 3), "w3": (2, 8, 1, 1)}, "float[N,3,12,12] x", "float[N,2,12,12] y")
        for n in (16, 8)
    )
    trainer = Trainer(narrow, wide, "net", Samples({"x": x}), Tuning(inside=True), distance, None)
    assert trainer.inside == ["c"]


@TORCH
def test_what_is_told_ends_with_the_last_epoch() -> None:
    """A user would see an epoch that is not done, and take the network for one that was given up."""
    from cnna.pruning.finetune import Samples, Tuning, fine_tuned

    told = list[tuple[int, int]]()
    samples, whole = Samples({"x": sample((24, 3, 12, 12))}), _network()
    fine_tuned(whole, whole, "net", samples, Tuning(epochs=2), lambda done, total, _: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


@TORCH
def test_pictures_are_varied_and_other_samples_are_not() -> None:
    """A user's table of numbers would be mirrored, or pictures would have another size."""
    import torch

    from cnna.pruning.finetune import varied

    pictures, table = torch.from_numpy(sample((8, 3, 12, 16))), torch.from_numpy(sample((8, 5)))
    once, again = (varied({"x": pictures}, torch.Generator().manual_seed(4))["x"] for _ in range(2))
    assert torch.equal(once, again)
    assert once.shape == pictures.shape
    assert not torch.equal(once, pictures)
    assert torch.equal(varied({"x": table}, torch.Generator())["x"], table)


@pytest.mark.slow
@TORCH
def test_ctrl_c_goes_on_from_the_last_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Epochs would be lost, or the network would be another one than in one go."""
    from cnna.pruning import finetune

    command, real, calls = _files(tmp_path), finetune.Trainer.step, list[int]()

    def interrupted(trainer: finetune.Trainer) -> None:
        calls.append(trainer.epoch)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(trainer)

    monkeypatch.setattr(finetune.Trainer, "step", interrupted)
    out = tmp_path / "p.onnx"
    assert main([*command, "-o", str(out)]) == 130
    assert f"{out}.journal and {out}.checkpoint keep what was measured" in capsys.readouterr().err
    assert main([*command, "-o", str(out)]) == 0
    assert calls == [0, 1, 2, 2]
    assert main([*command, "-o", str(tmp_path / "whole.onnx")]) == 0
    assert out.read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    Path(f"{out}.checkpoint").write_bytes(b"other")
    assert main([*command, "-o", str(out)]) == 2
    assert "is no checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize(("epochs", "said"), [("0", "--epochs 0: must lie within"), ("3", "pip install '.[train]'")])
def test_what_cannot_be_trained_is_said_before_the_work(
    epochs: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search would run for minutes first, or a traceback would name torch."""
    monkeypatch.setattr("cnna.jobs.prune.find_spec", lambda name: None if name == "torch" else find_spec(name))
    files = ["prune", "none.onnx", "--calib", "none.npz", "--fewer-clocks", "25%", "-o", str(tmp_path / "p.onnx")]
    assert main([*files, "--finetune", "none.npz", "--epochs", epochs]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@TORCH
@pytest.mark.parametrize(
    ("few", "operator", "said"), [(True, "Relu", "20 samples or more"), (False, "Softsign", "Softsign cannot be")]
)
def test_data_and_networks_that_cannot_be_trained_are_refused_before_the_search(
    few: bool, operator: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network would be searched and solved for minutes first."""
    monkeypatch.setattr("cnna.pruning.prune.prune", lambda *_: pytest.fail("it was searched"))
    command = _files(tmp_path)
    weights: dict[str, Sequence[int] | NDArray[Any]] = {**SHAPES, "wf": (6, 16), "v": np.ones(16, np.float32)}
    onnx.save(model(NODES.replace("Relu", operator), weights, "float[N,3,12,12] x", "float[N,6] y"), tmp_path / "m.onnx")
    if few:
        np.savez(tmp_path / "train.npz", x=sample((19, 3, 12, 12)))
    assert main([*command, "-o", str(tmp_path / "p.onnx")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_epochs_without_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user would think that the network was trained."""
    files = ["prune", "m.onnx", "--calib", "x.npz", "--fewer-clocks", "25%", "-o", str(tmp_path / "p.onnx")]
    assert main([*files, "--epochs", "3"]) == 2
    assert "are of --finetune" in capsys.readouterr().err


def test_the_loss_has_a_standard_error() -> None:
    """A difference of one sample in forty would be read as one of the network."""
    test = sample((40, 3, 12, 12), seed=3)
    labels = answers(_network(), {"x": test})[0].argmax(1)
    labels[::3] = 0
    found = cnna.prune(_network(), sample((24, 3, 12, 12)), "tiny", fewer_clocks=0.7, test=test, labels=labels)
    assert found.lost is not None
    assert found.lost_error is not None
    assert found.of == "top-1"
    assert f"{found.lost:.2f} ± {found.lost_error:.2f} points" in str(found)
    assert found.top1["int8"] is not None
    assert found.top1["pruned_int8"] is not None
    only = round(40 * abs(found.top1["int8"] - found.top1["pruned_int8"]))  # as many samples at least are judged in another way
    assert found.lost_error >= 100 * np.sqrt(only / 40 * (1 - only / 40) / 39) - 1e-9
    assert found.right_alone is not None
    assert found.right_alone[0] - found.right_alone[1] == pytest.approx(0.4 * found.lost)
    assert json.loads(json_text(found.figures()))["right_alone"] == [*found.right_alone]
