"""A float model as pruning reads it: constants by name, and shapes of all tensors for one sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from cnna.compiler.quantise.sessions import Session
from cnna.spec.errors import ModelError

Array = NDArray[Any]
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")

OTHER_FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


@dataclass(frozen=True)
class Network:
    """A model whose constants are all initializers. shapes: of each tensor, for one sample."""

    proto: ModelProto
    name: str
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def nodes(self) -> Sequence[NodeProto]:
        """In the order of the model."""
        return list(self.proto.graph.node)

    def constants(self) -> dict[str, Array]:
        """The initializers by name."""
        return {tensor.name: numpy_helper.to_array(tensor) for tensor in self.proto.graph.initializer}

    def called(self, number: int) -> str:
        """What reports call a node."""
        node = self.proto.graph.node[number]
        return str(node.name or node.output[0])

    def inputs(self) -> list[str]:
        """The names of what a user feeds."""
        known = {tensor.name for tensor in self.proto.graph.initializer}
        return [value.name for value in self.proto.graph.input if value.name not in known]

    def outputs(self) -> list[str]:
        """The names of the answers."""
        return [value.name for value in self.proto.graph.output]


def attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node by name; texts as str."""
    found = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def network(model: ModelProto, name: str, feeds: Mapping[str, Array]) -> Network:
    """Reads a model. feeds: one sample. ModelError: it is quantised, or onnxruntime cannot run it."""
    copy = folded(with_constants(model), name)
    for value in copy.graph.input:
        batch = next((axis.dim_value for axis in value.type.tensor_type.shape.dim), 0)
        if batch > 1 and value.name in feeds and len(feeds[value.name]) == 1:
            once = "samples go through it one at a time; export it with a batch of 1, or an open one"
            raise ModelError(f"{name}: input '{value.name}' has a batch of {batch}: {once}")
    for node in copy.graph.node:
        if node.op_type in QUANTISED:
            what = f"{node.name or node.output[0]}: {node.op_type}"
            raise ModelError(f"{name}: {what}: pruning takes a float model; quantise it afterwards")
    for tensor in copy.graph.initializer:
        if tensor.data_type in OTHER_FLOATS:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            raise ModelError(f"{name}: constant '{tensor.name}' is {kind}; pruning takes a model in float32")
    shown = [output for node in copy.graph.node for output in node.output if output]
    values = Session(showing(copy, shown).SerializeToString(), name, brief=True).run(feeds)
    copy = with_stated_sizes(copy, name, values, feeds)
    shapes = {key: value.shape for key, value in {**values, **feeds}.items() if isinstance(value, np.ndarray)}
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in copy.graph.initializer}
    return Network(copy, name, shapes)


def with_constants(model: ModelProto) -> ModelProto:
    """A copy in which Constant nodes are initializers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    for node in model.graph.node:
        given = attributes(node)
        if node.op_type == "Constant" and "value" in given:
            copy.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(given["value"]), node.output[0]))
        else:
            copy.graph.node.append(node)
    return copy


def folded(model: ModelProto, name: str) -> ModelProto:
    """The model with what follows from constants alone as constants, such as a bias that a Reshape gives its axes."""
    known = {tensor.name for tensor in model.graph.initializer}
    made: list[str] = []
    for node in model.graph.node:
        if node.input and all(one in known for one in node.input if one) and not captured(node) and node.op_type not in QUANTISED:
            made += [one for one in node.output if one]
            known |= set(node.output)
    made = [one for one in made if one not in {value.name for value in model.graph.output}]
    if not made:
        return model
    before = read(model)
    alone = showing(model, made)
    del alone.graph.input[:]
    values = Session(alone.SerializeToString(), name, brief=True).run({})
    kept = [node for node in model.graph.node if not set(node.output) & set(made)]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(values[one], one) for one in made)
    drop_unread(model, before)
    return model


def with_stated_sizes(model: ModelProto, name: str, values: Mapping[str, Any], feeds: Mapping[str, Array]) -> ModelProto:
    """The model in which sizes that Reshape and Slice compute are constants, as those of `x.view(x.size(0), -1)` and `x.chunk(2)`.

    A Reshape copies the axis of the samples. values: what all nodes make of one sample, `feeds`. The model as it is where two
    samples have other answers then.
    """
    copy, computed = ModelProto(), _of_sizes(model)
    copy.CopyFrom(model)
    for node in copy.graph.node:
        for place, size in enumerate(node.input[1:], 1):
            if size not in computed or (value := _stated(node, size, {**values, **feeds})) is None:
                continue
            node.input[place] = f"{node.output[0]}:size{place}"
            copy.graph.initializer.append(numpy_helper.from_array(value, node.input[place]))
    if len(copy.graph.initializer) == len(model.graph.initializer):
        return model
    kept = showing(copy, [value.name for value in model.graph.output]).graph.node
    del copy.graph.node[:]
    copy.graph.node.extend(kept)
    drop_unread(copy, read(model))
    two = {key: np.concatenate([value, value]) for key, value in feeds.items()}
    try:
        wanted = Session(model.SerializeToString(), name, brief=True).run(two)
    except ModelError:  # one sample is all that it takes
        return copy
    made = Session(copy.SerializeToString(), name, brief=True).run(two)
    return copy if all(np.array_equal(made[key], value, equal_nan=True) for key, value in wanted.items()) else model


def _of_sizes(model: ModelProto) -> set[str]:
    """What nodes compute from sizes of tensors and constants alone."""
    known, found = {tensor.name for tensor in model.graph.initializer}, set[str]()
    for node in model.graph.node:
        if node.op_type in ("Shape", "Size") or (all(name in known | found for name in node.input if name) and not captured(node)):
            found.update(name for name in node.output if name)
    return found


def _stated(node: NodeProto, size: str, values: Mapping[str, Any]) -> Array | None:
    """A size that a node reads, for any number of samples; None: it is none."""
    if node.op_type == "Slice":
        return np.asarray(values[size])
    if node.op_type != "Reshape" or attributes(node).get("allowzero"):
        return None
    before, after = (values[name].shape for name in (node.input[0], node.output[0]))
    return np.array([0, *after[1:]], np.int64) if before[:1] == (1,) == after[:1] else None


def showing(model: ModelProto, tensors: Sequence[str]) -> ModelProto:
    """The model with some tensors as outputs, and only the nodes that make them."""
    wanted, kept = set(tensors), []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= {name for name in node.input if name} | captured(node)
    found = ModelProto()
    found.ir_version = model.ir_version
    found.opset_import.extend(model.opset_import)
    found.functions.extend(model.functions)
    found.graph.name = model.graph.name
    found.graph.node.extend(reversed(kept))
    found.graph.input.extend(model.graph.input)
    found.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in wanted)
    declared = {value.name: value for value in model.graph.output}
    found.graph.output.extend(declared.get(name) or helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(tensors))
    return found


def read(model: ModelProto) -> set[str]:
    """The names of all that nodes read or the model answers."""
    nodes = {name for node in model.graph.node for name in (*node.input, *captured(node))}
    return nodes | {value.name for value in model.graph.output}


def drop_unread(model: ModelProto, before: set[str]) -> None:
    """Removes constants that were read before, and are not now. Old models declare them as inputs too."""
    gone = (before - read(model)) & {tensor.name for tensor in model.graph.initializer}
    for field in (model.graph.initializer, model.graph.input):
        kept = [one for one in field if one.name not in gone]
        del field[:]
        field.extend(kept)


def captured(node: NodeProto) -> set[str]:
    """Names that graphs inside a node read, those of their own among them."""
    inside = [one.g for one in node.attribute if one.HasField("g")]
    return {name for graph in inside for each in graph.node for name in {*each.input, *captured(each)} if name}
