"""A model for smaller images: the same nodes and weights with fewer pixels, whose program is like the whole one and takes less.

For `cnna explore --confirm`, which runs on the RTL what was predicted.
"""

from collections.abc import Sequence

import onnx
from onnx import ModelProto, ValueInfoProto, shape_inference

from cnna.compiler.frontend.onnx_model.input_shapes import inputs_of

STEP = 32  # pixels: most networks halve their images five times


def image_size(model: ModelProto) -> tuple[int, int] | None:
    """Rows and columns of the model's largest image; None: no input has rows and columns of known number."""
    return max(map(_size, _images(model)), key=lambda size: size[0] * size[1], default=None)


def sizes(model: ModelProto) -> list[int]:
    """The longer edges to which the model's images may be made smaller, the greatest first: each half of the one before."""
    own = image_size(model)
    edges: list[int] = []
    edge = max(own) // 2 // STEP * STEP if own else 0
    while edge >= STEP:
        edges.append(edge)
        edge = edge // 2 // STEP * STEP
    return edges


def smaller(model: ModelProto, edge: int) -> ModelProto | None:
    """The model for images whose longer edge is `edge` pixels; other edges shrink by the same factor, to multiples of STEP.

    None: the nodes do not take them, such as a Reshape to a fixed number of pixels.
    """
    own = image_size(model)
    assert own is not None, "a caller asks `image_size` first"
    made = ModelProto()
    made.CopyFrom(model)
    for value in _images(made):
        dims = value.type.tensor_type.shape.dim[2:]
        for dim in dims:
            dim.dim_value = max(min(STEP, dim.dim_value), round(dim.dim_value * edge / max(own) / STEP) * STEP)
    del made.graph.value_info[:]
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        return shape_inference.infer_shapes(made, check_type=True, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None


def _images(model: ModelProto) -> Sequence[ValueInfoProto]:
    return [value for value in inputs_of(model) if len(value.type.tensor_type.shape.dim) == 4 and min(_size(value)) > 1]


def _size(value: ValueInfoProto) -> tuple[int, int]:
    rows, columns = value.type.tensor_type.shape.dim[2:]
    return rows.dim_value, columns.dim_value
