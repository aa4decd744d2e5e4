"""Models whose nodes are out of order, as onnxruntime takes them."""

import numpy as np
import onnx
import pytest

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.onnx_model.subgraphs import graphs_of
from cnna.spec.errors import ModelError

from ...written import answers, written

TEXT = """g (float[1,3,4,4] x) => (float[1,3,4,4] y) {
    a = Relu (x) b = Sigmoid (a) c = Add (a, b) s = ReduceMax <keepdims=0> (c) big = Greater (s, half)
    y = If (big) <then_branch = t () => (float[1,3,4,4] o) { p = Exp (b) o = Neg (p) },
                  else_branch = e () => (float[1,3,4,4] o) { o = Tanh (c) }> }"""


def shuffle(graph, rng):
    nodes = [graph.node[number] for number in rng.permutation(len(graph.node))]
    for node in nodes:
        for inner in graphs_of(node):
            shuffle(inner, rng)
    del graph.node[:]
    graph.node.extend(nodes)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_out_of_order_are_sorted(seed):
    """onnxruntime runs such a model, and we called it unsound. A branch reads what stands behind it in the file, too."""
    model = written(TEXT, {"half": np.float32(0.5)})
    feeds = {"x": np.random.default_rng(1).normal(0, 1, (1, 3, 4, 4)).astype(np.float32)}
    wanted = answers(model, feeds)[0]
    shuffle(model.graph, np.random.default_rng(seed))
    with pytest.raises(onnx.checker.ValidationError, match="sorted"):
        onnx.checker.check_model(model)
    loaded = load_model(model.SerializeToString())
    onnx.checker.check_model(loaded)
    np.testing.assert_array_equal(answers(loaded, feeds)[0], wanted)


def test_nodes_in_order_stay():
    """A model of ours must be written as it was read: equal input, equal artifact."""
    model = written("g (float[1,3] x) => (float[1,3] y) { b = Tanh (x) a = Relu (x) c = Neg (a) y = Add (b, c) }")
    assert [node.output[0] for node in load_model(model.SerializeToString()).graph.node] == ["b", "a", "c", "y"]


def test_a_cycle_is_named():
    """ONNX's checker says that nodes must be sorted, which these cannot be."""
    model = written("g (float[1,3] x) => (float[1,3] y) { a = Add (x, b) b = Relu (a) y = Tanh (b) }")
    with pytest.raises(ModelError, match=r"node 'a' \(Add\) reads what depends on its own output: the nodes form a cycle"):
        load_model(model.SerializeToString())
