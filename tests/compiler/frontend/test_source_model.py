"""A model is read and prepared once, whichever way it comes; what follows takes both forms of it from there."""

import numpy as np
import pytest

from cnna.compiler.frontend import onnx_import
from cnna.compiler.frontend.onnx_import import load_model, read, source_of, to_graph
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.errors import ModelError

from ..written import answers, images, written

CONV = "g (float[N,3,6,6] x) => (float[N,4,6,6] y) { c = Conv <pads=[1,1,1,1]> (x, w, b) y = Relu (c) }"
WIDE = {"w": (4, 3, 3, 3), "b": (4,)}
FIXED = "g (float[2,3,2,4] x) => (float y) {{ c = Conv <kernel_shape=[1,1]> (x, w) {} }}"


def fixed(tail, **constants):
    """A model for two images, whose output has no declared shape."""
    model = written(FIXED.format(tail), {"w": (6, 3, 1, 1), **constants}, opset=18)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def test_it_is_the_same_from_a_file_from_bytes_and_from_memory(tmp_path):
    """A model in memory would be another one than its file, or would be changed in its owner's hands."""
    model = written(CONV, WIDE)
    bytes_ = model.SerializeToString()
    (tmp_path / "net.onnx").write_bytes(bytes_)
    found = [read(source, "net.onnx") for source in (tmp_path / "net.onnx", bytes_, model)]
    assert len({source.prepared.graph.SerializeToString(deterministic=True) for source in found[1:]}) == 1
    assert found[0].prepared.graph.node == found[1].prepared.graph.node
    assert model.SerializeToString() == bytes_
    assert found[1].proto == load_model(bytes_, "net.onnx")


def test_what_is_prepared_is_taken_as_it_is(monkeypatch):
    """Every step behind the reading would pay again for shape inference, and for runs of onnxruntime."""
    quantised, _ = quantise(written(CONV, WIDE), images(written(CONV, WIDE)))
    source = source_of(quantised)
    monkeypatch.delattr(onnx_import, "prepared")
    assert source_of(source) is source
    assert len(import_quantised(source).programs) == 1
    assert to_graph(source).inputs == ("x",)


def test_the_whole_of_it_is_the_model_with_all_weights():
    """What is prepared lacks the data of large weights; run as it is, it would compute with none."""
    model = written("g (float[N,64,5,5] x) => (float[N,64,5,5] y) { y = Conv <pads=[1,1,1,1]> (x, w) }", {"w": (64, 64, 3, 3)})
    (got,), (wanted,) = answers(source_of(model).whole(), images(model, 1)), answers(model, images(model, 1))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("tail", "constants", "single"),
    [
        ("y = Softmax <axis=1> (c)", {}, []),
        ("y = Softmax <axis=0> (c)", {}, ["x"]),
        ("y = Reshape (c, rows)", {"rows": np.array([12, 8])}, ["x"]),
        ("s = Shape (c) r = Reshape (k, s) y = Add (c, r)", {"k": (96,)}, ["x"]),  # a constant for one image cannot be computed
    ],
)
def test_the_batch_is_chosen_once(tail, constants, single):
    """Each reader chose by itself: the shapes of one took the two images for a batch, the graph of another for one sample."""
    source = source_of(fixed(tail, **constants))
    assert (sorted(source.single), source.fault) == (single, None)
    assert (source.firsts == {}) == bool(single)


def test_a_batch_that_cannot_be_one_is_a_fault_of_the_graph_alone():
    """Such a model can be read, split and run by others. It has no graph, and the line that says so names the node."""
    tail = "t = Transpose <perm=[1,0,2,3]> (c) d = Concat <axis=0> (t, k) y = Conv <kernel_shape=[1,1]> (d, v)"
    model = fixed(tail, k=(1, 1, 2, 4), v=(3, 1, 1, 1))  # for two images, the shapes of Concat contradict each other
    source = source_of(model)
    assert source.proto is model
    with pytest.raises(ModelError, match="first axis of input 'x', of size 2, is taken for the batch, but it is axis 1 for node"):
        to_graph(source)
