"""Computes what depends on constants alone, with ONNX's own reference evaluator."""

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from cnna.compiler.editor import Editor
from cnna.compiler.float_ops import Onnx, scale_name
from cnna.compiler.ir import Graph, Node
from cnna.host.errors import ModelError

QUANTISED = ("QuantizeLinear", "DequantizeLinear")  # whose scales must not get lost; `dequantise_constants` sees to them
ELEMENTS_MAX = 1 << 26  # a constant beyond this is more likely a mistake


def fold_constants(graph: Graph) -> Graph:
    """Turns Constant, Shape of a known shape and every operator with constant inputs into constants."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or node.op.more_outputs or node.op.kind in QUANTISED:
            continue
        if node.output in edit.outputs or any(scale_name(name) in edit.constants for name in node.inputs):
            continue
        if node.op.kind == "Constant":
            value = _constant(node.op)
        elif node.op.kind == "Shape" and not node.op.attributes and _known(edit, node.inputs[0]):
            value = np.array(edit.shape(node.inputs[0]), np.int64)
        elif node.inputs and all(name in edit.constants or not name for name in node.inputs):
            value = _evaluate(node, edit, graph.opset)
        else:
            continue
        edit.remove(node)
        edit.constants[node.output] = value
    return edit.finish()


def _known(edit: Editor, tensor: str) -> bool:
    shape = edit.shape(tensor)
    return bool(shape) and min(shape) > 0


def _constant(op: Onnx) -> np.ndarray:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if name in op.attributes:
            kind = np.float32 if "float" in name else np.int64
            return np.asarray(op.attributes[name], None if name == "value" else kind)
    raise ModelError(f"a Constant with {', '.join(op.attributes)} is not supported")


def _evaluate(node: Node, edit: Editor, opset: int) -> np.ndarray:
    attributes = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.op.attributes.items()
    }
    made = helper.make_node(node.op.kind, list(node.inputs), [node.output], **attributes)
    feeds = {name: edit.constants[name] for name in node.inputs if name}
    model_inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    graph = helper.make_graph([made], "constant", model_inputs, [onnx.ValueInfoProto(name=node.output)])
    try:
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
        answers = evaluator.run(None, feeds)
    except Exception as error:  # the evaluator raises whatever numpy does
        raise ModelError(f"node '{node.name}' ({node.op.kind}) has constant inputs but cannot be computed: {error}") from None
    assert isinstance(answers, list)
    value = np.asarray(answers[0])
    if value.size > ELEMENTS_MAX:
        raise ModelError(
            f"node '{node.name}' ({node.op.kind}) makes a constant of {value.size} elements; the limit is {ELEMENTS_MAX}"
        )
    return value
