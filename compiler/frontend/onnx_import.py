"""Reads an ONNX model and brings it into the float graph, every operator still as the model has it."""

from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from cnna.compiler.frontend.batch_axis import check_back, check_front
from cnna.compiler.frontend.ceil_pools import settle_ceil_pools
from cnna.compiler.frontend.input_shapes import Sizes, check_inputs, inputs_of, set_shapes
from cnna.compiler.frontend.model_checks import check_shapes, check_values, complete, first_line, inferred
from cnna.compiler.frontend.model_ports import sizes_of
from cnna.compiler.frontend.node_names import node_name, sources_of
from cnna.compiler.frontend.old_opsets import raise_opset
from cnna.compiler.frontend.qlinear import expand_qlinear
from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.spec.errors import ModelError, about_model

OPSET_MAX = onnx.defs.onnx_opset_version()
BEGINNING = b"\x08"  # of an ONNX file: protobuf's tag of field 1, `ir_version`


def load_model(source: str | Path | bytes, name: str | None = None, shapes: Sizes | None = None) -> ModelProto:
    """A checked model, as it is. `name` is what errors call it, `shapes` gives sizes to inputs (`set_shapes`).

    What onnxruntime infers where it is left out (types and shapes of outputs) is added.

    ModelError: unreadable, not ONNX, unsound, an opset that is too old or too new, weights that are missing or not finite,
    an input that is not float32 or has an axis of unknown size beside the batch, shapes that do not fit together.
    """
    name = name or (str(source) if isinstance(source, str | Path) else "the model")
    model = _parse(source, name)
    _check_opsets(model, name)
    check_values(model, name)
    with about_model(name):
        set_shapes(model, shapes or {})
        complete(model)
    _check(_with_empty_shapes(model), name)
    with_shapes(model, name)
    return model


def _check(model: ModelProto, name: str) -> None:
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # the checker raises its own class, and others on some broken files
        raise ModelError(f"{name}: not a sound ONNX model: {first_line(error)}") from None


def _with_empty_shapes(model: ModelProto) -> ModelProto:
    """The model as the checker wants it: with a shape for inputs without one, and for outputs of a shape that nobody knows."""
    values = (*model.graph.input, *model.graph.output)
    if all(value.type.tensor_type.HasField("shape") for value in values if value.type.HasField("tensor_type")):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    return copy


def with_shapes(model: ModelProto, name: str = "the model") -> ModelProto:
    """A copy whose batch axis is 1, with the shape of every tensor; QLinear operators are written as Q and DQ."""
    copy = ModelProto()
    copy.CopyFrom(model)
    with about_model(name):
        _set_batch(copy)
    raise_opset(copy, opset(copy), name)
    with about_model(name):
        settle_ceil_pools(copy, name, whole=expand_qlinear(copy))
        try:
            shaped = inferred(copy, check_type=True, strict_mode=True)
        except ModelError:
            check_shapes(inferred(copy))  # a window greater than its map, say, which explains what does not fit behind it
            raise
        check_shapes(shaped)
    return shaped


def _parse(source: str | Path | bytes, name: str) -> ModelProto:
    folder = ""
    if not isinstance(source, bytes):
        path = Path(source)
        if path.is_dir():
            raise ModelError(f"{name}: a folder, not an ONNX file; name the .onnx file in it")
        if not path.is_file():
            raise ModelError(f"{name}: no such file")
        try:
            folder, source = str(path.parent), path.read_bytes()
        except OSError as error:
            raise ModelError(f"{name}: cannot be read: {error.strerror or error}") from None
    model = ModelProto()
    try:
        model.ParseFromString(source)
    except DecodeError:
        if source.startswith(BEGINNING):
            damage = f"begins as an ONNX file, but its {len(source):,} bytes cannot be read to the end"
            raise ModelError(f"{name}: truncated or damaged: it {damage}; copy or export it again") from None
        raise ModelError(f"{name}: not an ONNX file (its protobuf cannot be read); export the model as one") from None
    if not model.graph.node or not model.opset_import or not model.ir_version:
        raise ModelError(f"{name}: not an ONNX model (no graph, opset or IR version in its {len(source):,} bytes)")
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "?")
            if not folder or not (Path(folder) / location).is_file():
                raise ModelError(f"{name}: weights of '{tensor.name}' are in an external file '{location}', which is not there")
    if folder:
        try:
            onnx.load_external_data_for_model(model, folder)
        except Exception as error:  # the checker's own class, for a place outside the folder, and those of reading a file
            raise ModelError(f"{name}: external weights cannot be read: {first_line(error)}") from None
    return model


def _check_opsets(model: ModelProto, name: str) -> None:
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        raise ModelError(f"{name}: it imports no ONNX opset")
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= OPSET_MAX:
            raise ModelError(f"{name}: opset {entry.version} is outside 1..{OPSET_MAX}; export it with one of those")
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(f"{name}: ONNX IR version {model.ir_version} is newer than {onnx.IR_VERSION}; export it for an older one")


def opset(model: ModelProto) -> int:
    """Version of ONNX's own operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _set_batch(model: ModelProto) -> None:
    check_inputs(model)
    given = {value.name: value for value in inputs_of(model)}
    for value in given.values():
        kind = value.type.tensor_type
        if kind.elem_type != TensorProto.FLOAT:
            raise ModelError(f"input '{value.name}' is {TensorProto.DataType.Name(kind.elem_type)}; it must be FLOAT")
        if not kind.shape.dim:
            raise ModelError(f"input '{value.name}' has no axes; give it one with a batch axis in front")
        _free_reshapes(model, kind.shape.dim[0].dim_value)
        kind.shape.dim[0].Clear()
        kind.shape.dim[0].dim_value = 1
    for value in model.graph.output:
        if value.name in given:
            value.type.CopyFrom(given[value.name].type)
        else:
            value.type.tensor_type.ClearField("shape")  # inferred again
    del model.graph.value_info[:]


def _free_reshapes(model: ModelProto, batch: int) -> None:
    """Lets a Reshape that names a fixed batch above 1 take it from its input, so that the model can be seen with 1."""
    if batch < 2:
        return
    targets = {node.input[1] for node in model.graph.node if node.op_type == "Reshape" and len(node.input) > 1}
    for tensor in model.graph.initializer:
        if tensor.name in targets:
            shape = numpy_helper.to_array(tensor).copy()
            if shape.ndim == 1 and shape.size and shape[0] == batch:
                shape[0] = 0
                tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))


def attribute(value: onnx.AttributeProto) -> Any:
    """An attribute as Python holds it: strings decoded, lists as tuples, tensors as arrays."""
    result = onnx.helper.get_attribute_value(value)
    if isinstance(result, bytes):
        return result.decode(errors="replace")
    if isinstance(result, TensorProto):
        return numpy_helper.to_array(result)
    return tuple(result) if hasattr(result, "__len__") and not isinstance(result, str) else result


def to_graph(model: ModelProto) -> Graph:
    """The float graph of a model: `Onnx` nodes alone, each with a name. ModelError: as `check_front` and `check_back`."""
    whole = model
    firsts = {value.name: value.type.tensor_type.shape.dim[0].dim_value for value in inputs_of(model)}
    sources = sources_of(model)
    model = with_shapes(model)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    shapes = {}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        shapes[value.name] = Tensor(tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))
    nodes = []
    for node in model.graph.node:
        attributes = {entry.name: attribute(entry) for entry in node.attribute}
        outputs = list(node.output)
        op = Onnx(node.op_type, attributes, "" if node.domain == "ai.onnx" else node.domain, tuple(outputs[1:]))
        nodes.append(Node(node_name(node), op, tuple(node.input), outputs[0]))
        for output in outputs:
            shapes.setdefault(output, Tensor(()))
    graph = Graph(
        model.graph.name or "model",
        tuple(value.name for value in inputs_of(model)),
        tuple(value.name for value in model.graph.output),
        tuple(nodes),
        {name: tensor for name, tensor in shapes.items() if name not in constants},
        constants,
        opset(model),
        sources,
    )
    graph = Editor(graph).finish()
    check_front(graph, firsts)
    if (samples := max(firsts.values())) > 1:
        check_back(fold_constants(graph), samples, _output_shapes(whole))
    return graph


def element_types(model: ModelProto) -> dict[str, int]:
    """ONNX's number for the type of the elements of each tensor, as far as it can be inferred."""
    graph = with_shapes(model).graph
    return {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.input, *graph.output)}


def _output_shapes(model: ModelProto) -> dict[str, list[int | None]]:
    """Of a model as it came, by output, where they are known; None for an unknown size."""
    copy = ModelProto()
    copy.CopyFrom(model)
    expand_qlinear(copy)
    return {value.name: sizes_of(value) for value in inferred(copy).graph.output if value.type.tensor_type.HasField("shape")}
