"""Computes operators whose inputs are constant, with ONNX's reference evaluator, and infers the shapes that this makes known.

Requires: a graph of ONNX operators only, as `onnx_import` makes it.
Ensures: no Constant, no Shape or Size of known sizes and no operator with constant inputs is left. All shapes that ONNX can infer
are known.
Leaves alone: Q and DQ of constants, because `dequantise_constants` needs their scales; outputs of the model; nodes that contain
graphs; custom domains.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import onnx
from onnx import helper

from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import AnyNode, Graph, Node
from cnna.compiler.graph.node_names import place
from cnna.spec.errors import ModelError

QUANTISED = ("QuantizeLinear", "DequantizeLinear")  # not folded: `dequantise_constants` needs their scales
NESTED = ("If", "Loop", "Scan", "SequenceMap")  # they contain graphs that read tensors by name
SMALL = 64  # elements; larger constants do not determine shapes
ELEMENTS_MAX = 1 << 26  # a constant beyond this is more likely a mistake


def fold_constants(graph: Graph) -> Graph:
    """Returns the graph with constants computed.

    A folded value may be the target of a Reshape. That makes its shape known, and with it the next Shape can be folded. So
    folding and shape inference alternate until nothing more becomes known.

    ModelError: an operator cannot be computed; a constant is too large.
    """
    while True:
        graph = _fold(graph)
        known = infer_again(graph)
        if known is graph:
            return graph
        graph = known


def infer_again(graph: Graph) -> Graph:
    """Fills in the shapes that ONNX infers. Returns the same graph if it infers nothing new."""
    unknown = {name for node in graph.nodes for name in outputs_of(node) if name and not _whole(graph.tensors[name].shape)}
    if not unknown:
        return graph
    small = {name: value for name, value in graph.constants.items() if value.size <= SMALL}
    types = {name: helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for name, kind in graph.types.items() if kind}
    inputs = [
        helper.make_tensor_value_info(name, types.get(name, onnx.TensorProto.FLOAT), graph.tensors[name].shape)
        for name in graph.inputs
    ]
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in graph.constants.items()
        if name not in small
    ]
    nodes = [_as_node(node) for node in graph.nodes if isinstance(node.op, Onnx)]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in small.items()]
    strangers = [name for node in graph.nodes if getattr(node.op, "domain", "") for name in outputs_of(node) if name]
    # onnx infers nothing for other domains, but reads what is said of their tensors.
    known = [
        helper.make_tensor_value_info(name, types.get(name, onnx.TensorProto.FLOAT), graph.tensors[name].shape)
        for name in strangers
        if graph.tensors[name].shape and graph.types.get(name, "float32")
    ]
    opsets = [helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in nodes} - {""})]
    model = helper.make_model(
        helper.make_graph(nodes, "shapes", inputs, [], tensors, value_info=known),
        opset_imports=[helper.make_opsetid("", graph.opset), *opsets],
    )
    found = {}
    for value in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info:
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.name in unknown and shape != graph.tensors[value.name].shape:
            found[value.name] = replace(graph.tensors[value.name], shape=shape)
    return replace(graph, tensors={**graph.tensors, **found}) if found else graph


def _whole(shape: tuple[int, ...]) -> bool:
    """Whether a shape is known. () counts as unknown, although it may be the shape of a scalar."""
    return bool(shape) and min(shape) > 0


def _fold(graph: Graph) -> Graph:
    edit = Editor(graph)
    for node in edit:
        if not is_foldable(node, edit) or node.op.kind in QUANTISED:
            continue
        if any(name in edit.scales for name in node.inputs):
            continue
        if node.op.kind == "Constant":
            values = [_constant(node.op)]
        elif node.op.kind in ("Shape", "Size") and node.inputs[0] not in edit.constants:
            sizes = asked_sizes(node.op.kind, node.op.attributes, edit.shape(node.inputs[0]))
            if sizes is None:
                continue
            values = [sizes]
        elif node.inputs and all(name in edit.constants or not name for name in node.inputs):
            values = computed(node, {name: edit.constants[name] for name in node.inputs if name}, graph)
        else:
            continue
        edit.remove(node)
        edit.constants.update(zip(outputs_of(node), values, strict=True))
    return edit.finish()


def is_foldable(node: AnyNode, edit: Editor) -> TypeGuard[Node[Onnx]]:
    """Whether constants may take the place of a node's outputs. Of several outputs, only a Split's are all its value."""
    op = node.op
    if not isinstance(op, Onnx) or op.domain or op.kind in NESTED or (op.more_outputs and op.kind != "Split"):
        return False
    return all(name and name not in edit.outputs for name in outputs_of(node))


def asked_sizes(kind: str, attributes: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray | None:
    """What a Shape or Size gives, if it is known; of other axes than those from `start` to `end` a Shape says nothing."""
    if kind == "Size":
        return np.array(np.prod(shape, dtype=np.int64)) if _whole(shape) else None
    asked = shape[attributes.get("start", 0) : attributes.get("end")]
    return np.array(asked, np.int64) if shape and min(asked, default=1) > 0 else None


def _constant(op: Onnx) -> np.ndarray:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if name in op.attributes:
            kind = np.float32 if "float" in name else np.int64
            return np.asarray(op.attributes[name], None if name == "value" else kind)
    raise ModelError(f"a Constant with {', '.join(op.attributes)} is not supported; give it a value")


def _as_node(node: Node) -> onnx.NodeProto:
    """The node as an ONNX node without a name."""
    attributes: dict[str, Any] = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.op.attributes.items()
        if not isinstance(value, tuple) or value
    }
    inputs = node.inputs[: len(node.inputs) - len(node.op.captured)]
    return helper.make_node(node.op.kind, list(inputs), list(outputs_of(node)), domain=node.op.domain, **attributes)


def computed(node: Node[Onnx], feeds: Mapping[str, np.ndarray], source: Graph) -> list[np.ndarray]:
    """The outputs of a node of `source`, of these inputs. ModelError: it cannot be computed, or makes too large a constant."""
    try:
        found = evaluated(_as_node(node), feeds, source.opset)
    except Exception as error:  # the evaluator passes on any exception of numpy
        raise ModelError(
            f"{place(node, source)} has constant inputs but cannot be computed: {error}; export the model again"
        ) from None
    if (size := max(value.size for value in found)) > ELEMENTS_MAX:
        raise ModelError(f"{place(node, source)} makes a constant of {size} elements, above {ELEMENTS_MAX:,}; use smaller images")
    return found


def evaluated(node: onnx.NodeProto, feeds: Mapping[str, np.ndarray], opset: int) -> list[np.ndarray]:
    """What a node of ONNX's own makes of these inputs, output by output; empty for one that is left out. Any exception of numpy."""
    from onnx.reference import ReferenceEvaluator  # a tenth of a second, which a model without such nodes need not wait

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    wanted = [name for name in node.output if name]
    whole = helper.make_graph([node], "constant", inputs, [onnx.ValueInfoProto(name=name) for name in wanted])
    evaluator = ReferenceEvaluator(helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)]))
    with np.errstate(all="ignore"):  # infinities and NaN are numbers too; whoever cannot use them says so
        answers = evaluator.run(None, dict(feeds))
    assert isinstance(answers, list)
    found = dict(zip(wanted, map(np.asarray, answers), strict=True))
    return [found.get(name, np.zeros(0)) for name in node.output]
