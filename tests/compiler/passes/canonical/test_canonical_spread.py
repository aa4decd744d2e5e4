"""A map of one row or one column that becomes larger: every spelling, and every interpolation, only repeats it."""

import numpy as np
import pytest

from cnna.compiler.graph.even_runs import EvenRun, even_runs
from cnna.compiler.graph.float_ops import Pixels

from ...written import rewritten, written
from ..alone import ints

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "tf_crop_and_resize", "half_pixel_symmetric")
FILTERS = ("nearest", "linear", "cubic")
SHAPES = {"point": ((1, 1), (6, 7)), "row": ((1, 7), (5, 7)), "column": ((6, 1), (6, 9))}


def found(line, constants, before, after="?,?,?", opset=19):
    """The operators that a line becomes, and the selections among them. `rewritten` compares its answer with onnxruntime's."""
    text = f"g (float[1,{before}] x) => (float[1,{after}] y) {{ {line} }}"
    graph, kinds = rewritten(written(text, constants, opset))
    return kinds, [node.op for node in graph.nodes if isinstance(node.op, Pixels)]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("by", ["sizes", "scales"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_pixel_fills_an_axis(shape, by, how, coordinates):
    """Between one pixel and itself there is nothing to interpolate; without this the map would go to the CPU and back."""
    before, after = SHAPES[shape]
    sizes = {"s": ints(1, 3, *after)} if by == "sizes" else {"s": np.array([1, 1, *np.divide(after, before)], np.float32)}
    region = {"roi": np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)} if coordinates == "tf_crop_and_resize" else {}
    inputs = f"x, {'roi' if region else ''}, {', s' if by == 'sizes' else 's'}"
    line = f'y = Resize <mode="{how}", coordinate_transformation_mode="{coordinates}"> ({inputs})'
    kinds, chosen = found(line, {**sizes, **region}, f"3,{before[0]},{before[1]}")
    assert kinds == ["Pixels"]
    assert [(len(op.rows), len(op.columns)) for op in chosen] == [after]


OTHER = {
    "Upsample": ('y = Upsample <mode="linear"> (x, s)', {"s": np.array([1, 1, 6, 7], np.float32)}, "3,1,1", 9),
    "Upsample of a row": ("y = Upsample (x, s)", {"s": np.array([1, 1, 6, 1], np.float32)}, "3,1,7", 9),
    "Resize of opset 10": ('y = Resize <mode="linear"> (x, s)', {"s": np.array([1, 1, 6, 7], np.float32)}, "3,1,1", 10),
    "named axes": ('y = Resize <mode="linear", axes=[3,2]> (x, , , s)', {"s": ints(7, 6)}, "3,1,1", 19),
    "a policy": (
        'y = Resize <mode="linear", axes=[2,3], keep_aspect_ratio_policy="not_smaller"> (x, , , s)',
        {"s": ints(6, 7)},
        "3,1,1",
        19,
    ),
    "Expand": ("y = Expand (x, s)", {"s": ints(1, 3, 6, 7)}, "3,1,1", 19),
    "Expand by fewer axes": ("y = Expand (x, s)", {"s": ints(6, 7)}, "3,1,1", 19),
    "Expand of a row": ("y = Expand (x, s)", {"s": ints(1, 1, 5, 1)}, "3,1,7", 19),
    "Tile": ("y = Tile (x, s)", {"s": ints(1, 1, 6, 7)}, "3,1,1", 19),
    "Tile of a map": ("y = Tile (x, s)", {"s": ints(1, 1, 2, 3)}, "3,4,5", 19),
    "Pad with edges": ('y = Pad <mode="edge"> (x, s)', {"s": ints(0, 0, 2, 3, 0, 0, 3, 3)}, "3,1,1", 19),
    "Gather": ("y = Gather <axis=2> (x, s)", {"s": ints(0, 0, 0, 0)}, "3,1,5", 19),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_spellings(name):
    """The same repetition, as old exports, TensorFlow's, or a broadcast of a model's own write it."""
    line, constants, before, opset = OTHER[name]
    kinds, _ = found(line, constants, before, opset=opset)
    assert set(kinds) == {"Pixels"}


def test_channels_are_repeated_too():
    """An Expand along the channels selects them; rows and columns may follow."""
    assert found("y = Expand (x, s)", {"s": ints(1, 5, 1, 1)}, "1,4,6")[0] == ["Conv"]
    assert found("y = Expand (x, s)", {"s": ints(5, 4, 6)}, "1,1,1")[0] == ["Conv", "Pixels"]


@pytest.mark.parametrize(("before", "after"), [((1, 5), (7, 10)), ((4, 1), (16, 9)), ((1, 5), (6, 5))])
def test_the_other_axis_may_interpolate(before, after):
    """A row that becomes a map twice as wide needs an interpolation along the row alone, and then the selection."""
    line = 'y = Resize <mode="linear"> (x, , , s)'
    kinds, _ = found(line, {"s": ints(1, 3, *after)}, f"3,{before[0]},{before[1]}")
    assert kinds == (["Pixels"] if 5 in after else ["Bilinear", "Pixels"])


def test_a_part_of_an_axis_is_no_repetition():
    """tf_crop_and_resize may take a part of the other axis though its size stays; that must not be taken for the whole axis."""
    region = np.array([0, 0, 0, 0.25, 1, 1, 1, 0.75], np.float32)
    line = 'y = Resize <mode="nearest", coordinate_transformation_mode="tf_crop_and_resize"> (x, roi, , s)'
    assert found(line, {"roi": region, "s": ints(1, 3, 6, 8)}, "3,1,8")[0] == ["Resize"]
    assert found(line, {"roi": region, "s": ints(1, 3, 6, 8)}, "3,6,8")[0] == ["Resize"]


def test_repetitions_of_one_pixel_are_one_run():
    """Each run is a command of its own; a broadcast to 33 rows would be 33 of them."""
    assert even_runs([2] * 33) == [EvenRun(0, 1, 2, 0, 33)]
    assert even_runs([0]) == [EvenRun(0, 1, 0, 1, 1)]
