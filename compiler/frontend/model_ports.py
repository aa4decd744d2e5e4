"""Inputs and outputs of a model as its user knows them, for the manifest."""

import json
import re
from collections.abc import Mapping

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from cnna.compiler.frontend.onnx_model.input_shapes import sizes_of
from cnna.compiler.frontend.source_model import SourceModel
from cnna.spec.errors import ModelError
from cnna.spec.manifest import ModelInput, ModelOutput

AXES_KEY = "cnna.batch_axes"  # of a model's metadata


def store_axes(model: ModelProto, axes: Mapping[str, int | None]) -> None:
    """Writes into a model's metadata where the batch lies in outputs in which its own nodes do not show it; nothing for none."""
    if axes:
        model.metadata_props.add(key=AXES_KEY, value=json.dumps(axes))


def stored_axes(model: ModelProto, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, int | None]:
    """What `store_axes` has written. shapes: of the outputs. ModelError: it does not fit these, or cannot be read."""
    for entry in model.metadata_props:
        if entry.key == AXES_KEY:
            try:
                found = json.loads(entry.value)
            except ValueError:
                found = None
            if not isinstance(found, dict) or not (shapes is None or _all_axes(found, shapes)):
                raise ModelError(f"the model's metadata '{AXES_KEY}', {entry.value[:80]!r}, does not fit; quantise it again")
            return found
    return {}


def _all_axes(found: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether each entry names an axis of its output, or none."""
    return all(_is_axis(axis, shapes.get(name, ())) for name, axis in found.items())


def _is_axis(axis: object, shape: tuple[int, ...]) -> bool:
    """Whether this names an axis of an output, or none."""
    return axis is None or (isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(shape))


def model_inputs(source: SourceModel) -> list[ModelInput]:
    """Name, shape without the batch axis (None for open sizes) and numpy type of the inputs that a user gives."""
    return [
        {"name": value.name, "shape": sizes_of(value)[value.name not in source.single :], "dtype": _dtype(value)}
        for value in source.inputs
    ]


def model_outputs(model: ModelProto, shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int | None]) -> list[ModelOutput]:
    """Name, shape of the answer to one sample (None for sizes that depend on the data), numpy type and batch axis of the outputs.

    `shapes` and `axes` are those of `QuantisedModel`. If ONNX cannot infer a shape, the one that the model declares counts,
    provided that all its sizes except the batch are fixed. ModelError: two outputs would have the same name.
    """
    found: list[ModelOutput] = []
    batches = {dims[0].dim_param for value in model.graph.input if (dims := value.type.tensor_type.shape.dim)} - {""}
    for value in model.graph.output:
        shape: list[int | None] | None = [size or None for size in shapes[value.name]]
        axis, declared = axes[value.name], sizes_of(value)
        names = [dim.dim_param in batches for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape") and (not shape or None in shape):
            told = [1 if batch else size or None for size, batch in zip(declared, names, strict=True)]
            shape = told if not shape or None not in told else shape
        elif not shape:
            shape = None
        if axis is None and sum(names) == 1 and shape and shape[names.index(True)] == 1:
            axis = names.index(True)  # the trace has lost it, behind a branch or a loop say, but the model names it
        fixed = shape is not None and None not in shape
        found.append({"name": value.name, "shape": shape, "dtype": _dtype(value), "batch_axis": axis if fixed else None})
    _check_numbered_names(found)
    return found


def _check_numbered_names(found: list[ModelOutput]) -> None:
    """ModelError: an output has the name that a single sample of another output would get, whose size depends on the data
    (`boxes.0`).
    """
    names = [entry["name"] for entry in found]
    for entry in found:
        numbered = re.compile(re.escape(entry["name"]) + r"\.\d+")
        if (entry["shape"] is None or None in entry["shape"]) and (taken := next(filter(numbered.fullmatch, names), None)):
            remedy = "rename one of them"
            raise ModelError(
                f"output '{entry['name']}' of several samples would be called '{taken}', as another output is; {remedy}"
            )


def _dtype(value: ValueInfoProto) -> str:
    kind = value.type.tensor_type.elem_type
    return "float32" if kind == TensorProto.BFLOAT16 else str(helper.tensor_dtype_to_np_dtype(kind))
