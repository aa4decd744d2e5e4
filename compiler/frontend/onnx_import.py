"""Reads an ONNX model and turns it into the float graph, in which every operator is still the model's own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os.path import isdir, isfile  # of any name, where Path.is_file fails for one that is too long
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from cnna.compiler.frontend.batch.batch_axis import back_fault, front_fault
from cnna.compiler.frontend.onnx_model.attributes import check_attributes
from cnna.compiler.frontend.onnx_model.computed_sizes import refresh_shapes
from cnna.compiler.frontend.onnx_model.disputed_shapes import check_disputed_shapes
from cnna.compiler.frontend.onnx_model.hollow import as_inputs, hollow
from cnna.compiler.frontend.onnx_model.input_shapes import Sizes, batch_choices, inputs_of, set_shapes, sizes_of
from cnna.compiler.frontend.onnx_model.model_checks import check_functions, check_values, complete, first_line, inferred
from cnna.compiler.frontend.onnx_model.node_order import sort_nodes
from cnna.compiler.frontend.onnx_model.runtime_norms import write_out_norms
from cnna.compiler.frontend.onnx_model.sound_nodes import check_nodes
from cnna.compiler.frontend.onnx_model.subgraphs import captured
from cnna.compiler.frontend.onnx_model.vendor import expand_vendor
from cnna.compiler.frontend.source_model import Readable, SourceModel, opset, prepared
from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.graph.node_names import node_name
from cnna.compiler.passes.pipeline import PLAIN, run_passes
from cnna.spec.checks import archive
from cnna.spec.errors import ModelError, about_model
from cnna.spec.names import called

OPSET_MAX = onnx.defs.onnx_opset_version()
Warn = Callable[[str], object]  # takes a line that a user should read
AGAIN = "; export it again"
FOR_SIZES = "a constant may hold the size that it was exported for: export it for the sizes of --shape"
BEGINNING = b"\x08"  # of an ONNX file: protobuf's tag of field 1, `ir_version`


def load_model(
    source: str | Path | bytes, name: str | None = None, shapes: Sizes | None = None, warn: Warn | None = None
) -> ModelProto:
    """A checked model, otherwise unchanged. `name` is what errors call it; `shapes` gives sizes to inputs (`set_shapes`).

    `warn` gets a line for each name of a size that `shapes` give two values, if the model can be so.

    It adds the types and shapes of outputs that onnxruntime would infer. A graph whose name says nothing gets that of its file.

    ModelError: unreadable, not ONNX, unsound, an opset that is too old or too new, weights that are missing or not finite,
    an input that holds no numbers or has an open axis besides the batch, shapes that contradict each other, or one on which
    onnxruntime contradicts ONNX.
    """
    return read(source, name, shapes, warn).proto


def read(
    source: str | Path | bytes | ModelProto, name: str | None = None, shapes: Sizes | None = None, warn: Warn | None = None
) -> SourceModel:
    """As `load_model`, and prepared for all that follows. source: a file, its content, or a model, which is not changed."""
    name = name or (str(source) if isinstance(source, str | Path) else "the model")
    model = _parse(source.SerializeToString() if isinstance(source, ModelProto) else source, name)
    if isinstance(source, str | Path):
        model.graph.name = called(model.graph.name, source)
    model = _checked(model, name)
    with about_model(name):
        twice = set_shapes(model, shapes or {})
        if shapes:
            refresh_shapes(model)
        complete(model)
    _check(model, name)
    try:
        found = source_of(model, name)
    except ModelError as error:
        raise ModelError(f"{name}: {_with_sizes_said(str(error).removeprefix(f'{name}: '), shapes, twice)}") from None
    with about_model(name):
        check_disputed_shapes(found.prepared)
    for line in twice:
        if warn is not None:
            warn(f"{name}: --shape: {line}; the model names both alike, but each axis has the size that was given")
    return found


def _checked(model: ModelProto, name: str) -> ModelProto:
    """The model without functions, with its nodes in order, once its parts are known to be sound."""
    _check_opsets(model, name)
    check_functions(model, name)
    model = _inlined(model, name)
    check_values(model, name)
    with about_model(name):
        write_out_norms(model, opset(model))
        check_nodes(model)
        check_attributes(model)
        sort_nodes(model.graph)
    return model


def _with_sizes_said(said: str, shapes: Sizes | None, twice: Sequence[str]) -> str:
    """What is wrong with a model's shapes, with the part that sizes of the user's may have in it."""
    if shapes and said.endswith(AGAIN):
        said = f"{said.removesuffix(AGAIN)}; {FOR_SIZES}"
    return f"--shape: {twice[0]}; give both the same size, or name them apart: {said}" if twice else said


def read_model(source: Path | bytes | ModelProto, name: str | None = None) -> ModelProto:
    """An ONNX file as it is, with its weights, for readers that do not import it; or a copy of a model.

    name: what errors call it. ModelError: unreadable, or not ONNX.
    """
    return _parse(source.SerializeToString() if isinstance(source, ModelProto) else source, name or str(source))


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


def _parse(source: str | Path | bytes, name: str) -> ModelProto:
    folder = ""
    if not isinstance(source, bytes):
        path = Path(source)
        if isdir(path):
            raise ModelError(f"{name}: a folder, not an ONNX file; name the .onnx file in it")
        if not isfile(path):
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


def attribute(value: onnx.AttributeProto) -> Any:
    """An attribute as Python holds it: strings decoded, lists as tuples, tensors as arrays."""
    result = onnx.helper.get_attribute_value(value)
    if isinstance(result, bytes):
        return result.decode(errors="replace")
    if isinstance(result, TensorProto):
        return numpy_helper.to_array(result)
    return tuple(result) if hasattr(result, "__len__") and not isinstance(result, str) else result


def source_of(model: Readable, name: str = "the model") -> SourceModel:
    """A model as all later steps take it, prepared unless it is already. name: what errors call it.

    Here alone is decided which inputs have a batch: that of `batch_choices` counts for which the shapes fit and the batch has no
    fault, or else the first for which the shapes fit. ModelError: they fit for none; it is the error of the first.
    """
    if isinstance(model, SourceModel):
        return model
    errors, faulty = list[ModelError](), list[SourceModel]()
    for single in batch_choices(model):
        try:
            found = SourceModel(model, prepared(model, single, name), single)
        except ModelError as error:
            errors.append(error)
            continue
        fault = _batch_fault(found)
        if fault is None:
            return found
        faulty.append(replace(found, fault=fault))
    if not faulty:
        raise errors[0] from None
    return faulty[0]


def _batch_fault(source: SourceModel) -> str | None:
    """As `SourceModel.fault`. Where every first axis is 1 or open, it can be the batch. A constant may not fit a single sample."""
    samples = max(source.firsts.values(), default=1)
    if samples == 1:
        return None
    try:
        graph = _graph(source)
        plain = run_passes(graph, PLAIN)
    except ModelError as error:
        return str(error)
    return front_fault(graph, source.firsts) or back_fault(plain, samples, _output_shapes(source.proto))


def to_graph(model: Readable) -> Graph:
    """The float graph of a model: only `Onnx` nodes, each with a name. Each call makes one, since its constants are large.

    ModelError: the model's `fault`.
    """
    source = source_of(model)
    if source.fault:
        raise ModelError(source.fault)
    return _graph(source)


def _graph(source: SourceModel) -> Graph:
    shaped, constants = source.prepared.graph, source.constants()
    tensors, types = _described(source.prepared)
    nodes = []
    for node in shaped.node:
        made = _node(node)
        nodes.append(made)
        for output in outputs_of(made):
            tensors.setdefault(output, Tensor(()))
    graph = Graph(
        shaped.name or "model",
        tuple(value.name for value in inputs_of(source.prepared)),
        tuple(value.name for value in shaped.output),
        tuple(nodes),
        {name: tensor for name, tensor in tensors.items() if name not in constants},
        constants,
        source.opset,
        source.sources,
        types,
        source.declared_axes,
    )
    return Editor(graph).finish()


def _node(node: onnx.NodeProto) -> Node[Onnx]:
    attributes = {entry.name: attribute(entry) for entry in node.attribute}
    first, *more = node.output
    outside = captured(node)
    op = Onnx(node.op_type, attributes, "" if node.domain == "ai.onnx" else node.domain, tuple(more), outside)
    return Node(node_name(node), op, (*node.input, *outside), first)


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
