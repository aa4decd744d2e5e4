"""Preprocessing travels with the model, and is what the user asked for."""

import numpy as np
import onnx
import pytest

from cnna.host import preprocess
from cnna.host.errors import ModelError, UserError


def test_what_is_stored_is_read_back_and_replaced() -> None:
    """Quantising twice must not leave the old values first in the list."""
    model = onnx.ModelProto()
    model.metadata_props.add(key="author", value="someone")
    assert preprocess.stored(model) is None
    preprocess.store(model, preprocess.make(2.0))
    wanted = preprocess.make(0.5, [1.0, 2.0, 3.0], [4.0], channels=3)
    preprocess.store(model, wanted)
    assert preprocess.stored(onnx.ModelProto.FromString(model.SerializeToString())) == wanted
    assert [entry.key for entry in model.metadata_props] == ["author", preprocess.KEY]


def test_apply_follows_its_formula_by_channel() -> None:
    """(x * scale - mean) / std, in this order, channel by channel."""
    x = np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    scale, mean, std = 1 / 255, [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    y = preprocess.apply(x, preprocess.make(scale, mean, std, channels=3))
    for channel in range(3):
        assert np.allclose(y[:, channel], (x[:, channel] * scale - mean[channel]) / std[channel], atol=1e-6)
    assert y.dtype == np.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((1.0, [1.0, 2.0], None), "--mean has 2 values.*3 channels"),
        ((1.0, None, [0.0]), "must not be 0"),
        ((float("nan"), None, None), "finite"),
    ],
)
def test_values_that_cannot_be_meant(values: tuple[float, list[float] | None, list[float] | None], words: str) -> None:
    """They would give NaN, or an error in numpy, at the first picture."""
    with pytest.raises(UserError, match=words):
        preprocess.make(*values, channels=3)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"scale": "a", "mean": [], "std": []}'])
def test_damaged_metadata(text: str) -> None:
    """A model from elsewhere may hold anything under our key."""
    model = onnx.ModelProto()
    model.metadata_props.add(key=preprocess.KEY, value=text)
    with pytest.raises(ModelError, match=r"cnna\.preprocess"):
        preprocess.stored(model)
