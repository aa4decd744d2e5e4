"""Writes float16, bfloat16 and double tensors of a model as float32, in place. `source_model` calls it.

The accelerator quantises float32, and the passes know no other floats. A float16 model answers at least as precisely as before; a
double model answers with float32's 24 bits. Integers stay.
"""

from collections.abc import Iterable

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import is_hollow
from cnna.compiler.frontend.onnx_model.subgraphs import graphs_of

FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
NAMING = ("to", "dtype", "stash_type", "output_dtype", "precision")  # attributes that name an element type


def to_float32(graph: GraphProto) -> None:
    """Converts every tensor, attribute and type, also in graphs inside nodes. Tensors without data (`hollow`) only change type."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        _convert_type(value.type)
    for tensor in graph.initializer:
        _convert_tensor(tensor)
    for node in graph.node:
        _convert_node(node)
        for inner in graphs_of(node):
            to_float32(inner)


def _convert_type(kind: TypeProto) -> None:
    form = kind.WhichOneof("value")
    if form == "tensor_type" and kind.tensor_type.elem_type in FLOATS:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    elif form in ("sequence_type", "optional_type"):
        _convert_type(getattr(kind, form).elem_type)


def _convert_node(node: NodeProto) -> None:
    for entry in node.attribute:
        if entry.name in NAMING and entry.type == AttributeProto.INT and entry.i in FLOATS:
            entry.i = TensorProto.FLOAT
        for tensor in _tensors(entry):
            _convert_tensor(tensor)


def _tensors(entry: AttributeProto) -> Iterable[TensorProto]:
    return (*([entry.t] if entry.type == AttributeProto.TENSOR else ()), *entry.tensors)


def _convert_tensor(tensor: TensorProto) -> None:
    if tensor.data_type not in FLOATS:
        return
    if not is_hollow(tensor):
        with np.errstate(over="ignore"):  # a double beyond float32, such as a Clip's limit, becomes infinity
            value = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    tensor.data_type = TensorProto.FLOAT
