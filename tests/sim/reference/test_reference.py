"""The reference against sums written out pixel by pixel in Python integers: a wrong tap, pad, group or divisor would show."""

from itertools import product

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.sim.reference import reference
from cnna.spec import arith
from cnna.spec.errors import DataError

WINDOWS = [
    ir.Window(),
    ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ir.Window((3, 2), (2, 3), (1, 2), (0, 2, 1, 1)),
    ir.Window((2, 5), (2, 1), (2, 1), (1, 0, 2, 4)),
]


def out_size(window, size):
    return tuple(
        (size[a] + window.pads[a] + window.pads[a + 2] - (window.kernel[a] - 1) * window.dilation[a] - 1) // window.stride[a] + 1
        for a in (0, 1)
    )


def graph_of(op, shapes, out_shape, zeros, constants=None):
    """A graph of one operator; `zeros` are the inputs' zero points."""
    names = [f"x{i}" for i in range(len(shapes))]
    tensors = {name: ir.Tensor(shape, ir.Quant(0.1, zero)) for name, shape, zero in zip(names, shapes, zeros, strict=True)}
    tensors["y"] = ir.Tensor(out_shape, ir.Quant(0.2, 0))
    return ir.Graph("one", tuple(names), ("y",), (ir.Node("node", op, tuple(names), "y"),), tensors, constants or {})


def taps_of(window, y, x, size):
    """(ky, kx, row, column) of the taps of output pixel (y, x) that lie in the map."""
    for ky, kx in product(range(window.kernel[0]), range(window.kernel[1])):
        row = y * window.stride[0] - window.pads[0] + ky * window.dilation[0]
        column = x * window.stride[1] - window.pads[1] + kx * window.dilation[1]
        yield ky, kx, row, column, 0 <= row < size[0] and 0 <= column < size[1]


def weights_and_constants(rng, cout, per_group, window, extreme):
    weights = rng.integers(-128, 128, (cout, per_group, *window.kernel)).astype(np.int8)
    if extreme:
        weights[:] = -128
    return {
        "w": weights,
        "b": rng.integers(-3000, 3000, cout).astype(np.int32),
        "m": rng.integers(1 << 23, 1 << 24, cout).astype(np.int32),
        "s": rng.integers(28, 34, cout).astype(np.int32),
    }


def slow_conv(x, c, window, groups, zero, out, clamp):
    """Convolution, one output element at a time, in Python's unbounded integers."""
    n, _, *size = x.shape
    cout, per_group = c["w"].shape[:2]
    y = np.empty((n, cout, *out), np.int8)
    for image, k, row, column in product(range(n), range(cout), range(out[0]), range(out[1])):
        first = k // (cout // groups) * per_group
        acc = int(c["b"][k])
        for ky, kx, r, q, inside in taps_of(window, row, column, size):
            for i in range(per_group):
                acc += (int(x[image, first + i, r, q]) if inside else zero) * int(c["w"][k, i, ky, kx])
        y[image, k, row, column] = arith.requantise(acc, c["m"][k], c["s"][k], clamp.zero, clamp.low, clamp.high)
    return y


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", WINDOWS)
def test_conv_equals_loops(window, groups, extreme):
    rng = np.random.default_rng(1)
    c = weights_and_constants(rng, 4, 6 // groups, window, extreme)
    x = rng.integers(-128, 128, (2, 6, 7, 9)).astype(np.int8)
    clamp, out = ir.Clamp(3, 3, 90), out_size(window, (7, 9))
    graph = graph_of(ir.Conv(window, groups, "w", "b", "m", "s", clamp), [(6, 7, 9)], (4, *out), [-7], c)
    assert np.array_equal(reference.run(graph, {"x0": x})["y"], slow_conv(x, c, window, groups, -7, out, clamp))


@pytest.mark.parametrize("window", WINDOWS)
def test_depthwise_equals_grouped_loops(window):
    rng = np.random.default_rng(2)
    c = weights_and_constants(rng, 5, 1, window, False)
    x = rng.integers(-128, 128, (2, 5, 7, 9)).astype(np.int8)
    clamp, out = ir.Clamp(-20), out_size(window, (7, 9))
    graph = graph_of(ir.Depthwise(window, "w", "b", "m", "s", clamp), [(5, 7, 9)], (5, *out), [11], c)
    assert np.array_equal(reference.run(graph, {"x0": x})["y"], slow_conv(x, c, window, 5, 11, out, clamp))


def test_residual_adds_the_rounded_convolution():
    """The convolution's own int8, not its accumulator, goes into the add."""
    rng = np.random.default_rng(3)
    c = weights_and_constants(rng, 4, 4, ir.Window(), False)
    x, r = (rng.integers(-128, 128, (1, 4, 3, 3)).astype(np.int8) for _ in range(2))
    mid_clamp, combine = ir.Clamp(5), ir.Combine(*arith.factors(0.7, 5, 1.3, -9), ir.Clamp(2, 2, 127))
    conv = ir.Conv(ir.Window(), 1, "w", "b", "m", "s", mid_clamp, combine)
    graph = graph_of(conv, [(4, 3, 3)] * 2, (4, 3, 3), [1, -9], c)
    mid = slow_conv(x, c, ir.Window(), 1, 1, (3, 3), mid_clamp)
    a, b, offset, shift = arith.factors(0.7, 5, 1.3, -9)
    assert np.array_equal(reference.run(graph, {"x0": x, "x1": r})["y"], arith.combine(mid, a, r, b, offset, shift, 2, 2, 127))


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
def test_pools_equal_loops(window, include_pad):
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (2, 3, 7, 9)).astype(np.int8)
    out = out_size(window, (7, 9))
    average = ir.AveragePool(window, include_pad, 0.8, 13, ir.Clamp(-4))
    copy = ir.Combine(*arith.factors(1.0, 0), ir.Clamp(0))
    means = reference.run(graph_of(average, [(3, 7, 9)], (3, *out), [13]), {"x0": x})["y"]
    maxima = reference.run(graph_of(ir.MaxPool(window, copy), [(3, 7, 9)], (3, *out), [13]), {"x0": x})["y"]
    for image, k, row, column in product(range(2), range(3), range(out[0]), range(out[1])):
        taps = list(taps_of(window, row, column, (7, 9)))
        values = [int(x[image, k, r, q]) for _, _, r, q, inside in taps if inside]
        padding = sum(r >= 7 + window.pads[2] or q >= 9 + window.pads[3] for _, _, r, q, _ in taps)
        divisor = len(taps) - padding if include_pad else len(values)
        mult, shift = arith.multiplier(0.8 / divisor)
        assert maxima[image, k, row, column] == max(values)
        assert means[image, k, row, column] == arith.requantise(sum(values) - 13 * len(values), mult, shift, -4)


def test_elementwise_operators():
    rng = np.random.default_rng(5)
    x, z = (rng.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8) for _ in range(2))
    add = ir.Combine(*arith.factors(0.5, 4, -1.5, -6), ir.Clamp(7))
    got = reference.run(graph_of(add, [(3, 4, 5)] * 2, (3, 4, 5), [4, -6]), {"x0": x, "x1": z})["y"]
    assert np.array_equal(got, arith.combine(x, add.factor_a, z, add.factor_b, add.offset, add.shift, 7))
    columns = np.array([arith.factors(ratio, 4, constant=ratio) for ratio in (0.3, -2.0, 0.01)])
    constants = {"f": columns[:, 0], "o": columns[:, 2], "s": columns[:, 3]}
    got = reference.run(graph_of(ir.Affine("f", "o", "s", ir.Clamp(1, 1, 60)), [(3, 4, 5)], (3, 4, 5), [4], constants), {"x0": x})[
        "y"
    ]
    for k, (a, _, offset, shift) in enumerate(columns):
        assert np.array_equal(got[:, k], arith.combine(x[:, k], a, 0, 0, offset, shift, 1, 1, 60))
    got = reference.run(graph_of(ir.Concat(), [(3, 4, 5)] * 2, (6, 4, 5), [0, 0]), {"x0": x, "x1": z})["y"]
    assert np.array_equal(got, np.concatenate([x, z], axis=1))


def test_sums_beyond_float32_stay_exact(monkeypatch):
    """1,200 products of -128 * -128 pass 2^24: float32 would round the odd sums. Unfolding in parts must change nothing."""
    rng = np.random.default_rng(6)
    x = rng.integers(-128, -100, (3, 1200, 1, 1)).astype(np.int8)
    w = rng.integers(-128, -100, (2, 1200, 1, 1)).astype(np.int8)
    expected = np.einsum("nihw,oihw->no", x.astype(np.int64), w.astype(np.int64))
    monkeypatch.setattr(reference, "COLUMN_BYTES", 1)
    got = reference.accumulate(x, w, ir.Window(), 1, (1, 1), 0)
    assert np.array_equal(got[:, :, 0, 0], expected)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({}, "missing"), ({"x0": np.zeros((1, 2, 4, 5), np.int8)}, "must be int8"), ({"x0": np.zeros((1, 3, 4, 5))}, "must be int8")],
)
def test_refuses_inputs_that_do_not_fit(inputs, message):
    graph = graph_of(ir.Concat(), [(3, 4, 5)], (3, 4, 5), [0])
    with pytest.raises(DataError, match=message):
        reference.run(graph, inputs)
