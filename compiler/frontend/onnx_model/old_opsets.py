"""Converts a model of an old opset to opset 13, in place. `source_model` calls it before shape inference.

From opset 13 on, quantisation has axes and Softmax works along one axis. onnx.version_converter is not good enough here: it loses
the axis at which an operand's axes began up to opset 6, and it fails at some operators.
"""

from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from cnna.compiler.graph.node_names import node_name
from cnna.spec.errors import ModelError

TARGET = 13
SMALL = 64  # elements: larger constants say nothing about shapes

TO_INPUTS = {  # attributes that have become inputs: name and type, in the order of the inputs
    "Clip": (("min", np.float32), ("max", np.float32)),
    "Pad": (("pads", np.int64), ("value", np.float32)),
    "ReduceSum": (("axes", np.int64),),
    "Reshape": (("shape", np.int64),),
    "Slice": (("starts", np.int64), ("ends", np.int64), ("axes", np.int64)),
    "Split": (("split", np.int64),),
    "Squeeze": (("axes", np.int64),),
    "TopK": (("k", np.int64),),
    "Unsqueeze": (("axes", np.int64),),
}
LISTS = ("axes", "ends", "k", "pads", "shape", "split", "starts")  # inputs with one axis, even if the attribute was a single number
WITHOUT_MEANING = {  # hints of old opsets, and attributes that only say that a model is not being trained
    "*": ("consumed_inputs", "broadcast"),
    "BatchNormalization": ("is_test", "spatial"),
    "Dropout": ("is_test", "ratio"),
    "GRU": ("output_sequence",),
    "LSTM": ("output_sequence",),
    "RNN": ("output_sequence",),
}
SOFTMAX = ("Softmax", "LogSoftmax", "Hardmax")


def raise_opset(model: ModelProto, version: int, name: str) -> None:
    """Brings a model of opset `version` to opset 13. ModelError: a node has no form there; the message names it."""
    if version >= TARGET:
        return
    converter = _Converter(model, version, name)
    nodes = converter.nodes(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(converter.constants)
    converter.move_weights()
    model.ir_version = max(model.ir_version, onnx.IR_VERSION_2019_9_19)
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = TARGET


class _Converter:
    """The conversion of one model: the nodes and constants made so far, and their ranks."""

    def __init__(self, model: ModelProto, version: int, name: str) -> None:
        self.model, self.version, self.file = model, version, name
        self.constants: list[TensorProto] = []
        self.done: list[NodeProto] = []
        self._ranks: dict[str, int] = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
        self._taken = {tensor.name for tensor in model.graph.initializer}.union(*(node.output for node in model.graph.node))

    def nodes(self, source: Iterable[NodeProto]) -> list[NodeProto]:
        """The converted nodes of the graph, in order."""
        for node in source:
            self.done += self._convert(node)
        return self.done

    def move_weights(self) -> None:
        """Takes initialisers off the inputs. Old IR versions list them there; newer ones would take them for default values."""
        graph = self.model.graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in weights]
        del graph.input[:]
        graph.input.extend(inputs)

    def rank(self, tensor: str) -> int | None:
        """The number of axes of a tensor that has been made so far."""
        if tensor not in self._ranks:
            self._infer()
        return self._ranks.get(tensor)

    def constant(self, base: str, value: np.ndarray) -> str:
        """Adds an initialiser."""
        name = self.fresh(base)
        self.constants.append(numpy_helper.from_array(value, name))
        self._ranks[name] = value.ndim
        return name

    def fresh(self, base: str) -> str:
        """A tensor name that is still free."""
        name, number = base, 1
        while name in self._taken:
            name, number = f"{base}.{number}", number + 1
        self._taken.add(name)
        return name

    def refuse(self, node: NodeProto, reason: str) -> ModelError:
        """The error for a node that cannot be converted."""
        place = f"node '{node.name or node.output[0]}' ({node.op_type})"
        remedy = f"export the model with opset {TARGET} or later"
        return ModelError(f"{self.file}: {place} of opset {self.version} cannot be brought to opset {TARGET}: {reason}; {remedy}")

    def _infer(self) -> None:
        """Infers the ranks of all tensors that `done` makes. Large weights are left out, since their shapes are enough.

        ONNX infers nothing for a Reshape to a computed target. But the target's length is known, and that is the rank.
        """
        told: dict[str, int] = {}
        while True:
            found = self._inferred(told)
            shapes = {value.name: value.type.tensor_type.shape for value in found if value.type.tensor_type.HasField("shape")}
            self._ranks.update({name: len(shape.dim) for name, shape in shapes.items()})
            targets = {node.output[0]: node.input[1] for node in self.done if node.op_type == "Reshape" and len(node.input) > 1}
            new = {
                output: shapes[target].dim[0].dim_value
                for output, target in targets.items()
                if output not in shapes
                and output not in told
                and target in shapes
                and len(shapes[target].dim) == 1
                and shapes[target].dim[0].dim_value
            }
            if not new:
                return
            told |= new

    def _inferred(self, told: dict[str, int]) -> list[onnx.ValueInfoProto]:
        """What ONNX infers about `done`; `told` are ranks that are stated to it."""
        graph = self.model.graph
        tensors = [*graph.initializer, *self.constants]
        small = [tensor for tensor in tensors if np.prod(tensor.dims, dtype=np.int64) <= SMALL]
        weights = {tensor.name for tensor in tensors}
        inputs = [value for value in graph.input if value.name not in weights]
        inputs += [
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in tensors if tensor not in small
        ]
        known = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank) for name, rank in told.items()]
        part = helper.make_graph(self.done, "part", inputs, [], small, value_info=known)
        opsets = [helper.make_opsetid(entry.domain, entry.version) for entry in self.model.opset_import if entry.domain]
        made = helper.make_model(part, opset_imports=[helper.make_opsetid("", TARGET), *opsets], ir_version=8)
        found = onnx.shape_inference.infer_shapes(made, data_prop=True).graph
        return [*found.value_info, *found.input]

    def _convert(self, old: NodeProto) -> list[NodeProto]:
        """The nodes that replace one node."""
        node = NodeProto()
        node.CopyFrom(old)
        self._convert_inside(node)
        if node.domain not in ("", "ai.onnx"):
            return [node]
        values = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        kind = node.op_type
        if kind == "Scan" and self.version < 9:
            raise self.refuse(old, "it scans along a batch axis")
        if kind == "BatchNormalization" and not values.get("spatial", 1):
            raise self.refuse(old, "spatial=0 normalises each element by itself")
        before = self._aligned(node, values)
        _drop(node, (*WITHOUT_MEANING["*"], *WITHOUT_MEANING.get(kind, ())))
        if kind in SOFTMAX:
            return [*before, *self._softmax(node, int(values.get("axis", 1)))]
        if kind in _REWRITES:
            _REWRITES[kind](self, node, values)
        if not onnx.defs.has(node.op_type, max_inclusive_version=TARGET) or onnx.defs.get_schema(node.op_type, TARGET).deprecated:
            raise self.refuse(old, "there is no such operator any more")
        if node.op_type in TO_INPUTS and not [name for name in node.input[1:] if name]:
            self._attributes_to_inputs(node)
        return [*before, node]

    def _convert_inside(self, node: NodeProto) -> None:
        """Converts the graphs inside a node: bodies of loops, branches."""
        for entry in node.attribute:
            for graph in (*entry.graphs, *([entry.g] if entry.type == AttributeProto.GRAPH else [])):
                made = [new for inner in graph.node for new in self._convert(inner)]
                del graph.node[:]
                graph.node.extend(made)

    def _attributes_to_inputs(self, node: NodeProto) -> None:
        values = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        known = TO_INPUTS[node.op_type]
        inputs = []
        for name, kind in known:
            value = np.asarray(values[name], kind) if name in values else None
            if value is not None and name in LISTS:
                value = value.reshape(-1)
            inputs.append("" if value is None else self.constant(f"{node.output[0]}:{name}", value))
        while inputs and not inputs[-1]:
            inputs.pop()
        _drop(node, [name for name, _ in known])
        node.input.extend(inputs)

    def _aligned(self, node: NodeProto, values: dict[str, object]) -> list[NodeProto]:
        """Lets the second operand's axes begin at `axis`, as `broadcast` did until opset 6.

        PRelu's slope is one number a channel.
        """
        axis = values.get("axis") if values.get("broadcast") else None
        slope = node.op_type == "PRelu" and self.version < 7
        if not isinstance(axis, int) and not slope:
            return []
        _drop(node, ("axis",))
        ranks = [self.rank(name) for name in node.input[:2]]
        whole, part = ranks
        if whole is None or part is None:
            raise self.refuse(node, "the number of axes of what it broadcasts is unknown")
        start = axis % whole if isinstance(axis, int) else 1
        more = whole - start - part
        if more <= 0 or (slope and part != 1):
            return []
        axes = self.constant(f"{node.output[0]}:axes", np.arange(part, part + more, dtype=np.int64))
        aligned = self.fresh(f"{node.output[0]}:aligned")
        made = helper.make_node("Unsqueeze", [node.input[1], axes], [aligned], f"{node_name(node)}:aligned")
        node.input[1] = aligned
        return [made]

    def _softmax(self, node: NodeProto, axis: int) -> list[NodeProto]:
        """Writes a Softmax over all axes from `axis` on, as it was until opset 12."""
        _drop(node, ("axis",))
        node.attribute.append(helper.make_attribute("axis", -1))
        rank = self.rank(node.input[0])
        if rank is not None and axis % rank == rank - 1:
            return [node]
        base, x, y = node_name(node), node.input[0], node.output[0]
        shape, flat, done = (self.fresh(f"{y}:{what}") for what in ("shape", "flat", "softmax"))
        node.input[0], node.output[0] = flat, done
        return [
            helper.make_node("Shape", [x], [shape], f"{base}:shape"),
            helper.make_node("Flatten", [x], [flat], f"{base}:flat", axis=axis),
            node,
            helper.make_node("Reshape", [done, shape], [y], f"{base}:back"),
        ]


def _drop(node: NodeProto, names: Iterable[str]) -> None:
    for entry in [entry for entry in node.attribute if entry.name in names]:
        node.attribute.remove(entry)


def _cast(converter: _Converter, node: NodeProto, values: dict[str, object]) -> None:
    """Converts the type, which opsets up to 5 name in letters."""
    kind = values.get("to")
    if isinstance(kind, bytes):
        _drop(node, ("to",))
        if kind.decode(errors="replace").upper() not in dict(TensorProto.DataType.items()):
            raise converter.refuse(node, f"the type {kind.decode(errors='replace')!r} is unknown")
        node.attribute.append(helper.make_attribute("to", TensorProto.DataType.Value(kind.decode().upper())))


def _concat(converter: _Converter, node: NodeProto, values: dict[str, object]) -> None:
    """Adds the axis: without an attribute it was 1."""
    if "axis" not in values:
        node.attribute.append(helper.make_attribute("axis", 1))


def _pad(converter: _Converter, node: NodeProto, values: dict[str, object]) -> None:
    """Renames the list, which opset 1 calls `paddings`."""
    for entry in node.attribute:
        if entry.name == "paddings":
            entry.name = "pads"


def _scatter(converter: _Converter, node: NodeProto, values: dict[str, object]) -> None:
    node.op_type = "ScatterElements"


def _resize(converter: _Converter, node: NodeProto, values: dict[str, object]) -> None:
    """Upsample and the Resize of opset 10 count pixels from a corner, and take the one before (after, if the map shrinks)."""
    if node.op_type == "Resize" and converter.version > 10:
        return
    scales = values.get("scales")
    if "height_scale" in values:
        scales = [1.0, 1.0, values["height_scale"], values["width_scale"]]
    if scales is not None:
        node.input.append(converter.constant(f"{node.output[0]}:scales", np.array(scales, np.float32)))
    if len(node.input) != 2:
        raise converter.refuse(node, "it has no scales")
    factors = next((t for t in (*converter.model.graph.initializer, *converter.constants) if t.name == node.input[1]), None)
    shrinks = factors is not None and bool((numpy_helper.to_array(factors) < 1).any())
    mode = values.get("mode", b"nearest")
    mode = {b"bilinear": b"linear"}.get(mode, mode) if isinstance(mode, bytes) else b"nearest"
    _drop(node, ("scales", "height_scale", "width_scale", "mode"))
    plain = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil" if shrinks else "floor"}
    node.attribute.extend(helper.make_attribute(key, value) for key, value in plain.items())
    node.op_type = "Resize"
    node.input.insert(1, "")


_REWRITES: dict[str, Callable[[_Converter, NodeProto, dict[str, object]], None]] = {
    "Cast": _cast,
    "Concat": _concat,
    "Pad": _pad,
    "Resize": _resize,
    "Scatter": _scatter,
    "Upsample": _resize,
}
