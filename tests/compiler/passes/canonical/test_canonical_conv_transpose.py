"""Transposed convolutions as interleaved ones."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.passes.canonical.canonical_conv_transpose import canonical_conv_transpose

from ...written import rewritten, written
from ..alone import after, kinds, left_alone, untyped

SHAPE = "g (float[N,6,5,7] x) => (float[N,?,?,?] y) {{ y = ConvTranspose <{how}> (x, w) }}"


@pytest.mark.parametrize(
    ("how", "weights", "found"),
    [
        ("strides=[2,2]", (6, 3, 2, 2), ["Conv"] * 4 + ["Interleave"]),
        ("strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]", (6, 3, 3, 3), ["Conv"] * 4 + ["Interleave"]),
        ("strides=[2,2], pads=[1,1,1,1]", (6, 3, 3, 3), ["Conv"] * 4 + ["Interleave", "Pixels"]),
        ("strides=[3,3], group=6", (6, 1, 2, 5), ["Conv"] * 9 + ["Interleave", "Pixels"]),
        ("strides=[1,1], pads=[1,0,0,1], dilations=[2,1]", (6, 5, 3, 4), ["Conv"]),
    ],
)
def test_phases(how, weights, found):
    """With a weight in the wrong phase, or a row too many in front, the map would be shifted."""
    graph = after(canonical_conv_transpose, untyped(SHAPE.format(how=how), {"w": weights}), 1e-4)
    assert kinds(graph) == found


def test_random_ones(seed):
    """Random strides, kernels, paddings, dilations and groups must give onnxruntime's answer; in time every pair comes up."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        stride, groups = int(rng.integers(1, 5)), int(rng.choice([1, 2, 6]))
        how = {
            "strides": [stride] * 2,
            "pads": rng.integers(0, 3, 4).tolist(),
            "dilations": rng.integers(1, 3, 2).tolist(),
            "output_padding": rng.integers(0, stride, 2).tolist(),
        }
        text = ", ".join(f"{key}={value}" for key, value in how.items())
        weights = {"w": (6, int(rng.integers(1, 4)), *rng.integers(2, 6, 2).tolist())}
        _, found = rewritten(written(SHAPE.format(how=f"{text}, group={groups}"), weights))
        assert "ConvTranspose" not in found


@pytest.mark.parametrize("how", ["strides=[2,1]", 'auto_pad="SAME_UPPER"', "output_shape=[10,14], strides=[2,2]"])
def test_what_stays(how):
    """Forms that the phases do not cover must be left to the CPU, not guessed."""
    assert left_alone(canonical_conv_transpose, untyped(SHAPE.format(how=how), {"w": (6, 3, 2, 2)}))


def test_phases_have_no_more_taps_than_the_kernel():
    """The work must be that of the kernel: 16 taps for 4 x 4, where a map filled with zeros would take 64."""
    how = "strides=[2,2], pads=[1,1,1,1]"
    graph = canonical_conv_transpose(untyped(SHAPE.format(how=how), {"w": (6, 3, 4, 4)}))
    convs = [node.op for node in graph.nodes if isinstance(node.op, Conv)]
    assert [conv.window.kernel for conv in convs] == [(2, 2)] * 4
