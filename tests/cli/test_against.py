"""`cnna run --against`: what it finds, names and writes, with the demo's network and models that differ in known ways."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from cnna.cli.main import main
from cnna.host.model.divergence import Divergence, OutputDivergence
from cnna.jobs.against import Against, lines

SAMPLES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, test.npz, q.onnx; m.cnna in batches of two; the same from uint8 pictures as m8.cnna and test8.npy."""
    made = tmp_path_factory.mktemp("against")
    calls = [
        "models digits -o digits.onnx --calib calib.npz --test test.npz",
        "quantize digits.onnx --calib calib.npz -o q.onnx",
        "compile q.onnx --config tiny --batch 2 -o m.cnna",
        "quantize digits.onnx --calib calib8.npy --scale 0.0625 -o q8.onnx",
        "compile q8.onnx --config tiny -o m8.cnna",
    ]
    for call in calls:
        if "calib8" in call:
            for name in ("calib", "test"):
                np.save(made / f"{name}8.npy", np.rint(np.load(made / f"{name}.npz")["x"] * 16).astype(np.uint8))
        assert main([str(made / word) if "." in word and not word[0].isdigit() else word for word in call.split()]) == 0
    return made


def against(folder: Path, other: str, model: str = "m.cnna", x: str = "test.npz") -> dict[str, Any]:
    """The entry `against` that is written for some samples on the emulator."""
    files = ["--input", folder / x, "--against", folder / other, "--json", folder / "r.json"]
    assert main([str(word) for word in ["run", folder / model, "--device", "emulator", "--limit", SAMPLES, *files]]) == 0
    found: dict[str, Any] = json.loads((folder / "r.json").read_text())["against"]
    return found


def changed(folder: Path, name: str, tensor: str, factor: float, source: str = "digits.onnx") -> str:
    """The float model with one constant multiplied, as if the import had read it wrongly."""
    model = onnx.load(folder / source)
    constant = next(one for one in model.graph.initializer if one.name == tensor)
    constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant) * np.float32(factor), tensor))
    onnx.save(model, folder / name)
    return name


def test_the_quantised_model_itself_is_equal(folder: Path) -> None:
    """Differences from the very model that was compiled would be the comparison's own fault; it must find every tensor."""
    found = against(folder, "q.onnx")
    assert (found["samples"], found["compared"]) == (SAMPLES, found["known"])
    assert all(entry["equal"] == 1 for entry in (*found["tensors"], *found["outputs"]))


def test_the_float_model_is_near(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each tensor must be within some steps of int8, also in a batch that is not full; the outputs must be the answers.

    Tensors whose channels are equalised have other names and values than the float model's: they are compared as that has them.
    """
    found = against(folder, "digits.onnx")
    assert found["known"] == found["compared"] == len(found["tensors"]) == 9
    assert found["missing"] == []
    others = {entry["name"]: (entry["other"], entry["scaled"]) for entry in found["tensors"] if "other" in entry}
    assert others == {
        "block1.relu1:equalised": ("block1.relu1", True),
        "block2.relu1:equalised": ("block2.relu1", True),
        "logits:4d": ("logits", False),
    }
    assert all(entry["snr_db"] > 25 and entry["cosine"] > 0.99 and entry["greatest"] < 0.05 for entry in found["tensors"])
    (output,) = found["outputs"]
    assert (output["name"], output["samples"], output["same_top1"]) == ("logits", SAMPLES, 1.0)
    said = capsys.readouterr().out
    assert "9 of the 9 tensors on the accelerator are in it, 2 of them equalised" in said
    assert "1 found by value since their names differ" in said
    assert "block1.relu1:equalised (block1.relu1, scaled)" in said
    assert sum(line.startswith("logits") for line in said.splitlines()) == 1
    assert f"the same greatest value in {SAMPLES} of {SAMPLES}" in said
    assert "the first below" not in said


def renamed(folder: Path, name: str, source: str) -> str:
    """A model whose inner tensors and nodes have numbers for names, as tools that write models anew give them."""
    model = onnx.load(folder / source)
    kept = {value.name for value in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    names = {output: f"t{number}" for number, node in enumerate(model.graph.node) for output in node.output if output not in kept}
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
        node.input[:] = [names.get(one, one) for one in node.input]
        node.output[:] = [names.get(one, one) for one in node.output]
    del model.graph.value_info[:]
    onnx.save(model, folder / name)
    return name


def test_tensors_are_found_without_their_names(folder: Path) -> None:
    """A model that a tool has written anew shares no name: nothing but the outputs would be compared."""
    usual = {entry["name"]: entry for entry in against(folder, "digits.onnx")["tensors"]}
    found = against(folder, renamed(folder, "renamed.onnx", "digits.onnx"))
    assert [entry["name"] for entry in found["tensors"]] == list(usual)
    for entry in found["tensors"]:
        assert entry["snr_db"] == pytest.approx(usual[entry["name"]]["snr_db"])
    quantised = against(folder, renamed(folder, "renamed_q.onnx", "q.onnx"))
    assert quantised["compared"] == quantised["known"]
    assert all(entry["equal"] == 1 for entry in quantised["tensors"])


def test_a_tensor_that_is_not_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind a layer that was read wrongly no tensor has its values: the user must see where that begins."""
    renamed(folder, "renamed.onnx", "digits.onnx")
    wrong = changed(folder, "wrong.onnx", "block1.conv2.weight", -3.0, "renamed.onnx")
    found = against(folder, wrong)
    assert found["missing"][0] == "block1.relu2"
    assert "not found in it, by name or by value: block1.relu2" in capsys.readouterr().out


def test_figures_agree_with_the_report_of_the_quantiser(folder: Path) -> None:
    """Two commands would give a layer different decibels, and name different layers as the culprit.

    One channel is dead, and one is zero in the first sample: neither tells its factor.
    """
    model, x = onnx.load(folder / "digits.onnx"), np.load(folder / "calib.npz")["x"][:24]
    graph = {node.output[0]: node for node in model.graph.node}
    constants = {one.name: one for one in model.graph.initializer}
    for name, row, value in (("block1.conv1", 0, 0.0), ("block2.conv1", 1, 0.0)):
        for number in graph[name].input[1:]:
            array = numpy_helper.to_array(constants[number]).copy()
            array[row] = value
            constants[number].CopyFrom(numpy_helper.from_array(array, number))
    x[0] = 0
    onnx.save(model, folder / "dead.onnx")
    np.save(folder / "dead.npy", x)
    quantising = ["quantize", folder / "dead.onnx", "--calib", folder / "dead.npy", "-o", folder / "dq.onnx"]
    assert main([str(word) for word in [*quantising, "--report", folder / "dead.json"]]) == 0
    assert main([str(word) for word in ["compile", folder / "dq.onnx", "--config", "tiny", "-o", folder / "dead.cnna"]]) == 0
    words = ["run", folder / "dead.cnna", "--input", folder / "dead.npy", "--device", "emulator", "--json", folder / "r.json"]
    assert main([str(word) for word in [*words, "--against", folder / "dead.onnx"]]) == 0
    report = {layer["tensor"]: layer["snr_db"] for layer in json.loads((folder / "dead.json").read_text())["layers"]}
    found = {entry["name"]: entry for entry in json.loads((folder / "r.json").read_text())["against"]["tensors"]}
    assert sum(entry.get("scaled", False) for entry in found.values()) == 2
    both = {*report} & {*found}
    assert len(both) >= len(found) - 1
    for name in both:
        assert found[name]["snr_db"] == pytest.approx(report[name], abs=0.3), name


def test_uint8_pictures_are_preprocessed_for_the_other_model(folder: Path) -> None:
    """The other model takes floats: raw pixels would make every tensor look wrong."""
    floats, pictures = against(folder, "digits.onnx"), against(folder, "digits.onnx", "m8.cnna", "test8.npy")
    assert pictures["tensors"] == floats["tensors"]


def test_a_layer_that_was_read_wrongly_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All tensors before the fault must be near, and the first one that is far must be its output, equalised or not."""
    model = onnx.load(folder / "digits.onnx")
    weights = next(node for node in model.graph.node if node.output[0] == "block2.conv1").input[1]
    capsys.readouterr()
    found = against(folder, changed(folder, "wrong.onnx", weights, -1.0))
    names = [entry["name"] for entry in found["tensors"]]
    at = names.index("block2.relu1:equalised")
    assert all(entry["snr_db"] > 25 for entry in found["tensors"][:at])
    assert found["tensors"][at]["snr_db"] < 5
    assert "in the order of the model: block2.relu1:equalised" in capsys.readouterr().out
    assert found["worst"] == min((*found["tensors"], *found["outputs"]), key=lambda entry: entry["snr_db"])["name"]


@pytest.mark.parametrize("other", ["nowhere.onnx", "test.npz", "r18.onnx"])
def test_another_model_is_refused_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str], other: str) -> None:
    """A missing model, no model, or one with other inputs and outputs must be refused before the run, which may take minutes."""
    model = onnx.load(folder / "digits.onnx")
    model.graph.output[0].name = model.graph.node[-1].output[0] = "elsewhere"
    onnx.save(model, folder / "r18.onnx")
    capsys.readouterr()
    arguments = ["run", folder / "m.cnna", "--input", folder / "test.npz", "--device", "emulator", "--against", folder / other]
    assert main([str(word) for word in arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"cnna: {folder / other}")
    assert not said.out
    assert len(said.err.splitlines()) == 1


def test_a_model_with_equal_names_alone_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exporters call inputs and outputs alike in all models: an empty table and exit code 0 would read as a comparison."""
    shape = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", ["image"], ["logits"])]
    ends = [shape(name, onnx.TensorProto.FLOAT, ["N", 1, 16, 16]) for name in ("image", "logits")]
    graph = onnx.helper.make_graph(nodes, "other", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "other.onnx")
    words = ["run", folder / "m.cnna", "--device", "emulator", "--limit", 1, "--input", folder / "test.npz"]
    capsys.readouterr()
    assert main([str(word) for word in [*words, "--against", folder / "other.onnx"]]) == 2
    assert "not the same model" in capsys.readouterr().err


def test_rows_that_are_left_out_are_counted() -> None:
    """Ten rows of a deep network would read as all."""
    tensors = [Divergence(f"t{number}") for number in range(12)]
    for number, one in enumerate(tensors):
        one.extend(np.full(4, 1.0), np.full(4, 1 + 2.0**-number))
    said = "\n".join(lines(Against("m.onnx", 1, tensors, [], 12)))
    assert "the worst 10 first" in said
    assert f"2 more have at least {tensors[10].decibels:.1f} dB; --json F writes all" in said
    few = "\n".join(lines(Against("m.onnx", 1, tensors[:10], [], 12)))
    assert "the worst first" in few
    assert " more " not in few


def test_an_output_that_cannot_be_compared_is_not_called_equal() -> None:
    """Detectors answer with as many boxes as they find: if no answer has the other's shape, nothing is known of them."""
    boxes, scores = OutputDivergence("boxes"), OutputDivergence("scores")
    boxes.compare(np.ones((3, 4)), np.ones((2, 4)))
    scores.compare(np.ones((1, 2)), np.full((1, 2), 2.0))
    found = Against("m.onnx", 1, [], [boxes, scores], 0)
    assert [one.name for one in found.worst] == ["scores"]
    assert "boxes  " not in "\n".join(lines(found))
    assert "output boxes: has another shape in each of 1 answers" in lines(found)


def test_the_metric_is_said_with_its_reason_and_may_be_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A verdict without its measure could not be weighed, and the wrong measure could not be put right."""
    given = ["run", folder / "m.cnna", "--device", "emulator", "--limit", SAMPLES, "--input", folder / "test.npz"]
    judging = [*given, "--against", folder / "digits.onnx"]
    more: list[Any]
    for more, metric, why in (
        ([], "top1", "its name has 'logit'"),
        (["--metric", "cosine"], "cosine", "--metric asks for it"),
        (["--metric", "logits:noise"], "noise", "--metric asks for it"),
    ):
        assert main([str(word) for word in [*judging, *more, "--json", folder / "r.json"]]) == 0
        (found,) = json.loads((folder / "r.json").read_text())["against"]["outputs"]
        assert (found["metric"], found["why"]) == (metric, why)
        assert f"since {why}: {found['verdict']}" in capsys.readouterr().out
    for more, said in (
        (["--against", folder / "digits.onnx", "--metric", "best"], "'best' is unknown; there are top1, noise, cosine, equal"),
        (["--against", folder / "digits.onnx", "--metric", "nowhere:top1"], "there is no output 'nowhere'; there are logits"),
        (["--metric", "top1"], "it judges what --against M.onnx compares"),
    ):
        assert main([str(word) for word in [*given, *more]]) == 2
        assert said in capsys.readouterr().err
