"""Views that the quantiser writes take the first axis for the batch; answers still join where the user's model has the batch."""

import json

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.model_ports import AXES_KEY
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ..written import Shapes, answers, written

X = np.random.default_rng(1).normal(size=(3, 3, 4, 4)).astype(np.float32)
CONV = "c = Conv <pads=[1,1,1,1]> (x, w)"
WEIGHTS: Shapes = {
    "w": (4, 3, 3, 3), "m": (4, 2), "five": (1, 1, 4, 1, 1), "six": (1, 1, 1, 1, 1, 1), "flat": np.array([-1, 1, 64]),
}  # fmt: skip
TAILS = {
    "a view behind five axes": f"{CONV} a = Add (c, five) r = Reshape (a, flat) y = Add (r, r)",
    "a product behind six axes": f"{CONV} t = Transpose <perm=[2,0,3,1]> (c) a = Sub (six, t) y = MatMul (a, m)",
}


def quantised(tail: str):
    """The float model, and the quantised one as its file is read."""
    model = written(f"g (float[N,3,4,4] x) => (float y) {{ {tail} }}", WEIGHTS)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model, load_model(quantise(model, {"x": X})[0].SerializeToString(), "q.onnx")


@pytest.mark.parametrize("name", TAILS)
def test_answers_join_where_the_users_model_has_the_batch(name: str) -> None:
    """A constant with more axes puts a 1 in front of the batch, which was then taken for it: (3, ..., 1) for (1, ..., 3)."""
    model, made = quantised(TAILS[name])
    with Model(compile_model(made, preset("tiny")), "emulator", check=True) as emulated:
        found = emulated.run(X)
    (wanted,) = answers(model, {"x": X})
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < 0.05 * np.ptp(wanted)


def test_a_model_whose_batch_is_found_says_nothing_of_it() -> None:
    """Every file would differ from those that were written before."""
    assert not quantised(f"{CONV} y = Relu (c)")[1].metadata_props


@pytest.mark.parametrize("value", ["", "{", "[1]", '{"y": 9}', '{"y": "a"}', '{"y": true}', '{"y": -1}'])
def test_an_entry_that_cannot_be_meant(value: str) -> None:
    """A file that was changed by hand would end in a traceback, or in answers that are joined along no axis."""
    _, made = quantised(TAILS["a view behind five axes"])
    (entry,) = made.metadata_props
    assert json.loads(entry.value) == {"y": 0}
    entry.value = value
    assert entry.key == AXES_KEY
    with pytest.raises(ModelError, match=f"the model's metadata '{AXES_KEY}'.*quantise it again"):
        compile_model(made, preset("tiny"))
