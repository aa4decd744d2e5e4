"""Writes operators that onnxruntime lacks, or computes otherwise than ONNX defines them, in terms of others.

`source_model` calls it.

- An operator that ONNX itself defines by others becomes those, where onnxruntime does not know it: an operator of ONNX's preview,
  or of an opset that is newer than onnxruntime's.
- Attention that shows its products behind the mask, which are -inf in ONNX and the least float32 in onnxruntime, becomes those too.
- ConvInteger with a zero point for each channel of the weights, which onnxruntime refuses, becomes two with none.
- MaxUnpool with a size of its own: the indices count in the map without it, which onnxruntime forgets. A Pad makes the size.

What has no such form is refused (`cpu_limits`). New nodes bear the old one's name, a colon and more.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.model_checks import inferred
from cnna.compiler.frontend.onnx_model.subgraphs import rename
from cnna.compiler.graph.node_names import node_name

ONNXRUNTIME_OPSET = 26  # the newest that onnxruntime takes: it refuses whole models of a newer one
PREVIEW = "ai.onnx.preview"
BEHIND_THE_MASK = 2  # qk_matmul_output_mode of an Attention

Types = Mapping[str, TypeProto]


def settle_forms(model: ModelProto) -> None:
    """Works in place. The opset becomes one of onnxruntime's where all that is left is in it."""
    while _expand(model):
        pass
    _settle(model)
    version = _version(model)
    if version > ONNXRUNTIME_OPSET and all(_since(node, version) <= ONNXRUNTIME_OPSET for node in model.graph.node):
        for entry in model.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = ONNXRUNTIME_OPSET


def _version(model: ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _since(node: NodeProto, version: int) -> int:
    """The opset in which a node's operator got the form that it has in opset `version`."""
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type, version):
        return 0
    return int(onnx.defs.get_schema(node.op_type, version).since_version)


# --- operators that ONNX defines by others ---


def _expand(model: ModelProto) -> bool:
    """Whether there was a node to write out."""
    version = _version(model)
    types: Types | None = None
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if not _is_missing(node, version) and not _shows_mask(node):
            nodes.append(node)
            continue
        types = _types(model) if types is None else types
        nodes += _written_out(node, model, types) or [node]
    grown = len(nodes) > len(model.graph.node)
    if types is not None:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return grown


def _is_missing(node: NodeProto, version: int) -> bool:
    """Whether onnxruntime does not know an operator, which ONNX may define by others."""
    return node.domain == PREVIEW or _since(node, version) > ONNXRUNTIME_OPSET


def _shows_mask(node: NodeProto) -> bool:
    """Whether it is an Attention that has the products behind the mask for an output."""
    if node.op_type != "Attention" or node.domain not in ("", "ai.onnx") or len(node.output) < 4 or not node.output[3]:
        return False
    return any(entry.name == "qk_matmul_output_mode" and entry.i == BEHIND_THE_MASK for entry in node.attribute)


def _types(model: ModelProto) -> Types:
    graph = inferred(model).graph
    types = {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
    return types | {tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in graph.initializer}


def _written_out(node: NodeProto, model: ModelProto, types: Types) -> list[NodeProto]:
    """The nodes that ONNX defines an operator by; none where it does not, or may need types of operands that are not known."""
    names = [name for name in dict.fromkeys(node.input) if name]
    if any(name not in types for name in names):
        return []
    inputs = [ValueInfoProto(name=name, type=types[name]) for name in names]
    if "" in node.input:
        inputs.append(ValueInfoProto(name="", type=types[names[0]]))  # the inliner asks for a type of what is left out, too
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    alone = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    try:
        made = onnx.inliner.inline_selected_functions(alone, [(node.domain, node.op_type)], False, True)
    except RuntimeError:  # what ONNX's own C++ raises for a form that its definition forgets
        return []
    if any(one.op_type == node.op_type and one.domain == node.domain for one in made.graph.node):
        return []  # ONNX defines it by no others
    base, own = node_name(node), {*names, *node.output}
    inner = {name: f"{base}:{name}" for one in made.graph.node for name in one.output if name and name not in own}
    for number, one in enumerate(made.graph.node):
        rename(one, inner)
        for place, name in enumerate(one.output):
            one.output[place] = inner.get(name, name)
        one.name = f"{base}:{number}"
    return list(made.graph.node)


# --- forms of single operators ---


class _Nodes:
    """The nodes that take one node's place."""

    def __init__(self, node: NodeProto, model: ModelProto) -> None:
        self.node, self.model, self.base = node, model, node_name(node)
        self.made: list[NodeProto] = []

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """A node; its output, which has the name of the old node and its own number where none is given."""
        name = f"{self.base}:{kind}{len(self.made)}"
        self.made.append(helper.make_node(kind, inputs, [output or name], name, **attributes))
        return output or name

    def constant(self, what: str, value: list[int]) -> str:
        """A list of whole numbers."""
        self.model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), f"{self.base}:{what}"))
        return f"{self.base}:{what}"

    def copy(self, inputs: list[str], output: str = "") -> str:
        """The old node with other inputs."""
        made = NodeProto()
        made.CopyFrom(self.node)
        made.name = f"{self.base}:{len(self.made)}"
        del made.input[:], made.output[:]
        made.input.extend(inputs)
        made.output.append(output or made.name)
        self.made.append(made)
        return str(made.output[0])


def _settle(model: ModelProto) -> None:
    kinds = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
    if not kinds & _FORMS.keys():
        return
    types, nodes = _types(model), []
    for node in model.graph.node:
        form = _FORMS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        made = form(_Nodes(node, model), types) if form else None
        nodes += made or [node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _conv_integer(new: _Nodes, types: Types) -> list[NodeProto] | None:
    """(x - a) * (w - b) is (x - a) * w - b (x - a) * 1 for each channel; int32 wraps alike in all of them."""
    x, weights, *zeros = new.node.input
    zeros += [""] * (2 - len(zeros))
    if not zeros[1] or _elements(types.get(zeros[1])) == 1 or weights not in types:
        return None
    kind = types[weights].tensor_type
    one = helper.make_tensor("one", kind.elem_type, [1], [1])
    sums = new.copy([x, weights, zeros[0]])
    ones = new.add("ConstantOfShape", [new.add("Shape", [weights])], value=one)
    under = new.copy([x, ones, zeros[0]])
    axes = new.constant("axes", list(range(1, len(kind.shape.dim) - 1)))
    zero = new.add("Unsqueeze", [new.add("Cast", [zeros[1]], to=TensorProto.INT32), axes])
    new.add("Sub", [sums, new.add("Mul", [under, zero])], new.node.output[0])
    return new.made


def _elements(kind: TypeProto | None) -> int:
    """Of a tensor; 0 where they are not known."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return 0
    return int(np.prod([dim.dim_value for dim in kind.tensor_type.shape.dim], dtype=np.int64))


def _max_unpool(new: _Nodes, types: Types) -> list[NodeProto] | None:
    if len(new.node.input) < 3 or not new.node.input[2]:
        return None
    own = new.copy(list(new.node.input[:2]))
    size = new.add("Shape", [own])
    pads = new.add("Concat", [new.add("Sub", [size, size]), new.add("Sub", [new.node.input[2], size])], axis=0)
    new.add("Pad", [own, pads], new.node.output[0])
    return new.made


_FORMS: dict[str, Callable[[_Nodes, Types], list[NodeProto] | None]] = {"ConvInteger": _conv_integer, "MaxUnpool": _max_unpool}
