"""The pieces of a model that run on the CPU: as ONNX models, as the manifest's list, and tried once.

onnxruntime may refuse an operator. The trial finds that while the model is compiled, not when the first image comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.partition import Piece
from cnna.compiler.frontend.subgraphs import captured
from cnna.compiler.graph.ir import Graph
from cnna.spec.cpu_ops import CpuPart
from cnna.spec.errors import ArtifactError, ModelError, reason_of
from cnna.spec.manifest import CPU, CpuOperator

SEED = 1
SMALL_CONSTANT = 64  # elements: shapes, the k of a top-k


def cpu_models(pieces: Sequence[Piece], graph: Graph, types: Mapping[str, int]) -> list[ModelProto | None]:
    """The pieces for the CPU as models, None for the others. types: of ONNX's elements, by tensor; float where it has none.

    Each tensor is rounded, where the quantised model rounds it, by the piece that makes it; the model's inputs by each piece that
    reads them. What a piece makes for the accelerator alone the host rounds on the way.
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
        models.append(to_model(replace(piece.graph, tensors=tensors), types=types))
    return models


def operators_of(part: ModelProto) -> list[CpuOperator]:
    """The operators of a part as the manifest lists them, for boards without onnxruntime.

    The inputs of an If, Loop or Scan include what the graphs inside it read: whoever makes that must hand it on. Attributes other
    than numbers and strings, and large constants, are in the ONNX file only.
    """
    operators: list[CpuOperator] = []
    small = {t.name: numpy_helper.to_array(t) for t in part.graph.initializer if prod(t.dims) <= SMALL_CONSTANT}
    for node in part.graph.node:
        plain = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = {key: value.decode() if isinstance(value, bytes) else value for key, value in plain.items()}
        attributes = {key: value for key, value in plain.items() if isinstance(value, int | float | str)}
        lists = {key: list(value) for key, value in plain.items() if isinstance(value, list | tuple) and _numbers(value)}
        operators.append(
            {
                "name": node.name,
                "op": node.op_type,
                "inputs": [*node.input, *captured(node)],
                "outputs": list(node.output),
                "attributes": {**attributes, **lists},
                "constants": {n: {"dtype": str(small[n].dtype), "values": small[n].tolist()} for n in node.input if n in small},
            }
        )
    return operators


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def try_part(part: ModelProto, operators: list[CpuOperator]) -> None:
    """Runs a part on one sample of seeded numbers within 0..1, if its inputs have known shapes. ModelError: it does not run."""
    try:
        cpu = CpuPart(part.SerializeToString(), operators, [value.name for value in part.graph.output])
        rng, feeds = np.random.default_rng(SEED), {}
        for value in part.graph.input:
            kind = value.type.tensor_type
            if kind.elem_type != TensorProto.FLOAT:
                return  # sizes or places: numbers within 0..1 need not be any
            sizes = [1 if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
            if not kind.HasField("shape") or any(size < 1 for size in sizes):
                return
            feeds[value.name] = rng.random(sizes, np.float32)
        cpu.run(feeds)
    except ArtifactError as error:  # which says to compile it again
        reason = reason_of(error.__context__)[:300] if isinstance(error.__context__, Exception) else str(error)
        named = ", ".join(dict.fromkeys(entry["op"] for entry in operators))
        raise ModelError(f"onnxruntime cannot run the operators for the CPU ({named}): {reason}") from None
