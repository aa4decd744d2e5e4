"""Folded inputs: every fold is exact, the best one is chosen, and inputs that cannot be folded are left alone."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.plan.fold import apply, candidates, fold_inputs
from cnna.sim.reference import reference
from cnna.spec.config import preset
from cnna.spec.samples.pack import pack, unpack

from ... import networks
from ...graph_builder import Builder

ZCU102, TINY = preset("zcu102"), preset("tiny")


def first_layer(channels, height, cout, kernel, stride, pad):
    """A graph of one square convolution."""
    b = Builder(np.random.default_rng(1), "first")
    window = ir.Window((kernel, kernel), (stride, stride), pads=(pad, pad, pad, pad))
    return b.graph(b.conv(b.input(channels, height, height), cout, window))


def packed(fold, x, zero, ci):
    """The folded picture, as the host packs it."""
    channels, height, width = fold.shape
    row, blocks = width * ci, -(-channels // ci)
    layout = {"zero": zero, "row_bytes": row, "block_bytes": row * height, "image_bytes": row * height * blocks}
    memory = pack({**layout, "shape": x.shape[1:], "fold": fold.port()}, x, ci)
    return unpack({**layout, "shape": fold.shape}, memory, ci)


def test_every_fold_is_exact(seed):
    """With a pixel, tap or border out of place, the convolution of the folded picture would not be that of the image."""
    for case in range(seed * 1000, seed * 1000 + 120):
        graph = networks.layer(case, "first")
        (node,), (name,) = graph.nodes, graph.inputs
        x = networks.inputs(graph, 2, case)
        want = reference.run(graph, x)[node.output]
        folds = candidates(node.op.window, graph.tensors[name].shape, graph.tensors[node.output].shape)
        for number in np.random.default_rng(case).permutation(len(folds))[:6]:
            fold = folds[number]
            picture = packed(fold, x[name], graph.tensors[name].quant.zero, 4)
            got = reference.run(apply(graph, {name: fold}), {name: picture})[node.output]
            assert np.array_equal(got, want), f"networks.layer({case}, 'first'), {fold}"


def test_first_layers_of_random_shapes_are_folded(seed):
    """The agreement tests run these graphs: without a fold among them, they would test none."""
    graphs = [networks.layer(case, "first") for case in range(seed * 1000, seed * 1000 + 60)]
    assert sum(bool(fold_inputs(graph, TINY)[1]) for graph in graphs) >= 20


@pytest.mark.parametrize(
    ("layer", "channels", "kernel", "stride"),
    [
        ((3, 224, 64, 3, 2, 0), 12, (2, 2), (1, 1)),  # SqueezeNet
        ((3, 224, 32, 3, 2, 1), 12, (2, 2), (1, 1)),  # MobileNet
        ((3, 224, 64, 3, 1, 1), 9, (3, 1), (1, 1)),  # VGG
        ((3, 227, 96, 11, 4, 0), 48, (3, 3), (1, 1)),  # AlexNet
    ],
)
def test_well_known_first_layers(layer, channels, kernel, stride):
    """Steps of the array and bytes of the image are both scarce; these folds spend the least."""
    folded, folds = fold_inputs(first_layer(*layer), ZCU102)
    (fold,) = folds.values()
    assert fold.shape[0] == channels
    assert folded.nodes[0].op.window.kernel == kernel
    assert folded.nodes[0].op.window.stride == stride


@pytest.mark.parametrize("layer", [(16, 56, 32, 3, 1, 1), (64, 28, 64, 3, 2, 1), (32, 14, 64, 1, 1, 0)])
def test_full_words_are_left_alone(layer):
    """A fold would gain nothing, and the host would work for it."""
    assert not fold_inputs(first_layer(*layer), ZCU102)[1]


def test_inputs_that_others_read_are_left_alone():
    """A second reader, or the user, would see the folded picture."""
    b = Builder(np.random.default_rng(1), "shared")
    x = b.input(3, 16, 16)
    y = b.conv(x, 8, ir.Window((3, 3), (2, 2)))
    assert fold_inputs(b.graph(y), ZCU102)[1]
    assert not fold_inputs(b.graph(x, y), ZCU102)[1]
    b.affine(x)
    assert not fold_inputs(b.graph(), ZCU102)[1]


def test_grouped_and_dilated_convolutions_are_left_alone():
    b = Builder(np.random.default_rng(1), "left")
    b.conv(b.input(4, 16, 16), 8, ir.Window((3, 3), (2, 2)), groups=2)
    b.depthwise(b.input(3, 16, 16), ir.Window((3, 3), (2, 2)))
    b.conv(b.input(3, 16, 16), 8, ir.Window((3, 3), dilation=(2, 2)))
    assert not fold_inputs(b.graph(), ZCU102)[1]


def test_a_fold_never_makes_weights_that_the_packing_refuses():
    """A fold may bring weights of -128 from different words together: then the next best fold must be taken, or none."""
    graph = first_layer(3, 16, 32, 3, 2, 0)
    weights = np.full((32, 3, 3, 3), -128, np.int8)
    graph = replace(graph, constants={**graph.constants, graph.nodes[0].op.weights: weights})
    assert compile_graph(graph, ZCU102)


def test_weights_of_an_odd_number_of_channels_are_folded_for_two_decks():
    """The last channel has none beside it in the multipliers: the compiler would end in a traceback."""
    graph = first_layer(3, 16, 7, 3, 2, 0)
    weights = np.ones((7, 3, 3, 3), np.int8)
    weights[6] = -128
    graph = replace(graph, constants={**graph.constants, graph.nodes[0].op.weights: weights})
    assert compile_graph(graph, preset("zcu102x2")).inputs[0]["fold"]


def test_layers_and_ports_are_those_of_the_model():
    """A fold concerns only compiler and host: MACs, tensors and shapes must be the model's."""
    graph = first_layer(3, 33, 16, 7, 2, 3)
    program = compile_graph(graph, ZCU102)
    (port,) = program.inputs
    assert port["fold"]["shape"][0] > 3
    assert port["shape"] == [3, 33, 33]
    assert program.outputs[0]["fold"] is None
    assert program.macs == 16 * 3 * 49 * 17 * 17
    assert program.tensors[port["tensor"]]["shape"] == [3, 33, 33]
