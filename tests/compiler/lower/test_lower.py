"""Each operator goes to its engine, with as few blocks and parts as its channels allow."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.compiler.lower.kernels import ConvKernel, VectorKernel
from cnna.compiler.lower.lower import lower, macs_of
from cnna.spec.arith import unpack_params
from cnna.spec.config import preset
from cnna.spec.errors import ModelError

from ... import networks
from ...graph_builder import Builder
from .test_concat import same
from .test_weights import ring_words

TINY = preset("tiny")


def kernels(make, config=TINY):
    b = Builder(np.random.default_rng(1), "case")
    return lower(b.graph(make(b)), config).kernels


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("conv", ConvKernel),
        ("grouped", ConvKernel),
        ("residual", ConvKernel),
        ("fully_connected", ConvKernel),
        ("multiplied", ConvKernel),
        ("depthwise", VectorKernel),
        ("max_pool", VectorKernel),
        ("average_pool", VectorKernel),
        ("add", VectorKernel),
        ("affine", VectorKernel),
        ("copy", VectorKernel),
    ],
)
def test_every_operator_has_its_engine(kind, engine):
    """An operator would become more than one kernel, or run on the wrong engine."""
    for case in range(5):
        graph = networks.layer(case, kind)
        (kernel,) = lower(graph, TINY).kernels
        assert isinstance(kernel, engine)
        assert kernel.tensor == graph.outputs[0]


def test_a_dense_convolution_is_one_part_over_all_blocks():
    (kernel,) = kernels(lambda b: b.conv(b.input(10, 4, 4), 20, ir.Window()))
    assert [(p.first_chunk, p.chunks, p.first_block, p.blocks) for p in kernel.parts] == [(0, 3, 0, 3)]


def test_groups_on_chunk_boundaries_read_their_own_blocks_only():
    """Two groups of 16 outputs and 8 inputs must become two chunks each, over two blocks."""
    (kernel,) = kernels(lambda b: b.conv(b.input(16, 4, 4), 32, ir.Window(), groups=2))
    assert [(p.first_chunk, p.chunks, p.first_block, p.blocks) for p in kernel.parts] == [(0, 2, 0, 2), (2, 2, 2, 2)]


def test_groups_off_boundaries_are_spread_over_the_blocks_they_touch():
    """Groups of 6 outputs and 3 inputs: chunk 1 (outputs 8..15) needs groups 1 and 2, inputs 3..8, blocks 0..2."""
    (kernel,) = kernels(lambda b: b.conv(b.input(9, 4, 4), 18, ir.Window(), groups=3))
    assert [(p.first_block, p.blocks) for p in kernel.parts] == [(0, 2), (0, 3), (1, 2)]


def test_a_depthwise_kernel_beyond_the_vector_ring_goes_to_the_array():
    (kernel,) = kernels(lambda b: b.depthwise(b.input(4, 30, 30), ir.Window((29, 29))))
    assert isinstance(kernel, ConvKernel)


def test_an_average_over_borders_is_a_rectangle_for_each_count():
    """With padding, 3 x 3 has corners, edges and an inside; if the padding counts, there is one rectangle."""
    window = ir.Window((3, 3), pads=(1, 1, 1, 1))
    (kernel,) = kernels(lambda b: b.average_pool(b.input(4, 5, 6), window))
    assert len(kernel.parts) == 9
    covered = np.zeros((5, 6), int)
    for part in kernel.parts:
        covered[slice(*part.rows), slice(*part.columns)] += 1
    assert (covered == 1).all()
    (kernel,) = kernels(lambda b: b.average_pool(b.input(4, 5, 6), window, include_pad=True))
    assert len(kernel.parts) == 1


def test_macs_are_counted_as_the_model_counts_them():
    """Padding must count, groups once, and pools or adds not at all."""
    b = Builder(np.random.default_rng(1), "macs")
    x = b.input(6, 5, 5)
    y = b.conv(x, 4, ir.Window((3, 3), pads=(1, 1, 1, 1)), groups=2)
    z = b.depthwise(y, ir.Window((2, 2)))
    graph = b.graph(b.max_pool(z, ir.Window((2, 2))))
    assert [macs_of(graph, node) for node in graph.nodes] == [4 * 25 * 3 * 9, 4 * 16 * 4, 0]


def test_weights_that_overflow_the_packed_multiplier_are_named():
    """Sums would be silently wrong where a whole cascade of -128 meets inputs of -128."""
    config = preset("zcu102")
    b = Builder(np.random.default_rng(1), "case")
    graph = b.graph(b.conv(b.input(config.ci, 4, 4), 8, ir.Window()))
    weights = graph.nodes[0].op.weights
    low = np.full_like(graph.constants[weights], -128)
    with pytest.raises(ModelError, match=r"case: node 'conv_0': .* weights of -128 .*quantise weights to -127\.\.127"):
        lower(replace(graph, constants={**graph.constants, weights: low}), config)
    assert lower(replace(graph, constants={**graph.constants, weights: low + 1}), config).kernels


def test_a_selection_picks_each_channel_once():
    """A convolution packs a concatenation off block borders; a weight elsewhere would give another channel's values."""
    b = Builder(np.random.default_rng(1), "case")
    x = b.input(4, 3, 3)
    zero = b.zero(x)
    made = lower(b.graph(b.concat(*(same(b, x, count) for count in (6, 5)))), TINY).kernels
    kernel = made[-1]
    chosen = np.zeros((2 * TINY.co, 4 * TINY.ci), int)
    for part in kernel.parts:
        words = ring_words(part.stream, TINY)
        weights = words[TINY.param_words :].view(np.int8).reshape(part.blocks, TINY.co, TINY.ci)
        rows = slice(part.first_chunk * TINY.co, (part.first_chunk + 1) * TINY.co)
        chosen[rows, part.first_block * TINY.ci : (part.first_block + part.blocks) * TINY.ci] = np.hstack(list(weights))
        offset, factor, shift = unpack_params(words[: TINY.param_words].reshape(-1).view("<u8")[: TINY.co])
        used = chosen[rows].any(axis=1)
        assert offset.tolist() == np.where(used, 0, zero).tolist()
        assert (factor == 1 << shift).all()
    assert [np.flatnonzero(row).tolist() for row in chosen[:11]] == [[n] for n in (*range(6), *range(8, 13))]
    assert chosen.sum() == 11
    assert (kernel.mid.low, kernel.mid.high, kernel.add, kernel.window) == (-128, 127, None, ir.Window())


def test_a_tensor_without_quantisation_is_named():
    """Its zero point would be asked of nothing, and the user would see a traceback."""
    b = Builder(np.random.default_rng(1), "case")
    graph = b.graph(b.conv(b.input(4, 4, 4), 8, ir.Window()))
    tensors = {name: replace(tensor, quant=None) for name, tensor in graph.tensors.items()}
    with pytest.raises(ModelError, match=r"case: tensor '.*' is not quantised; run `cnna quantize` first"):
        lower(replace(graph, tensors=tensors), TINY)


@pytest.mark.parametrize("kind", ["conv", "residual", "add", "copy"])
def test_the_second_operand_is_that_of_the_node(kind):
    """A sum would read its first operand twice, or a convolution a residual that it has not."""
    graph = networks.layer(0, kind)
    made = lower(graph, TINY)
    (kernel,) = made.kernels
    maps = [view.map if view else None for view in (kernel.source, kernel.second)]
    assert maps == [*graph.nodes[0].inputs, None][:2]


def test_limits_of_a_residual_are_those_of_its_sum():
    """The convolution rounds before the sum: with the limits of one place at the other, a Relu would cut other values."""
    for case in range(5):
        graph = networks.layer(case, "residual")
        (kernel,) = lower(graph, TINY).kernels
        op = graph.nodes[-1].op
        assert (kernel.mid, kernel.add, kernel.out) == (op.out, op.residual, op.residual.out)


def test_the_engines_get_the_shifts_that_a_layer_has():
    """A channel would be rounded at another bit, by 1 or by 55 as much as in between: its answers would be halved or doubled."""
    shifts = np.array([1, 2, 24, 55])
    for grow in (Builder.depthwise, lambda b, x, window: b.conv(x, 4, window), lambda b, x, window: b.affine(x)):
        b = Builder(np.random.default_rng(1), "shifts")
        graph = b.graph(grow(b, b.input(4, 3, 3), ir.Window()))
        op = graph.nodes[0].op
        lowered = lower(replace(graph, constants={**graph.constants, op.shift: shifts}), TINY)
        (part,) = lowered.kernels[0].parts
        fields = np.ascontiguousarray(part.stream.data).view("<u8")[0, : len(shifts)]
        assert unpack_params(fields)[2].tolist() == shifts.tolist()
