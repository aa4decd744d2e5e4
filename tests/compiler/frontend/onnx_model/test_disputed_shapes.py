"""Windows whose size ONNX and onnxruntime compute differently are refused when a model is read."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from cnna.compiler.frontend.onnx_import import load_model
from cnna.spec.errors import ModelError

from ...written import Shapes, answers, images, written

WEIGHTS: Shapes = {"w": (2, 3, 3, 3)}
PLANE, SPACE = "float[N,2,7,7]", "float[N,2,5,5,5]"
DISPUTED = {
    "auto_pad": (PLANE, 'ConvTranspose <auto_pad="SAME_UPPER", output_padding=[1,1], strides=[2,2]> (x, w)', "auto_pad"),
    "lower": (PLANE, 'ConvTranspose <auto_pad="SAME_LOWER", output_padding=[1,1], strides=[3,3]> (x, w)', "auto_pad"),
    "dilated": (PLANE, 'MaxPool <auto_pad="SAME_UPPER", dilations=[2,2], kernel_shape=[3,3]> (x)', "auto_pad"),
    "three axes": (SPACE, "MaxPool <ceil_mode=1, kernel_shape=[2,2,2], pads=[1,1,1,1,1,1], strides=[2,2,2]> (x)", "ceil_mode"),
    "norm": (PLANE, "LpPool <ceil_mode=1, kernel_shape=[2,2], pads=[1,1,1,1], strides=[2,2]> (x)", "ceil_mode"),
}
AGREED = {
    "auto_pad": (PLANE, 'ConvTranspose <auto_pad="SAME_UPPER", strides=[2,2]> (x, w)'),
    "output_shape": (PLANE, "ConvTranspose <output_shape=[13,14], strides=[2,2]> (x, w)"),
    "padded": (PLANE, "ConvTranspose <output_padding=[1,1], strides=[2,2]> (x, w)"),
    "pool": (PLANE, 'AveragePool <auto_pad="SAME_LOWER", kernel_shape=[3,3], strides=[2,2]> (x)'),
    "settled": (PLANE, "MaxPool <ceil_mode=1, kernel_shape=[2,2], pads=[1,1,1,1], strides=[2,2]> (x)"),
    "three axes": (SPACE, "MaxPool <ceil_mode=1, kernel_shape=[2,2,2], strides=[2,2,2]> (x)"),
}


def made(shape: str, node: str) -> ModelProto:
    text = f"g ({shape} x) => (float[N,?,?,?] y) {{ [odd] y = {node} }}"
    model = written(text, WEIGHTS if "(x, w)" in node else {}, opset=18)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", DISPUTED)
def test_a_disputed_size_is_refused(name: str) -> None:
    """It ended at `run`, with a line about a stale artifact. Both sizes are computed here by those who disagree."""
    shape, node, attribute = DISPUTED[name]
    model = made(shape, node)
    theirs = answers(model, images(model, 1))[0].shape[2:]
    onnx_says = [dim.dim_value for dim in onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[2:]]
    both = f"{' x '.join(map(str, onnx_says))} by ONNX's rules and {' x '.join(map(str, theirs))} in onnxruntime"
    assert tuple(onnx_says) != theirs
    with pytest.raises(ModelError, match=rf"node 'odd' \(.*\): its output is {both}; .* without {attribute}"):
        load_model(model.SerializeToString())


@pytest.mark.parametrize("name", AGREED)
def test_a_size_on_which_all_agree_is_read(name: str) -> None:
    """A check that is too strict would refuse what runs."""
    model = made(*AGREED[name])
    read = load_model(model.SerializeToString())
    assert np.isfinite(answers(read, images(model))[0]).all()
