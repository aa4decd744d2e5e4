"""The pieces of a model that run on the CPU: as ONNX models, as the manifest's list, and in one trial run.

onnxruntime may refuse an operator. The trial finds that while the model is compiled, not when the first image comes.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import isfinite, prod
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, TensorShapeProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_export import BATCH, to_model
from cnna.compiler.frontend.onnx_model.subgraphs import captured
from cnna.compiler.frontend.pieces.partition import Piece
from cnna.compiler.graph.ir import Graph
from cnna.spec.cpu_ops import CpuPart, numpy_suffices
from cnna.spec.errors import ArtifactError, ModelError, reason_of
from cnna.spec.manifest import CPU, CpuOperator

SEED = 1
SMALL_CONSTANT = 64  # elements: a shape, or the k of a top-k, has no more


def cpu_models(pieces: Sequence[Piece], graph: Graph) -> list[ModelProto | None]:
    """The pieces for the CPU as models, None for the others.

    The piece that makes a tensor rounds it where the quantised model rounds it. Each piece that reads an input of the model rounds
    that input. The host rounds what a piece makes only for the accelerator.
    """
    read = [{name for node in piece.graph.nodes for name in node.inputs} if piece.kind == CPU else set() for piece in pieces]
    models: list[ModelProto | None] = []
    for piece in pieces:
        if piece.kind != CPU:
            models.append(None)
            continue
        given = {*piece.graph.inputs} - {*graph.inputs}
        alone = {*piece.graph.outputs} - set().union(*read) - {*graph.outputs}
        tensors = {
            name: replace(tensor, quant=None) if name in given | alone else tensor for name, tensor in piece.graph.tensors.items()
        }
        models.append(_with_lengths(to_model(replace(piece.graph, tensors=tensors)), piece.graph, given))
    return models


def _with_lengths(part: ModelProto, graph: Graph, given: Collection[str]) -> ModelProto:
    """Gives each vector of integers that the part reads from earlier pieces its length.

    It may hold sizes, of which onnxruntime must know how many there are. A part runs for one sample, so its length is that of one.
    """
    for value in part.graph.input:
        shape = graph.tensors[value.name].shape
        if value.name in given and value.name in graph.types and len(shape) == 1 and shape[0]:
            value.type.tensor_type.shape.dim[0].dim_value = shape[0]
    return part


def operators_of(part: ModelProto) -> list[CpuOperator]:
    """The operators of a part as the manifest lists them, for boards without onnxruntime.

    The inputs of an If, Loop or Scan include what the graphs inside it read: whoever makes that must hand it on. Only the ONNX file
    has constants that are large or not of finite numbers, and attributes other than finite numbers and strings. An operator of a
    domain other than ONNX's bears its domain too, since it may compute something else than ONNX's of the same name.
    """
    operators: list[CpuOperator] = []
    arrays = {t.name: numpy_helper.to_array(t) for t in part.graph.initializer if prod(t.dims) <= SMALL_CONSTANT}
    small = {name: value for name, value in arrays.items() if value.dtype.kind in "fiub" and np.isfinite(value).all()}
    for node in part.graph.node:
        plain = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = {key: value.decode() if isinstance(value, bytes) else value for key, value in plain.items()}
        attributes = {key: value for key, value in plain.items() if isinstance(value, str) or _numbers([value])}
        lists = {key: list(value) for key, value in plain.items() if isinstance(value, list | tuple) and _numbers(value)}
        operators.append(
            {
                "name": node.name,
                "op": f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
                "inputs": [*node.input, *captured(node)],
                "outputs": list(node.output),
                "attributes": {**attributes, **lists},
                "constants": {n: {"dtype": str(small[n].dtype), "values": small[n].tolist()} for n in node.input if n in small},
            }
        )
    return operators


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and isfinite(value) for value in values)


def try_part(part: ModelProto, operators: list[CpuOperator]) -> None:
    """Runs a part on one sample of seeded numbers within 0..1, if the shapes of its inputs are known.

    ModelError: it does not run.
    """
    try:
        numpy = numpy_suffices(operators, {value.name for value in part.graph.input})
        cpu = CpuPart(part.SerializeToString(), operators, [value.name for value in part.graph.output], numpy=numpy)
        rng, feeds = np.random.default_rng(SEED), {}
        for value in part.graph.input:
            kind = value.type.tensor_type
            if kind.elem_type != TensorProto.FLOAT:
                return  # inputs are sizes or places, which numbers within 0..1 need not be
            sizes = [1 if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
            if not kind.HasField("shape") or any(size < 1 for size in sizes):
                return
            feeds[value.name] = rng.random(sizes, np.float32)
        made = cpu.run(feeds)
        shapes = ((value.name, value.type.tensor_type.shape.dim) for value in part.graph.output)
        reason = next((said for name, dims in shapes if (said := misdeclared(name, made[name].shape, _one_sample(dims)))), None)
    except ArtifactError as error:  # whose message advises to compile again
        reason = reason_of(error.__context__)[:300] if isinstance(error.__context__, Exception) else str(error)
    if reason:
        named = ", ".join(dict.fromkeys(entry["op"] for entry in operators))
        raise ModelError(f"onnxruntime cannot run the operators for the CPU ({named}): {reason}")


def misdeclared(name: str, shape: Sequence[int], declared: Sequence[int]) -> str | None:
    """Why a tensor is not what a model says of it; None if it is, or if the model does not say all of it. For one sample."""
    if not declared or min(declared) < 1 or tuple(shape) == tuple(declared):
        return None
    return f"'{name}' has the shape {list(shape)}, but {list(declared)} in the model; correct the shape that it declares"


def _one_sample(dims: Iterable[TensorShapeProto.Dimension]) -> list[int]:
    """The sizes of an output of a part, whose batch alone has a name; 0 for an unknown one."""
    return [1 if dim.dim_param == BATCH else dim.dim_value for dim in dims]
