"""The artifact that the tests of files save, change and load."""

from dataclasses import replace

import pytest

from ..host.hand_made import requantised_copy, with_cpu


@pytest.fixture
def artifact():
    """An artifact with an entry in each of its lists and a batch of 2; its model and tail are never run here."""
    node = {"name": "s", "op": "Softmax", "inputs": ["y"], "outputs": ["z"], "attributes": {}, "constants": {}}
    values = {"preprocess": {"scale": 1.0, "mean": [0.0], "std": [1.0]}}
    made = requantised_copy(**values, model_inputs=[{"name": "x", "shape": [6, 3, None], "dtype": "float32"}])
    return with_cpu(replace(made, model=b"onnx"), b"tail", node)
