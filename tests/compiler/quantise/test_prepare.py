"""The forms that the quantiser makes of a float graph are the same function: ranges are measured on them."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.quantise import prepare
from cnna.compiler.quantise.equalise import EQUALISED
from cnna.compiler.quantise.prepare import prepared, rewriting_warnings, unlike_form
from cnna.compiler.quantise.quantise import float_body, float_graph, quantise
from cnna.host.model.divergence import Divergence

from ..written import answers, images, written

CHANNELS = 12
SHUFFLE = "{y}a = Reshape ({x}, apart{side}) {y}b = Transpose <perm=[0,2,1,3,4]> ({y}a) {y} = Reshape ({y}b, whole{side})"
BETWEEN = {
    "nothing": "{y} = Identity ({x})",
    "relu": "{y} = Relu ({x})",
    "shuffle": SHUFFLE,
    "shuffle behind relu": "{y}r = Relu ({x}) " + SHUFFLE.replace("({x}", "({y}r"),
    "gather": "{y} = Gather <axis=1> ({x}, order)",
    "gather of some": "{y}g = Gather <axis=1> ({x}, some) {y} = Concat <axis=1> ({y}g, {y}g)",
    "resize of channels": '{y}s = Gather <axis=1> ({x}, half) {y} = Resize <mode="nearest", nearest_mode="floor", '
    'coordinate_transformation_mode="asymmetric"> ({y}s, , twice)',
    "pad of channels": "{y}s = Slice ({x}, none, six, one) {y} = Pad ({y}s, widths)",
    "steps": '{y}s = Slice ({x}, none2, many, sides, steps) {y} = Resize <mode="nearest", nearest_mode="floor", '
    'coordinate_transformation_mode="asymmetric"> ({y}s, , larger)',
    "scale": "{y} = Mul ({x}, factors)",
}
LAYERS = (
    ("<kernel_shape=[1,1]>", (CHANNELS, CHANNELS, 1, 1)),
    ("<kernel_shape=[3,3], pads=[1,1,1,1]>", (CHANNELS, CHANNELS, 3, 3)),
)
DEPTHWISE = (f"<kernel_shape=[3,3], pads=[1,1,1,1], group={CHANNELS}>", (CHANNELS, 1, 3, 3))
CONSTANTS = {
    "apart8": np.array([0, 3, 4, 8, 8]),
    "whole8": np.array([0, CHANNELS, 8, 8]),
    "some": np.array([1, 3, 5, 7, 9, 11]),
    "half": np.array([5, 4, 3, 2, 1, 0]),
    "twice": np.array([1, 2, 1, 1], np.float32),
    "larger": np.array([1, 1, 2, 2], np.float32),
    **{name: np.array(values) for name, values in {"none": [0], "six": [6], "one": [1], "none2": [0, 0], "many": [99, 99]}.items()},
    **{name: np.array(values) for name, values in {"sides": [2, 3], "steps": [2, 2]}.items()},
    "widths": np.array([0, 3, 0, 0, 0, 3, 0, 0]),
}


def network(seed, ways=tuple(BETWEEN)):
    """Convolutions whose channels differ a thousandfold, with something between them; some end in slices, as detectors do."""
    rng = np.random.default_rng(seed)
    text, x, constants = [], "x", {**CONSTANTS, "order": rng.permutation(CHANNELS)}
    constants["factors"] = np.exp(rng.normal(0, 2, (1, CHANNELS, 1, 1))).astype(np.float32)
    for number in range(3):
        attributes, shape = (*LAYERS, DEPTHWISE)[rng.integers(3)]
        weights = rng.normal(size=shape) * np.exp(rng.normal(0, 2, (CHANNELS, 1, 1, 1))) / np.sqrt(np.prod(shape[1:]))
        constants |= {f"w{number}": weights.astype(np.float32), f"b{number}": rng.normal(0, 0.5, CHANNELS).astype(np.float32)}
        text.append(f"c{number} = Conv {attributes} ({x}, w{number}, b{number})")
        text.append(BETWEEN[ways[rng.integers(len(ways))]].format(x=f"c{number}", y=(x := f"t{number}"), side=8))
    text.append(("y, z = Split <axis=1, num_outputs=2> (t2)", "y = Identity (t2) z = Relu (t2)")[seed % 2])
    outputs = "float[N,c,8,8] y, float[N,c,8,8] z"
    return written(f"g (float[N,{CHANNELS},8,8] x) => ({outputs}) {{ {' '.join(text)} }}", constants, opset=18)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_stay_the_same_function(seed):
    """Statistics, means and biases would be those of another network: selections of channels carry weights of 0 and 1 in int8."""
    model = network(seed)
    graph, feeds = float_graph(model), images(model, 4)
    changed, told = prepared(graph, float_body(graph)[1], feeds, 4, None)
    assert not told
    assert not rewriting_warnings(model, graph, feeds, None)
    for got, expected in zip(answers(to_model(changed), feeds), answers(model, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_selections_of_channels_are_equalised_and_the_answer_comes_nearer():
    """A shuffle between two convolutions would round scaled channels to whole numbers, or end the equalisation."""
    shuffle = SHUFFLE.format(x="c", y="s", side=8)
    text = f"g (float[N,{CHANNELS},8,8] x) => (float[N,c,8,8] y) {{ c = Conv (x, w) {shuffle} y = Conv <group={CHANNELS}> (s, v) }}"
    rng = np.random.default_rng(3)
    spread = np.exp(rng.normal(0, 2, CHANNELS))
    weights = rng.normal(size=(CHANNELS, CHANNELS, 1, 1)) * spread[:, None, None, None]
    after = rng.normal(size=CHANNELS) / spread.reshape(3, 4).T.ravel()
    layers = {"w": weights.astype(np.float32), "v": after.astype(np.float32).reshape(-1, 1, 1, 1)}
    model = written(text, {**layers, **CONSTANTS})
    feeds = images(model, 8)
    graph = float_graph(model)
    changed, _ = prepared(graph, float_body(graph)[1], feeds, 8, None)
    assert any(name.endswith(EQUALISED) for name in changed.tensors)
    found = []
    for off in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if off:
                patch.setattr(prepare, "pairs", lambda graph, body: [])
            one = Divergence("y")
            one.extend(answers(quantise(model, feeds)[0], feeds)[0], answers(model, feeds)[0])
            found.append(one.decibels)
    assert found[1] > found[0] + 1


def test_a_form_that_answers_otherwise_is_left_out_and_told(monkeypatch):
    """A mistake of a later change would cost accuracy without a word: the check would be blind."""
    model = network(1, ("relu",))
    graph, feeds = float_graph(model), images(model, 4)

    def wrong(graph, heads, seen):
        first = next(node for node in graph.nodes if isinstance(node.op, Conv))
        scaled = {**graph.constants, first.op.weights: graph.constants[first.op.weights] * np.float32(1.01)}
        return replace(graph, constants=scaled)

    monkeypatch.setattr(prepare, "split_heads", wrong)
    kept, told = prepared(graph, float_body(graph)[1], feeds, 4, None)
    assert kept is graph
    assert "would change in float" in told[0]
    assert unlike_form(graph, wrong(graph, (), {}), feeds, 4, None)
    assert quantise(model, feeds)[1].warnings == told
    assert "differs from the model" in rewriting_warnings(model, wrong(graph, (), {}), feeds, None)[0]


def test_a_head_behind_a_selection_of_channels_is_split():
    """A selection has a weight scale for each channel of the whole; the parts would keep it, and the model could not be written."""
    text = f"""g (float[N,{CHANNELS},8,8] x) => (float[N,4,1,8,8] y, float[N,4,2,8,8] z) {{
        r = Relu (x) s = Gather <axis=1> (r, order) v = Reshape (s, view) a, z = Split <axis=2> (v, sizes) y = Exp (a) }}"""
    constants = {"order": np.arange(CHANNELS)[::-1].copy(), "view": np.array([0, 4, 3, 8, 8]), "sizes": np.array([1, 2])}
    model = written(text, constants)
    graph, feeds = float_graph(model), images(model, 4)
    feeds["x"][:, 2::3] *= 0.01
    changed, told = prepared(graph, float_body(graph)[1], feeds, 4, None)
    assert not told
    assert sum(isinstance(node.op, Conv) for node in changed.nodes) == 2
    for got, expected in zip(answers(to_model(changed), feeds), answers(model, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
