"""Pools of `ceil_mode`: a last window that starts beyond the input is dropped, as onnxruntime does and shape inference does not.

`rewritten` runs every graph against onnxruntime on the model as it is: a window too many would be a wrong value.
"""

import numpy as np
import onnx
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph
from cnna.spec.errors import ModelError

from ...written import answers, images, rewritten, written

AXES = {  # size, kernel, stride, front and back padding
    "dropped, in the padding": (8, 3, 3, 0, 2),
    "spare, one window is left": (3, 2, 4, 1, 1),
    "spare, no padding": (6, 1, 4, 0, 0),
    "spare, behind a gap": (7, 3, 4, 1, 2),
    "kept in the input": (7, 2, 3, 0, 0),
    "kept, half over the edge": (6, 3, 2, 1, 1),
    "exact": (5, 3, 2, 2, 0),
}
POOLS = {"MaxPool": "", "AveragePool": "", "AveragePool with padding": ", count_include_pad=1"}


def pool_of(rows, columns, pool="MaxPool", opset=17):
    size, kernel, strides, front, back = ([a, b] for a, b in zip(rows, columns, strict=True))
    attributes = f"kernel_shape={kernel}, strides={strides}, pads={front + back}, ceil_mode=1{POOLS[pool]}"
    text = f"g (float[N,2,{size[0]},{size[1]}] x) => (float[N,2,H,W] y) {{ y = {pool.split()[0]} <{attributes}> (x) }}"
    return written(text, opset=opset)


def same(model: onnx.ModelProto) -> None:
    """Checks that the values, and the size that the graph was given, are onnxruntime's."""
    graph, _ = rewritten(model)
    (expected,) = answers(model, images(model))
    assert graph.tensors[graph.outputs[0]].shape[1:] == expected.shape[1:]


@pytest.mark.parametrize("opset", [13, 19, 22])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("columns", AXES)
@pytest.mark.parametrize("rows", AXES)
def test_windows_are_those_of_onnxruntime(rows, columns, pool, opset):
    """A window would be counted that onnxruntime drops. If padding counts, one that is kept on one axis only is refused."""
    model = pool_of(AXES[rows], AXES[columns], pool, opset)
    spare, kept = (any(key.startswith(start) for key in (rows, columns)) for start in ("spare", "kept"))
    if spare and kept and "with" in pool:
        with pytest.raises(ModelError, match=r"node 'y' \(AveragePool\): ceil_mode=1 .* export it with ceil_mode=0"):
            load_model(model.SerializeToString())
    else:
        same(model)


@pytest.mark.parametrize(("mode", "kernel"), [("SAME_UPPER", 4), ("SAME_LOWER", 4), ("VALID", 4), ("VALID", 2), ("VALID", 1)])
@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_automatic_padding(size, mode, kernel):
    attributes = f'kernel_shape=[{kernel},{kernel}], strides=[3,4], auto_pad="{mode}", ceil_mode=1'
    same(written(f"g (float[N,2,{size},{size}] x) => (float[N,2,H,W] y) {{ y = MaxPool <{attributes}> (x) }}"))


def test_one_axis():
    pool = "AveragePool <kernel_shape=[3], strides=[3], pads=[0,2], ceil_mode=1>"
    same(written(f"g (float[N,2,8] x) => (float[N,2,L] y) {{ y = {pool} (x) }}"))


def test_what_follows_takes_the_right_size():
    """If the first pool had the size that shape inference gives it, the second pool and the convolution would be wrong too."""
    text = """g (float[N,2,23,23] x) => (float[N,3,H,W] y) {
        a = MaxPool <kernel_shape=[3,3], strides=[3,3], pads=[0,0,2,2], ceil_mode=1> (x)
        b = AveragePool <kernel_shape=[2,2], strides=[3,3], pads=[0,0,1,1], ceil_mode=1> (a)
        c = MaxPool <kernel_shape=[1,1], strides=[2,2], ceil_mode=1> (b)
        y = Conv <kernel_shape=[1,1]> (c, w)}"""
    same(written(text, {"w": (3, 2, 1, 1)}))


def test_a_quantised_model():
    text = """g (float[N,2,8,8] x) => (float[N,2,H,W] y) {
        a = QuantizeLinear (x, s, z)
        b = DequantizeLinear (a, s, z)
        c = MaxPool <kernel_shape=[3,3], strides=[3,3], pads=[0,0,2,2], ceil_mode=1> (b)
        d = QuantizeLinear (c, s, z)
        y = DequantizeLinear (d, s, z)}"""
    model = written(text, {"s": np.float32(0.05), "z": np.int8(3)})
    assert to_graph(load_model(model.SerializeToString())).tensors["y"].shape == answers(model, images(model, 1))[0].shape


def qlinear_pool(rows, columns):
    """A QLinearAveragePool of `ceil_mode` and `count_include_pad`, whose kernel always divides by the whole window."""
    size, kernel, strides, front, back = ([a, b] for a, b in zip(rows, columns, strict=True))
    attributes = f"kernel_shape={kernel}, strides={strides}, pads={front + back}, ceil_mode=1, count_include_pad=1"
    scales = {"s": np.float32(0.03125), "z": np.uint8(100), "t": np.float32(0.015625), "u": np.uint8(90)}
    text = f"""g (float[N,2,{size[0]},{size[1]}] x) => (float[N,2,H,W] y) {{
        a = QuantizeLinear (x, s, z)
        b = com.microsoft.QLinearAveragePool <{attributes}> (a, s, z, t, u)
        y = DequantizeLinear (b, t, u)
    }}"""
    return written(text, scales)


@pytest.mark.parametrize("columns", AXES)
@pytest.mark.parametrize("rows", AXES)
def test_a_qlinear_pool_divides_by_its_whole_window(rows, columns):
    """Without the pixels beyond the edge, as AveragePool divides, it would be off by up to the window's size."""
    model = qlinear_pool(AXES[rows], AXES[columns])
    graph = to_graph(load_model(model.SerializeToString()))
    feeds = images(model)
    (expected,) = answers(model, feeds)
    (got,) = answers(to_model(graph), feeds)
    assert graph.tensors[graph.outputs[0]].shape[1:] == expected.shape[1:]
    assert np.abs(got - expected).max() <= 0.016  # one step, where the sum is a tie


def test_a_pool_behind_one_that_is_rewritten_is_seen_at_its_true_size():
    """Shape inference counts a window that the first pool drops; one pixel too many, and the second would keep one that it must
    drop.
    """
    same(
        written(
            """g (float[N,2,4,4] x) => (float[N,2,H,W] y) {
                a = MaxPool <kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1> (x)
                y = MaxPool <kernel_shape=[2,2], strides=[2,2], pads=[0,0,1,1], ceil_mode=1> (a)}"""
        )
    )
