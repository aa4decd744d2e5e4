"""Models that cannot be compiled as they are: refused by the node's name and the remedy, not compiled into something else."""

import re

import numpy as np
import pytest
from onnx import numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.frontend.pieces.partition import check_without_cpu, placed
from cnna.compiler.frontend.pieces.support import PAD_MAX, RUNS, limit, quantised_limit, refusal
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph.float_ops import Join, Pad
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.passes.pipeline import QUANTISATION, REWRITES, run_passes
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ..pairs import with_pairs
from ..written import Constant, written

CONV = "g (float[N,3,8,8] x) => (float[N,2,?,?] y) {{ y = Conv <kernel_shape={kernel}> (x, w) }}"


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_a_scale_that_is_not_above_zero(scale):
    """Such a scale would count as none at all, and the user be told to quantise a quantised model."""
    model = with_pairs(written(CONV.format(kernel=[3, 3]), {"w": (2, 3, 3, 3)}), {"x": (0.1, 0), "y": (scale, 0)}, {"w": 1 / 64})
    with pytest.raises(ModelError, match=rf"\((De)?[Qq]uantizeLinear\): its scale 'y:scale' is {scale:g}; .* above 0"):
        import_quantised(model)


def test_weights_of_another_size_than_the_kernel_says():
    """onnxruntime refuses the model; by the weights alone the answer would have another size than the model's shapes."""
    model = written(CONV.format(kernel=[5, 5]), {"w": (2, 3, 3, 3)})
    with pytest.raises(ModelError, match=r"node 'Conv:y' \(Conv\): weights \(2, 3, 3, 3\) do not match kernel_shape \[5, 5\]"):
        run_passes(to_graph(model), REWRITES)


def test_weights_beyond_float32():
    """int8 times a scale of 1e38 must be refused in one line, without a warning of numpy's."""
    weights = {"w": np.full((2, 3, 3, 3), 127, np.float32)}
    model = with_pairs(written(CONV.format(kernel=[3, 3]), weights), {"x": (0.1, 0), "y": (0.1, 0)}, {"w": 1})
    for tensor in model.graph.initializer:
        if tensor.name == "w:scale":
            tensor.CopyFrom(numpy_helper.from_array(np.float32(3e38), tensor.name))
    with pytest.raises(
        ModelError,
        match=r"\(DequantizeLinear\): the values of 'w:int8' times their scale exceed the range of float32; use a smaller scale",
    ):
        import_quantised(model)


def test_float_model_is_refused():
    with pytest.raises(ModelError, match="not quantised; run `cnna quantize`"):
        import_quantised(written(CONV.format(kernel=[3, 3]), {"w": (2, 3, 3, 3)}))


IN_BETWEEN = {  # between two convolutions of four channels, in the terms of opset 9
    "Conv": "b = Conv (a, w4)",
    "Gemm": "f = Flatten (a) g = Gemm (f, m) b = Unsqueeze <axes=[2, 3]> (g)",
    "MatMul": "f = Flatten (a) g = MatMul (f, m) b = Unsqueeze <axes=[2, 3]> (g)",
    "MaxPool": "b = MaxPool <kernel_shape=[2, 2]> (a)",
    "AveragePool": "b = AveragePool <kernel_shape=[2, 2]> (a)",
    "GlobalMaxPool": "b = GlobalMaxPool (a)",
    "GlobalAveragePool": "b = GlobalAveragePool (a)",
    "ReduceMax": "b = ReduceMax <axes=[2, 3]> (a)",
    "ReduceMean": "b = ReduceMean <axes=[2, 3]> (a)",
    "BatchNormalization": "b = BatchNormalization (a, s, s, s, var)",
    "Relu": "b = Relu (a)",
    "Clip": "b = Clip <min=0.0, max=6.0> (a)",
    "Min": "b = Min (a, c)",
    "Max": "b = Max (a, c)",
    "Add": "b = Add (a, a)",
    "Sum": "b = Sum (a, a)",
    "Sub": "b = Sub (a, k)",
    "Mul": "b = Mul (a, k)",
    "Div": "b = Div (a, k)",
    "Concat": "t = Concat <axis=1> (a, a) b = Conv (t, w8)",
    "Pad": "p = Pad <pads=[0, 0, 1, 1, 0, 0, 1, 1]> (a) b = Conv (p, w4)",
    "Slice": "b = Slice <starts=[0, 0], ends=[8, 8], axes=[2, 3]> (a)",
    "Resize": 'b = Upsample <mode="nearest"> (a, twice)',
    "Expand": "p = GlobalMaxPool (a) b = Expand (p, whole)",
    "Tile": "b = Tile (a, doubled)",
    "Split": "p, q = Split <axis=1, split=[2, 2]> (a) b = Concat <axis=1> (q, p)",
    "Gather": "b = Gather <axis=1> (a, order)",
    "LeakyRelu": "b = LeakyRelu (a)",
    "PRelu": "b = PRelu (a, half)",
    "HardSigmoid": "b = HardSigmoid (a)",
    **{kind: f"b = {kind} (a)" for kind in ("Sigmoid", "Tanh", "Elu", "Selu", "Softplus", "Softsign", "Erf", "Abs", "Neg")},
    **{kind: f"b = {kind} (a)" for kind in ("HardSwish", "Celu", "Gelu", "Mish", "Swish")},
    "Pow": "b = Pow (a, c2)",
    "ReduceSum": "b = ReduceSum <axes=[2, 3]> (a)",
    "ConvTranspose": "b = ConvTranspose <strides=[2, 2]> (a, w4)",
    "DepthToSpace": "p = Conv (a, v16) b = DepthToSpace <blocksize=2> (p)",
    "SpaceToDepth": "p = SpaceToDepth <blocksize=2> (a) b = Conv (p, w16)",
    "Flatten": "f = Flatten (a) g = Gemm (f, m) b = Unsqueeze <axes=[2, 3]> (g)",
}
WEIGHTS = {"w": (4, 3, 1, 1), "w4": (4, 4, 1, 1), "w8": (4, 8, 1, 1), "w16": (4, 16, 1, 1), "v16": (16, 4, 1, 1), "m": (64, 4)}
CONSTANTS: dict[str, Constant] = {**WEIGHTS, "s": (4,), "var": (4,), "k": (4, 1, 1), "c": np.float32(0.5), "c2": np.float32(2)}
CONSTANTS |= {"half": np.full((4, 1, 1), 0.5, np.float32)}
CONSTANTS |= {"twice": np.array([1, 1, 2, 2], np.float32), "order": np.array([2, 0, 3, 1])}
CONSTANTS |= {"whole": np.array([1, 4, 4, 4]), "doubled": np.array([1, 1, 2, 2])}


NEW = {"HardSwish": 14, "Celu": 12, "Gelu": 20, "Mish": 18, "Swish": 24}  # the opsets of operators that 9 lacks


def _between(line: str) -> Graph:
    text = f"g (float[N,3,4,4] x) => (float[N,4,?,?] z) {{ a = Conv (x, w) {line} z = Conv (b, w4) }}"
    return run_passes(to_graph(written(text, CONSTANTS, opset=NEW.get(line.split()[2], 9))), REWRITES)


def test_operators_that_are_said_to_run_do():
    """The line that refuses an operator lists others that the user may take: each of them must run in the same place."""
    assert set(IN_BETWEEN) == set(RUNS)
    for line in IN_BETWEEN.values():
        check_without_cpu(graph := _between(line), placed(graph, limit))


@pytest.mark.parametrize(
    ("line", "said"),
    [("b = Sin (a)", "(Sin) cannot"), ("b = InstanceNormalization (a, s, s)", "replace it with BatchNormalization")],
)
def test_an_unknown_operator_is_told_which_there_are(line, said):
    """A user who writes the network must learn which operators run, whether or not the unknown one has a remedy of its own."""
    with pytest.raises(ModelError) as refused:
        check_without_cpu(graph := _between(line), placed(graph, limit))
    assert said in str(refused.value)
    assert str(refused.value).endswith(f"those that run: {', '.join(RUNS)}")


def test_a_known_operator_in_a_form_that_does_not_run():
    """The line would say that there is no such operator, although the list has it."""
    with pytest.raises(
        ModelError, match=r"\(Div\) cannot run on the accelerator: not in this form; its divisor must be a constant"
    ):
        check_without_cpu(graph := _between("d = Conv (a, w4) b = Div (a, d)"), placed(graph, limit))


@pytest.mark.parametrize(("width", "value", "reason"), [(1, np.inf, "pads with inf"), (PAD_MAX + 1, 1.0, f"at most {PAD_MAX}")])
def test_pads_beyond_int8_or_the_walker_stay_with_the_cpu(width, value, reason):
    """int8 has no infinity, so calibration would fail; a map's first row must fit its register."""
    node = Node("p", Pad((width, 0, 0, 0), value), ("x",), "y")
    tensors = {"x": Tensor((1, 3, 4, 4)), "y": Tensor((1, 3, 4 + width, 4))}
    assert reason in limit(node, Graph("g", ("x",), ("y",), (node,), tensors))


def test_maps_joined_too_far_behind_stay_with_the_cpu():
    """A copy's first row must fit its register."""
    tensors = {"x": Tensor((1, 3, PAD_MAX + 1, 4)), "z": Tensor((1, 3, 9, 4)), "y": Tensor((1, 3, PAD_MAX + 10, 4))}
    node, other = Node("j", Join(2), ("x", "z"), "y"), Node("j", Join(2), ("z", "x"), "y")
    assert f"at most {PAD_MAX}" in limit(node, Graph("g", ("x", "z"), ("y",), (node,), tensors))
    assert limit(other, Graph("g", ("x", "z"), ("y",), (other,), tensors)) is None


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (
            ("x", "y"),
            r"'BatchNormalization:b' \(BatchNormalization\).*'b' has no QuantizeLinear.*quant_pre_process.*or .*`cnna quantize`",
        ),
        (("x", "a", "b"), r"'Conv:y' \(Conv\).*'y' has no QuantizeLinear.*quantise the float model with `cnna quantize`"),
    ],
)
def test_what_lacks_a_rounding_is_told_the_remedy(pairs, reason):
    """A batch norm that nothing absorbs is the usual case: the user must hear of folding, and not of limits of convolutions."""
    text = """g (float[N,3,4,4] x) => (float[N,3,4,4] z) {
        a = Relu (x)
        b = BatchNormalization (a, s, o, m, var)
        y = Conv (b, w)
        t = Sin (y)
        z = Conv (t, w)}"""
    weights = {"s": (3,), "o": (3,), "m": (3,), "var": (3,), "w": (3, 3, 1, 1)}
    model = with_pairs(written(text, weights), dict.fromkeys(pairs, (0.1, 0)), {"w": 1 / 64})
    graph = run_passes(to_graph(model), (*REWRITES, *QUANTISATION))
    refusals = [refusal(node, why, graph) for node in graph.nodes if (why := quantised_limit(node, graph))]
    assert any(re.search(reason, line) for line in refusals), refusals


def test_an_activation_that_is_not_rounded_is_told_the_remedy():
    """The line would say that its form does not run, though only a rounding is missing."""
    text = "g (float[N,3,4,4] x) => (float[N,3,4,4] y) { a = Conv (x, w) y = Tanh (a) }"
    model = with_pairs(written(text, {"w": (3, 3, 1, 1)}), dict.fromkeys("xa", (0.1, 0)), {"w": 1 / 64})
    graph = run_passes(to_graph(model), (*REWRITES, *QUANTISATION))
    (tanh,) = [node for node in graph.nodes if kind_of(node) == "Tanh"]
    assert quantised_limit(tanh, graph) == "what it reads and what it makes are not int8 on both sides; put Q and DQ there"


def test_outputs_whose_numbered_names_are_taken():
    """The second sample's answer would overwrite another output's."""
    text = """g (float[N,3,8,8] x) => (int64[4,?] places, float[N,2,8,8] "places.1") {
        c = Conv <kernel_shape=[1,1]> (x, w) places = NonZero (c) z = Sin (c) }"""
    model = written(text.replace('"places.1"', "z"), {"w": (2, 3, 1, 1)})
    model.graph.output[1].name = model.graph.node[-1].output[0] = "places.1"
    with pytest.raises(ModelError, match=r"output 'places' of several samples would be called 'places\.1', .*rename"):
        compile_model(with_pairs(model, {"x": (0.1, 0), "c": (0.1, 0)}, {"w": 1 / 64}), preset("tiny"))
