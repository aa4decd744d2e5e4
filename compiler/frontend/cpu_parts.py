"""The parts of a model that run on the CPU, head and tail: as ONNX models, as the manifest's list, and tried once.

onnxruntime may refuse an operator. The trial finds that while the model is compiled, not when the first image comes.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.split import Parts
from cnna.compiler.graph.ir import Graph
from cnna.spec.cpu_ops import CpuPart
from cnna.spec.errors import ArtifactError, ModelError, reason_of
from cnna.spec.manifest import CpuOperator

SEED = 1
SMALL_CONSTANT = 64  # elements: shapes, the k of a top-k


def cpu_parts(parts: Parts, outputs: tuple[str, ...]) -> tuple[ModelProto | None, ModelProto | None]:
    """Head and tail as models. They round what the quantised model rounds, except where their neighbour does it.

    The tail does not round its inputs: they were the accelerator's int8. The head does not round what only the accelerator reads:
    the host rounds it on the way. `outputs` are the whole model's.
    """
    seen = {*outputs}.union(*(node.inputs for part in (parts.head, parts.tail) if part for node in part.nodes))
    for_body = {*parts.head.outputs} - seen if parts.head else set()
    return _cpu(parts.head, for_body), _cpu(parts.tail, {*parts.body.outputs})


def _cpu(part: Graph | None, plain: set[str]) -> ModelProto | None:
    """A part without Q and DQ at the tensors `plain`."""
    if part is None:
        return None
    tensors = {name: replace(tensor, quant=None) if name in plain else tensor for name, tensor in part.tensors.items()}
    return to_model(replace(part, tensors=tensors))


def operators_of(part: ModelProto | None) -> list[CpuOperator]:
    """The operators of a part as the manifest lists them, for boards without onnxruntime.

    Attributes other than numbers and strings, and large constants, are in the ONNX file only.
    """
    operators: list[CpuOperator] = []
    small = {t.name: numpy_helper.to_array(t) for t in (part.graph.initializer if part else ()) if prod(t.dims) <= SMALL_CONSTANT}
    for node in part.graph.node if part else ():
        plain = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = {key: value.decode() if isinstance(value, bytes) else value for key, value in plain.items()}
        attributes = {key: value for key, value in plain.items() if isinstance(value, int | float | str)}
        lists = {key: list(value) for key, value in plain.items() if isinstance(value, list | tuple) and _numbers(value)}
        operators.append(
            {
                "name": node.name,
                "op": node.op_type,
                "inputs": list(node.input),
                "outputs": list(node.output),
                "attributes": {**attributes, **lists},
                "constants": {n: {"dtype": str(small[n].dtype), "values": small[n].tolist()} for n in node.input if n in small},
            }
        )
    return operators


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def try_part(part: ModelProto | None, operators: list[CpuOperator]) -> None:
    """Runs a part on one sample of seeded numbers within 0..1, if its inputs have known shapes. ModelError: it does not run."""
    if part is None:
        return
    try:
        cpu = CpuPart(part.SerializeToString(), operators, [value.name for value in part.graph.output])
        rng, feeds = np.random.default_rng(SEED), {}
        for value in part.graph.input:
            sizes = [1 if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if any(size < 1 for size in sizes):
                return
            feeds[value.name] = rng.random(sizes, np.float32)
        cpu.run(feeds)
    except ArtifactError as error:  # which says to compile it again
        reason = reason_of(error.__context__)[:300] if isinstance(error.__context__, Exception) else str(error)
        named = ", ".join(dict.fromkeys(entry["op"] for entry in operators))
        raise ModelError(f"onnxruntime cannot run the operators for the CPU ({named}): {reason}") from None
