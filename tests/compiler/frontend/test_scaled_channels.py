"""The metadata of equalised tensors: written by the quantiser, read back whole, and refused in a line when altered."""

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.frontend.scaled_channels import KEY, store, stored
from cnna.compiler.graph.ir import Scaled
from cnna.compiler.quantise.quantise import Report, quantise
from cnna.spec.errors import ModelError

from ..written import answers, images, written

TEXT = """g (float[N,6,12,12] x) => (float[N,5,1,1] y) {
    a = Conv (x, wa) ra = Relu (a) p = MaxPool <kernel_shape=[2,2]> (ra) b = Conv (p, wb) rb = Relu (b)
    y = GlobalAveragePool (rb) }"""


def quantised(effort: int) -> tuple[ModelProto, ModelProto, Report]:
    """A network with a convolution whose channels differ a hundredfold and a dead one; the float model, and it as QDQ."""
    rng = np.random.default_rng(0)
    scales = np.array([0.01, 0.1, 0, 1, 1, 1, 1, 1], np.float32).reshape(8, 1, 1, 1)
    wa, wb = rng.normal(size=(8, 6, 1, 1)).astype(np.float32) * scales, rng.normal(size=(5, 8, 1, 1)).astype(np.float32)
    model = written(TEXT, {"wa": wa, "wb": wb / np.where(scales, scales, 1).reshape(1, 8, 1, 1)})
    return model, *quantise(model, images(model, 8), effort=effort)


@pytest.mark.parametrize("effort", [0, 1])
def test_the_quantiser_writes_what_it_has_divided_by(effort: int) -> None:
    """At another effort, or behind a pool, the factors would be missing or another tensor's."""
    model, made, report = quantised(effort)
    found = stored(made)
    assert {name: one.name for name, one in found.items()} == {"ra:equalised": "ra", "p:equalised": "p"}
    assert {*found} <= {*report.quants}
    for name, (before, factors) in found.items():
        seen = []
        for network, tensor in ((model, before), (made, name)):
            copy = ModelProto.FromString(network.SerializeToString())
            copy.graph.output.add(name=tensor)
            seen.append(answers(copy, images(model, 8))[-1])
        wanted = seen[0] / np.array(factors).reshape(1, -1, 1, 1)
        assert np.abs(np.maximum(seen[1], 0) - wanted).max() < 0.05 * wanted.max()  # the ReLU is int8's zero
        assert np.ptp(np.log(factors)) > 1


def test_nothing_is_written_where_nothing_is_scaled() -> None:
    """Files of models without equalisation would differ from those before."""
    made = ModelProto()
    store(made, {})
    assert not made.metadata_props
    assert stored(made) == {}
    store(made, {"b": Scaled("a", (0.1, 3.0))})
    assert stored(made) == {"b": Scaled("a", (0.1, 3.0))}


@pytest.mark.parametrize("value", ["{", "[1]", "7", '{"b": 1}', '{"b": ["a", [0]]}', '{"b": [1, [1]]}', '{"b": ["a", ["x"]]}'])
def test_an_entry_that_cannot_be_meant(value: str) -> None:
    """A file that was changed by hand would end in a traceback."""
    made = ModelProto()
    made.metadata_props.add(key=KEY, value=value)
    with pytest.raises(ModelError, match=f"the model's metadata '{KEY}'.*quantise it again"):
        stored(made)
