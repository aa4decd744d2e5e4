"""Runs a head or tail once while a model is compiled: what onnxruntime refuses is said then, and not when an image comes."""

from typing import Any

import numpy as np
from onnx import ModelProto

from cnna.spec.cpu_ops import CpuPart
from cnna.spec.errors import ArtifactError, ModelError, reason_of

SEED = 1


def try_part(part: ModelProto, operators: list[dict[str, Any]]) -> None:
    """On one sample of seeded numbers within 0..1, where the shapes of its inputs are known. ModelError: it does not run."""
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
