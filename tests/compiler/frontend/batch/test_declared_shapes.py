"""Outputs behind operators of other domains, whose shapes only the model itself tells."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ...written import Constant, answers, images, written

TINY = preset("tiny")
PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])
CONV, FLAT = "a = Conv (x, w)", "a = Conv (x, w) f = Flatten (a)"
SCALED = f"{FLAT} s = ai.onnx.ml.Scaler <offset=[0.5], scale=[2.0]> (f)"
BODIES: dict[str, tuple[str, list[int], dict[str, Constant]]] = {
    "Pad": (f"{CONV} y = com.microsoft.Pad (a, p)", [3, 6, 6], {"p": PADS}),
    "Pad, Conv": (f"{CONV} b = com.microsoft.Pad (a, p) y = Conv (b, w)", [3, 6, 6], {"p": PADS}),
    "CDist": (f'{FLAT} y = com.microsoft.CDist <metric="euclidean"> (f, c)', [5], {"c": (5, 48)}),
    "Scaler": (f"{FLAT} y = ai.onnx.ml.Scaler <offset=[0.5], scale=[2.0]> (f)", [48], {}),
    "Scaler, Mul": (f"{SCALED} y = Mul (s, s)", [48], {}),
    "Normalizer": (f'{FLAT} y = ai.onnx.ml.Normalizer <norm="L2"> (f)', [48], {}),
    "two": (f"{SCALED} y = Mul (s, s) z = Add (s, s)", [48], {}),
}
BATCHES = [("N", "N"), (1, 1), (None, None), ("unk__1", "unk__2"), ("?", ""), ("N", 1)]  # as an input and an output declare it


def model_of(name: str, first: str | int | None, last: str | int | None, sizes: list[int] | None = None) -> ModelProto:
    body, known, weights = BODIES[name]
    model = written(f"g (float[N,3,4,4] x) => (float y) {{ {body} }}", {"w": (3, 3, 1, 1), **weights})
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, 3, 4, 4]))
    names = ["y", *(["z"] if name == "two" else [])]
    del model.graph.output[:]
    shape = [last, *(sizes or known)]
    model.graph.output.extend(helper.make_tensor_value_info(one, TensorProto.FLOAT, shape) for one in names)
    return model


@pytest.mark.parametrize(("first", "last"), BATCHES)
@pytest.mark.parametrize("name", BODIES)
def test_outputs_keep_their_names_and_join(name: str, first: str | int | None, last: str | int | None) -> None:
    """Two samples had answers `y.0` and `y.1`, because the shape that the model declares was forgotten while it was quantised."""
    model = model_of(name, first, last)
    x = images(model, 2)["x"] if first != 1 else np.random.default_rng(3).normal(size=(2, 3, 4, 4)).astype(np.float32)
    made = load_model(quantise(load_model(model.SerializeToString()), {"x": x})[0].SerializeToString())
    artifact = compile_model(made, TINY)
    with Model(artifact, "emulator", check=True) as opened:
        found = opened.run({"x": x})
    named = found if isinstance(found, dict) else {"y": found}
    wanted = [np.concatenate(one) for one in zip(*(answers(made, {"x": x[n : n + 1]}) for n in range(2)), strict=True)]
    assert [*named] == [value.name for value in model.graph.output]
    for got, want in zip(named.values(), wanted, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("first", ["N", 1, None])
@pytest.mark.parametrize("declared", [None, "letters", "type alone"])
@pytest.mark.parametrize("name", BODIES)
def test_outputs_of_which_nothing_is_said_keep_their_names(name: str, declared: str | None, first: str | int | None) -> None:
    """They had answers `y.0` and `y.1`: neither ONNX nor onnxruntime has a rule, and the model gives names of sizes at most."""
    model = model_of(name, first, "N")
    for value in model.graph.output:
        axes = len(value.type.tensor_type.shape.dim)
        value.ClearField("type")
        if declared:
            shape = [f"size{axis}" for axis in range(axes)] if declared == "letters" else None
            value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 4)).astype(np.float32)
    made = load_model(quantise(load_model(model.SerializeToString()), {"x": x})[0].SerializeToString())
    with Model(compile_model(made, TINY), "emulator", check=True) as opened:
        found = opened.run({"x": x})
    named = found if isinstance(found, dict) else {"y": found}
    assert [*named] == [value.name for value in model.graph.output]
    wanted = [np.concatenate(one) for one in zip(*(answers(made, {"x": x[n : n + 1]}) for n in range(2)), strict=True)]
    for got, want in zip(named.values(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["Scaler", "CDist", "Scaler, Mul"])
def test_a_shape_that_is_not_true_is_refused_before_it_runs(name: str) -> None:
    """The artifact would promise it, and a run would end with "compile it again"."""
    model = load_model(model_of(name, "N", "N", [7]).SerializeToString())
    said = r"'y' has the shape \[1, (48|5)\], but \[1, 7\] in the model; correct the shape"
    with pytest.raises(ModelError, match=said):
        quantise(model, images(model, 2))
    found = explain(model, TINY)
    assert found.refused
    assert "but [1, 7] in the model" in found.problems[0]


def test_what_finds_any_number_of_things_keeps_its_own_number() -> None:
    """An open first axis behind NonZero is how many there are: an artifact that promised one would fail where there are two."""
    body = "a = Conv (x, w) i = NonZero (a) t = Transpose (i) f = Cast <to=1> (t) y = com.microsoft.Pad (f, p)"
    model = written(f"g (float[N,3,4,4] x) => (float[N,4] y) {{ {body} }}", {"w": (3, 3, 1, 1), "p": np.zeros(4, np.int64)})
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].Clear()
    x = images(written("g (float[N,3,4,4] x) => (float y) { y = Relu (x) }"), 2)["x"]
    made = load_model(quantise(load_model(model.SerializeToString()), {"x": x})[0].SerializeToString())
    with Model(compile_model(made, TINY), "emulator") as opened:
        found = opened.run({"x": x})
    assert [*found] == ["y.0", "y.1"]


def test_an_open_size_of_onnxs_own_operators_is_no_batch() -> None:
    """Squeeze without axes takes the batch of one away: the first size of what is left is that of the channels."""
    body = "a = Conv (x, w) s = Shape (a) t = Cast <to=7> (s) r = Reshape (a, t) b = ReduceMax <axes=[3]> (r) y = Squeeze (b)"
    model = written(f"g (float[N,3,4,4] x) => (float[N,4] y) {{ {body} }}", {"w": (3, 3, 1, 1)})
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].Clear()
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 4)).astype(np.float32)
    made = load_model(quantise(load_model(model.SerializeToString()), {"x": x})[0].SerializeToString())
    with Model(compile_model(made, TINY), "emulator") as opened:
        found = opened.run({"x": x})
    named = found if isinstance(found, dict) else {"y": found}
    for number in range(2):
        (wanted,) = answers(made, {"x": x[number : number + 1]})
        got = named["y"][number] if "y" in named else named[f"y.{number}"]
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("name", ["Pad", "CDist", "Scaler, Mul"])
def test_an_output_without_a_type_gets_that_of_onnxruntime(name: str) -> None:
    """onnxruntime knows the type, if not the shape; the file was called no sound ONNX."""
    model = model_of(name, "N", "N")
    model.graph.output[0].ClearField("type")
    read = load_model(model.SerializeToString())
    assert read.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
