"""Reads an ONNX model and turns it into the float graph, in which every operator is still the model's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from cnna.compiler.frontend.batch.batch_axis import check_back, check_front
from cnna.compiler.frontend.batch.declared_shapes import declared_axes, keep_declared
from cnna.compiler.frontend.onnx_model.attributes import check_attributes
from cnna.compiler.frontend.onnx_model.ceil_pools import settle_ceil_pools
from cnna.compiler.frontend.onnx_model.computed_sizes import refresh_shapes, with_sizes
from cnna.compiler.frontend.onnx_model.cpu_forms import settle_forms
from cnna.compiler.frontend.onnx_model.disputed_shapes import check_disputed_shapes
from cnna.compiler.frontend.onnx_model.hollow import as_inputs, hollow, is_hollow
from cnna.compiler.frontend.onnx_model.input_shapes import (
    Sizes,
    check_inputs,
    first_size,
    inputs_of,
    set_batch,
    set_shapes,
    sizes_of,
    unbatched,
)
from cnna.compiler.frontend.onnx_model.model_checks import (
    check_functions,
    check_shapes,
    check_values,
    complete,
    first_line,
    inferred,
)
from cnna.compiler.frontend.onnx_model.node_order import sort_nodes
from cnna.compiler.frontend.onnx_model.old_opsets import raise_opset
from cnna.compiler.frontend.onnx_model.real_types import to_float32
from cnna.compiler.frontend.onnx_model.runtime_norms import write_out_norms
from cnna.compiler.frontend.onnx_model.settled_branches import settle_branches
from cnna.compiler.frontend.onnx_model.sound_nodes import check_nodes
from cnna.compiler.frontend.onnx_model.strangers import describe_strangers
from cnna.compiler.frontend.onnx_model.subgraphs import captured
from cnna.compiler.frontend.onnx_model.vendor import expand_vendor
from cnna.compiler.frontend.onnx_model.zero_points import write_zero_points
from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.graph.node_names import node_name, sources_of
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.compiler.passes.unroll_sequences import unroll_sequences
from cnna.spec.called import called
from cnna.spec.checks import archive
from cnna.spec.errors import ModelError, about_model

OPSET_MAX = onnx.defs.onnx_opset_version()
Made = TypeVar("Made")
AGAIN = "; export it again"
FOR_SIZES = "a constant may hold the size that it was exported for: export it for the sizes of --shape"
BEGINNING = b"\x08"  # of an ONNX file: protobuf's tag of field 1, `ir_version`


def load_model(
    source: str | Path | bytes, name: str | None = None, shapes: Sizes | None = None, warn: Callable[[str], object] | None = None
) -> ModelProto:
    """A checked model, otherwise unchanged. `name` is what errors call it; `shapes` gives sizes to inputs (`set_shapes`).

    `warn` gets a line for each name of a size that `shapes` give two values, if the model can be so.

    It adds the types and shapes of outputs that onnxruntime would infer. A graph whose name says nothing gets that of its file.

    ModelError: unreadable, not ONNX, unsound, an opset that is too old or too new, weights that are missing or not finite,
    an input that holds no numbers or has an open axis besides the batch, shapes that contradict each other, or one on which
    onnxruntime contradicts ONNX.
    """
    name = name or (str(source) if isinstance(source, str | Path) else "the model")
    model = _parse(source, name)
    if isinstance(source, str | Path):
        model.graph.name = called(model.graph.name, source)
    _check_opsets(model, name)
    check_functions(model, name)
    model = _inlined(model, name)
    check_values(model, name)
    with about_model(name):
        write_out_norms(model, opset(model))
        check_nodes(model)
        check_attributes(model)
        sort_nodes(model.graph)
        twice = set_shapes(model, shapes or {})
        if shapes:
            refresh_shapes(model)
        complete(model)
    _check(model, name)
    try:
        shaped = with_shapes(model, name)
    except ModelError as error:
        said = str(error).removeprefix(f"{name}: ")
        if shapes and said.endswith(AGAIN):
            said = f"{said.removesuffix(AGAIN)}; {FOR_SIZES}"
        if not twice:
            raise ModelError(f"{name}: {said}") from None
        raise ModelError(f"{name}: --shape: {twice[0]}; give both the same size, or name them apart: {said}") from None
    with about_model(name):
        check_disputed_shapes(shaped)
    for line in twice:
        if warn is not None:
            warn(f"{name}: --shape: {line}; the model names both alike, but each axis has the size that was given")
    return model


def read_model(path: Path) -> ModelProto:
    """An ONNX file as it is, with its weights, for readers that do not import it. ModelError: unreadable, or not ONNX."""
    return _parse(path, str(path))


def _check(model: ModelProto, name: str) -> None:
    """ModelError: what ONNX's checker finds. It demands a shape for inputs and outputs, even if it is unknown."""
    seen = as_inputs(hollow(model))
    for value in (*seen.graph.input, *seen.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(seen)
    except Exception as error:  # the checker raises its own class, and others on some broken files
        raise ModelError(f"{name}: not a sound ONNX model: {first_line(error)}; export it again") from None


def _inlined(model: ModelProto, name: str) -> ModelProto:
    """The model with the nodes of its functions in place of their calls."""
    if not model.functions:
        return model
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # the inliner raises whatever C++ does
        raise ModelError(f"{name}: its functions cannot be inlined: {first_line(error)}; export it without functions") from None


def with_shapes(model: ModelProto, name: str = "the model", single: frozenset[str] | None = None) -> ModelProto:
    """A copy with the shape of every tensor, whose inputs have a batch axis of 1 in front. Large weights have no data (`hollow`).

    Floats become float32, QLinear operators become Q and DQ, and all zero points are written out. `single`: inputs whose own first
    axis is no batch; without it, the inputs for which the shapes fit together.
    """
    if single is None:
        return _either(model, lambda choice: with_shapes(model, name, choice))[0]
    copy = hollow(model)
    with about_model(name):
        check_inputs(copy)
        raise_opset(copy, opset(copy), name)
        settle_forms(copy)
        to_float32(copy.graph)
        set_batch(copy, single)
        whole = expand_vendor(copy)
        describe_strangers(copy)
        settle_ceil_pools(copy, name, whole)
        if settle_branches(copy):
            settle_ceil_pools(copy, name, whole)
        try:
            shaped = inferred(copy, check_type=True, strict_mode=True)
        except ModelError:
            check_shapes(with_sizes(copy))  # a window larger than its map, say, which explains later contradictions
            raise
        check_shapes(with_sizes(shaped))
        write_zero_points(shaped)
    keep_declared(shaped, model, single)
    return shaped


def _either(model: ModelProto, make: Callable[[frozenset[str]], Made]) -> tuple[Made, frozenset[str]]:
    """The result of `make` for the model, and the inputs that it takes for having no batch.

    The first try takes those that the sizes show. If it fails, the second takes all inputs with a fixed first axis above 1.
    ModelError: that of the first try, if both fail.
    """
    sizes = unbatched(model)
    try:
        return make(sizes), sizes
    except ModelError as error:
        fixed = sizes | {value.name for value in inputs_of(model) if first_size(value) > 1}
        if fixed == sizes:
            raise
        try:
            return make(fixed), fixed
        except ModelError:
            raise error from None


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
        if source.startswith(archive.BEGINNING) and archive.MANIFEST.encode() in source:
            raise ModelError(f"{name}: a .cnna, which is compiled; give the ONNX model from which it was made") from None
        raise ModelError(f"{name}: not an ONNX file (its protobuf cannot be read); export the model as one") from None
    if not model.HasField("graph") or not model.opset_import or not model.ir_version:
        missing = "no graph, opset or IR version"
        raise ModelError(f"{name}: not an ONNX model ({missing} in its {len(source):,} bytes); export the model as one")
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "?")
            if not folder or not (Path(folder) / location).is_file():
                missing = f"weights of '{tensor.name}' are in an external file '{location}', which is not there"
                raise ModelError(f"{name}: {missing}; put it beside the model")
    if folder:
        try:
            onnx.load_external_data_for_model(model, folder)
        except Exception as error:  # the checker's own class, for a place outside the folder, and those of reading a file
            raise ModelError(f"{name}: external weights cannot be read: {first_line(error)}; export it again") from None
    return model


def _check_opsets(model: ModelProto, name: str) -> None:
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        raise ModelError(f"{name}: it imports no opset of ONNX itself; export it with one of 1..{OPSET_MAX}")
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= OPSET_MAX:
            raise ModelError(f"{name}: opset {entry.version} is outside 1..{OPSET_MAX}; export it with one of those")
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(f"{name}: ONNX IR version {model.ir_version} is newer than {onnx.IR_VERSION}; export it for an older one")


def opset(model: ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def attribute(value: onnx.AttributeProto) -> Any:
    """An attribute as Python holds it: strings decoded, lists as tuples, tensors as arrays."""
    result = onnx.helper.get_attribute_value(value)
    if isinstance(result, bytes):
        return result.decode(errors="replace")
    if isinstance(result, TensorProto):
        return numpy_helper.to_array(result)
    return tuple(result) if hasattr(result, "__len__") and not isinstance(result, str) else result


def to_graph(model: ModelProto) -> Graph:
    """The float graph of a model: only `Onnx` nodes, each with a name. ModelError: as of `check_front` and `check_back`."""
    return _either(model, lambda single: _graph(model, single))[0]


def single_inputs(model: ModelProto) -> frozenset[str]:
    """The inputs whose first axis is no batch."""
    single = unbatched(model)
    if all(first_size(value) == 1 for value in inputs_of(model) if value.name not in single):
        return single
    return _either(model, lambda choice: _graph(model, choice))[1]


def _graph(model: ModelProto, single: frozenset[str]) -> Graph:
    firsts = {value.name: first_size(value) for value in inputs_of(model) if value.name not in single}
    shaped = with_shapes(model, single=single)
    constants = _constants(shaped, model)
    tensors, types = _described(shaped)
    nodes = []
    for node in shaped.graph.node:
        made = _node(node)
        nodes.append(made)
        for output in outputs_of(made):
            tensors.setdefault(output, Tensor(()))
    graph = Graph(
        shaped.graph.name or "model",
        tuple(value.name for value in inputs_of(shaped)),
        tuple(value.name for value in shaped.graph.output),
        tuple(nodes),
        {name: tensor for name, tensor in tensors.items() if name not in constants},
        constants,
        opset(shaped),
        sources_of(model),
        types,
        declared_axes(shaped),
    )
    graph = Editor(graph).finish()
    check_front(graph, firsts)
    if (samples := max(firsts.values(), default=1)) > 1:
        check_back(unroll_sequences(fold_constants(graph)), samples, _output_shapes(model))
    return graph


def _node(node: onnx.NodeProto) -> Node[Onnx]:
    attributes = {entry.name: attribute(entry) for entry in node.attribute}
    first, *more = node.output
    outside = captured(node)
    op = Onnx(node.op_type, attributes, "" if node.domain == "ai.onnx" else node.domain, tuple(more), outside)
    return Node(node_name(node), op, (*node.input, *outside), first)


def _constants(shaped: ModelProto, model: ModelProto) -> dict[str, np.ndarray]:
    """The constants by name. Large ones are the model's own, in the type that they have got since."""
    whole = {tensor.name: tensor for tensor in model.graph.initializer}
    found = {}
    for tensor in shaped.graph.initializer:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        array = numpy_helper.to_array(whole[tensor.name] if is_hollow(tensor) else tensor)
        found[tensor.name] = array.astype(kind, copy=False)
    return found


def _described(model: ModelProto) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The shape of every tensor, as far as it is known, and the types of those that are not float32."""
    tensors, types = {}, {}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        kind = value.type.tensor_type
        tensors[value.name] = Tensor(tuple(dim.dim_value for dim in kind.shape.dim))
        if not value.type.HasField("tensor_type"):
            types[value.name] = ""
        elif kind.elem_type not in (TensorProto.FLOAT, TensorProto.UNDEFINED):
            types[value.name] = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return tensors, types


def _output_shapes(model: ModelProto) -> dict[str, list[int | None]]:
    """The shapes of the outputs of a model as it came, by output, where they are known; None for an unknown size."""
    copy = hollow(model)
    expand_vendor(copy)
    return {value.name: sizes_of(value) for value in inferred(copy).graph.output if value.type.tensor_type.HasField("shape")}
