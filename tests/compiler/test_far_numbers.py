"""Infinity and great numbers, as masks, paddings and constants: `explain`, `quantize` and `compile` say the same of a model."""

import re

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from .written import Constant, answers, images, written

TINY = preset("tiny")
LAYER = "a = Conv <pads=[1,1,1,1]> (x, w0)"
MAKERS = {
    "Pad": f"{LAYER} m = Pad (a, widths, far)",
    "Pad of the input": "m = Pad (x3, widths, far)",
    "Where": f"{LAYER} m = Where (mask, a, far)",
    "Add": f"{LAYER} m = Add (a, pixels)",
    "Where of the input, Conv": "b = Where (mask, x3, far) m = Conv (b, wm)",
}
READERS = {
    "Conv": "y = Conv (m, w)",
    "MatMul": "f = Flatten (m) y = MatMul (f, wf)",
    "Relu, Conv": "r = Relu (m) y = Conv (r, w)",
    "Sigmoid, Conv": "r = Sigmoid (m) y = Conv (r, w)",
    "Clip, Conv": "r = Clip (m, low, high) y = Conv (r, w)",
    "MaxPool, Conv": "r = MaxPool <kernel_shape=[3,3]> (m) y = Conv (r, w)",
    "nothing": "y = Identity (m)",
}
HIDDEN = ("Relu, Conv", "Sigmoid, Conv", "Clip, Conv", "MaxPool, Conv")  # of -inf
TIMES = re.compile(r"\S+ times as long")
VALUES = (-np.inf, -3.4e38)


def model_of(maker: str, reader: str, value: float) -> ModelProto:
    masked = (np.arange(36) % 3 > 0).reshape(1, 1, 6, 6)
    rows = {"Pad": (4, 8, 8), "Pad of the input": (4, 8, 8)}.get(maker, (4, 6, 6))
    constants: dict[str, Constant] = {
        "w0": (4, 4, 3, 3), "wm": (4, 4, 1, 1), "w": (5, 4, 1, 1), "wf": (int(np.prod(rows)), 5), "mask": masked,
        "far": np.float32(value), "low": np.float32(-1), "high": np.float32(1),
        "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "pixels": np.where(masked, np.float32(0), np.float32(value)),
    }  # fmt: skip
    text = f"{MAKERS[maker]} {READERS[reader]}".replace("x3", "x")
    used = {*text.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    model = written(f"g (float[N,4,6,6] x) => (float y) {{ {text} }}", {key: one for key, one in constants.items() if key in used})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return load_model(model.SerializeToString())


def refusal_of_explain(model: ModelProto) -> str | None:
    try:
        found = explain(model, TINY)
    except ModelError as error:
        return str(error)
    return found.problems[0] if found.refused else None


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_explain_quantize_and_compile_agree(maker: str, reader: str, value: float) -> None:
    """`explain` promised clocks for a model that `quantize` refused, or `quantize` wrote one that `compile` refused."""
    model = model_of(maker, reader, value)
    feeds, said = images(model, 4), refusal_of_explain(model)
    if said is not None:
        assert "node '" in said
        assert "apply such a mask behind the network" in said
        assert "of the input" in maker
        with pytest.raises(ModelError) as refused:
            quantise(model, feeds)
        assert TIMES.sub("", str(refused.value)) == TIMES.sub("", said)  # which depends on the samples
        return
    result, _ = quantise(model, feeds)
    artifact = compile_model(load_model(result.SerializeToString()), TINY)
    if reader not in HIDDEN:
        return
    with Model(artifact, "emulator", check=True) as opened:
        found = opened.run(feeds["x"][:1])
    (wanted,) = answers(model, {"x": feeds["x"][:1]})
    both = np.isfinite(wanted) & np.isfinite(found)
    assert both.mean() > 0.5 or not np.isfinite(wanted).any()
    signal, noise = (np.square(part, dtype=np.float64).sum() for part in (wanted[both], wanted[both] - found[both]))
    assert noise <= signal / 100
