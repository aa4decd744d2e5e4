"""Checks what a model must satisfy before anything reads it, beyond what ONNX's own checker demands. All later steps rely on it.

`onnx_import.read` calls `check_functions`, `check_values` and `complete` before that checker; `source_model` calls `check_shapes`
after shape inference.
"""

from collections.abc import Iterator, Sequence
from math import isfinite, prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import hollow
from cnna.compiler.frontend.onnx_model.strangers import describe_strangers
from cnna.compiler.frontend.onnx_model.vendor import expand_vendor
from cnna.compiler.graph.node_names import node_name, place_of
from cnna.spec.errors import ModelError

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
WINDOWS = ("Conv", "MaxPool", "AveragePool")
NUMBERS = (  # operators that cannot work with an empty constant
    *("Conv", "Gemm", "MatMul", "BatchNormalization", "Add", "Mul", "Clip", "QuantizeLinear", "DequantizeLinear"),
    *("QLinearConv", "QLinearMatMul", "QLinearAdd", "QGemm"),
)
TAKE_INFINITY = (  # operators that only choose, move or mask with a constant
    *("Clip", "Pad", "Where", "Max", "Min", "Add", "Sub", "Sum", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"),
    *("Identity", "Cast", "Expand", "Tile", "Concat", "Slice", "Split", "Gather", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
    *("Flatten", "Trilu", "ScatterND", "ScatterElements", "OneHot", "If", "Loop"),
)
MAY_BE_INFINITE = ("Clip", "Pad", "Constant", "ConstantOfShape")  # attributes of these: limits, fillings, constants
REALS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
PORTS = (  # types of inputs and outputs: a .npz can hold each of them, or float32 instead
    *(*REALS, TensorProto.BFLOAT16, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
ELEMENTS_MAX = 1 << 28  # of a tensor of one image: 1 GB of float32, more than any feature memory holds
FREE_WEIGHTS = 4  # the first IR version in which weights need not be inputs; onnxruntime does not demand it in any version


def first_line(error: Exception) -> str:
    """The first line of onnx's message, without the names of its own stages."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    for stage in ("[ShapeInferenceError] ", "[TypeInferenceError] ", "Inference error(s): "):
        line = line.replace(stage, "")
    return line[:200]


def check_values(model: ModelProto, name: str) -> None:
    """ModelError: a part, type, tensor, attribute or output cannot be read or means nothing; `name` is the file's."""
    _check_parts(model, name)
    for value in (*model.graph.input, *model.graph.output):
        _check_type(value.type, f"{name}: '{value.name}'")
    users: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for given in dict.fromkeys(node.input):
            users.setdefault(given, []).append(node)
    for tensor in model.graph.initializer:
        _check_numbers(tensor, users.get(tensor.name, []), name)
    for node in model.graph.node:
        for entry in node.attribute:
            _check_attribute(entry, f"{name}: {place_of(node)}")
            _check_finite(entry, node, name)
    _check_outputs(model, name)


def check_functions(model: ModelProto, name: str) -> None:
    """ModelError: a function of the model would hide one of ONNX's own operators."""
    if functions := [one.name for one in model.functions if one.domain in ("", "ai.onnx")]:
        raise ModelError(f"{name}: it defines a function '{functions[0]}' in ONNX's own domain; export it without local functions")


def _check_parts(model: ModelProto, name: str) -> None:
    if model.graph.sparse_initializer:
        sparse = model.graph.sparse_initializer[0].values.name
        raise ModelError(f"{name}: weights '{sparse}' are stored as a sparse tensor; export them as a dense one")
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    for node in model.graph.node:
        if not any(node.output):
            raise ModelError(f"{name}: a node of type '{node.op_type}' has no output; export the model again")
        _check_inputs(node, opset, name)


def _check_inputs(node: NodeProto, opset: int, name: str) -> None:
    """ModelError: a required input is missing. ONNX's checker counts inputs, but accepts empty names for them."""
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type, opset):
        return  # the checker, or the table of what runs, names the operator
    formal = onnx.defs.get_schema(node.op_type, opset).inputs
    for number, given in enumerate(node.input):
        one = formal[min(number, len(formal) - 1)] if formal else None
        if not given and one is not None and one.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
            raise ModelError(f"{name}: {place_of(node)}: input {number} ('{one.name}') is missing; export the model again")


def _check_type(kind: TypeProto, place: str) -> None:
    """Checks that an element type exists. A missing one is inferred (`complete`) or refused (`input_shapes.check_inputs`)."""
    if kind.WhichOneof("value") not in (None, "tensor_type"):
        raise ModelError(f"{place} is no tensor; only tensors can be a model's inputs and outputs")
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type not in _ELEMENTS:
        raise ModelError(f"{place} has the unknown element type {kind.tensor_type.elem_type}; export the model again")


def _check_numeric(value: ValueInfoProto, place: str) -> None:
    """Checks that an output is something that an .npz holds and users can compare: no text, no complex or very short numbers."""
    kind = value.type.tensor_type.elem_type
    if kind and kind not in PORTS:
        name = TensorProto.DataType.Name(kind)
        raise ModelError(
            f"{place}output '{value.name}' is {name}; only what .npz files hold can be answers, take it off the outputs"
        )


_ELEMENTS = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


def array_of(tensor: TensorProto, place: str) -> np.ndarray:
    """The tensor's elements. ModelError: the element type does not exist, or the data do not fill the shape."""
    if tensor.data_type not in _ELEMENTS:
        raise ModelError(f"{place} have the unknown element type {tensor.data_type}; export the model again")
    size = prod(tensor.dims)
    if min(tensor.dims, default=0) < 0 or size > ELEMENTS_MAX:
        raise ModelError(f"{place} have the shape {list(tensor.dims)}; sizes are at least 0, elements at most {ELEMENTS_MAX:,}")
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{place} cannot be read: {first_line(error)}; its shape {list(tensor.dims)} asks for {size:,} elements: the file is "
            "damaged, export it again"
        ) from None


def _check_numbers(tensor: TensorProto, users: Sequence[NodeProto], name: str) -> None:
    """users: the nodes that read the tensor, in their order."""
    value = array_of(tensor, f"{name}: the numbers of constant '{tensor.name}'")
    user = next(iter(users), None)
    if not value.size and user is not None and user.op_type in NUMBERS:
        raise ModelError(f"{name}: constant '{tensor.name}', of {place_of(user)}, is empty; export the model again")
    if tensor.data_type not in REALS:
        return
    if np.isfinite(value).all():
        return
    computing = [node for node in users if node.op_type not in TAKE_INFINITY]
    if np.isnan(value).any() or computing or user is None:
        user = next(iter(computing), user)
        place = f", of {place_of(user)}," if user else ""
        raise ModelError(f"{name}: constant '{tensor.name}'{place} holds NaN or infinity; export the model again")


def _check_attribute(entry: AttributeProto, place: str) -> None:
    if entry.ref_attr_name:
        raise ModelError(f"{place}: attribute '{entry.name}' refers to one of a function, but the node is in none; give its value")
    if entry.type == AttributeProto.TENSOR:
        array_of(entry.t, f"{place}: the numbers of attribute '{entry.name}'")
    try:
        value: Any = onnx.helper.get_attribute_value(entry)
    except ValueError:
        raise ModelError(f"{place}: attribute '{entry.name}' has a type that does not exist; export the model again") from None
    if (
        entry.name == "auto_pad"
        and (mode := value.decode(errors="replace") if isinstance(value, bytes) else value) not in AUTO_PADS
    ):
        raise ModelError(f"{place}: auto_pad is {mode!r}, not one of {', '.join(AUTO_PADS)}; export it with explicit pads")


def _check_finite(entry: AttributeProto, node: NodeProto, name: str) -> None:
    """ModelError: a number is NaN, or infinite where the operator computes with it."""
    if entry.type == AttributeProto.TENSOR:
        value = array_of(entry.t, name) if entry.t.data_type in REALS else np.zeros(0)
    else:
        numbers = (entry.f,) if entry.type == AttributeProto.FLOAT else entry.floats
        if all(map(isfinite, numbers)):
            return
        value = np.array(numbers)
    if np.isnan(value).any() or (node.op_type not in MAY_BE_INFINITE and np.isinf(value).any()):
        raise ModelError(
            f"{name}: {place_of(node)}: attribute '{entry.name}' holds NaN or infinity; export it with a finite number"
        )


def _check_outputs(model: ModelProto, name: str) -> None:
    if not model.graph.output:
        raise ModelError(f"{name}: its list of outputs is empty; export it with the tensors that you want as outputs")
    constants = {tensor.name for tensor in model.graph.initializer}
    given = {value.name for value in model.graph.input} - constants
    if all(value.name in given for value in model.graph.output):
        outputs = ", ".join(f"'{value.name}'" for value in model.graph.output)
        raise ModelError(
            f"{name}: nothing is computed: all its outputs ({outputs}) are inputs; export it with what its nodes make as outputs"
        )
    if not model.graph.node:
        raise ModelError(f"{name}: nothing is computed: it has no nodes; export the whole network")
    made = {output for node in model.graph.node for output in node.output} | {value.name for value in model.graph.input}
    for value in model.graph.output:
        if value.name in constants:
            raise ModelError(f"{name}: output '{value.name}' is one of the model's constants; take it off the list of outputs")
        if value.name not in made:
            raise ModelError(f"{name}: no node makes output '{value.name}'; take it off the list of outputs")
        _check_numeric(value, f"{name}: ")


# --- parts that a model may leave out ---


def complete(model: ModelProto) -> None:
    """Adds what onnxruntime infers too: types and shapes of outputs, as far as they can be known. It also takes weights off the
    inputs, and outputs that are listed more than once off the outputs.

    `check_values` must have passed.
    """
    model.ir_version = max(model.ir_version, FREE_WEIGHTS)
    _list_once(model)
    bare = [value for value in model.graph.output if _is_bare(value.type)]
    if not bare:
        return
    copy = hollow(model)
    for value in copy.graph.output:
        if value.name in {one.name for one in bare}:
            value.ClearField("type")
    expand_vendor(copy)  # onnx infers no shapes for com.microsoft
    describe_strangers(copy)
    known = {value.name: value.type for value in inferred(copy).graph.output}
    for value in bare:
        if known[value.name].HasField("tensor_type"):
            value.type.CopyFrom(known[value.name])
            _check_numeric(value, "")


def _list_once(model: ModelProto) -> None:
    """Leaves each output once: answers have names, so a second one of a name could not be told from the first."""
    first = {value.name: value for value in reversed(model.graph.output)}
    kept = [first[name] for name in dict.fromkeys(value.name for value in model.graph.output)]
    model.graph.ClearField("output")
    model.graph.output.extend(kept)


def _is_bare(kind: TypeProto) -> bool:
    return kind.WhichOneof("value") is None or (kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape"))


def inferred(model: ModelProto, **options: bool) -> ModelProto:
    """A copy with the types and shapes that onnx infers.

    ModelError: they contradict each other, if `options` ask for that check.
    """
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)
    except Exception as error:  # onnx's own class, and on broken models any that C++ raises
        if not all(node.name for node in model.graph.node):
            return inferred(_named(model), **options)  # onnx names the node, if it has a name
        raise ModelError(f"its shapes do not fit together: {first_line(error)}; export it again") from None


def _named(model: ModelProto) -> ModelProto:
    """A copy in which every node has a name."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        node.name = node_name(node)
    return copy


# --- shapes ---


def check_shapes(model: ModelProto) -> None:
    """Checks a model with inferred shapes.

    ModelError: a window larger than its map, slopes that do not fit theirs, a size below 0, a tensor that is too large.
    """
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer} | dict(_shapes(model))
    for node in model.graph.node:
        if node.op_type == "PRelu":
            _check_slopes(node, shapes.get(node.output[0], ()), shapes.get(node.input[1], ()))
        for output in node.output:
            shape = shapes.get(output, ())
            if node.op_type in WINDOWS and min(shape[2:], default=1) < 1:
                raise ModelError(
                    f"{place_of(node)}: its kernel is larger than its padded input, so its output would be {list(shape)}; "
                    "use a smaller kernel, more padding or larger images"
                )
            if min(shape, default=0) < 0 or prod(shape) > ELEMENTS_MAX:
                limits = f"sizes are at least 0, elements at most {ELEMENTS_MAX:,}"
                raise ModelError(f"{place_of(node)}: its output '{output}' would be {list(shape)}; {limits}")


def _check_slopes(node: NodeProto, shape: tuple[int, ...], slopes: tuple[int, ...]) -> None:
    """Checks that slopes can be stretched to a PRelu's map, which onnx does not. An axis of 1 of the map may be an unknown one."""
    pairs = zip(slopes[::-1], shape[::-1], strict=False)
    if shape and (len(slopes) > len(shape) or any(one not in (1, size) and size > 1 for one, size in pairs)):
        raise ModelError(
            f"{place_of(node)}: its slopes have shape {list(slopes)}, which does not fit a map of {list(shape)}; give one number "
            "for each channel"
        )


def _shapes(model: ModelProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The shape of every tensor; an unknown axis counts as 1."""
    for value in (*model.graph.value_info, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        yield value.name, tuple(dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims)
