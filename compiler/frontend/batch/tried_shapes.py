"""The shapes of outputs of which no rule and no model says anything, from a run on one sample and one on two.

`declared_shapes` asks for them behind operators of other domains. The axis that grows with the samples is the batch.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from cnna.compiler.frontend.onnx_model.input_shapes import inputs_of
from cnna.spec.cpu_ops import onnxruntime_errors, session_options

SEED = 1


class Tried(NamedTuple):
    """An output for one sample. axis: of the batch. kind: ONNX's type of its elements."""

    shape: list[int]
    axis: int
    kind: int


def tried(model: ModelProto, names: Sequence[str], sizes: Mapping[str, Sequence[int]], single: Set[str]) -> dict[str, Tried]:
    """What is seen of some outputs; those are left out whose batch does not show.

    sizes: of each input for one sample. single: inputs without a batch. Nothing at all if onnxruntime cannot run the model.
    """
    if any(min(shape, default=1) < 1 for shape in sizes.values()):
        return {}
    import onnxruntime as ort

    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(ValueInfoProto(name=name) for name in names)
    for value in inputs_of(copy):
        if value.name not in single and value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].Clear()
    failures: tuple[type[Exception], ...] = (*onnxruntime_errors(), ValueError)  # the last: the model is too large for a message
    options = session_options(ort)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
        one, two = (session.run(None, _samples(copy, sizes, single, count)) for count in (1, 2))
    except failures:
        return {}
    found = {}
    for name, first, second in zip(names, one, two, strict=True):
        if isinstance(first, np.ndarray) and first.ndim == second.ndim and first.size:
            grown = [axis for axis, size in enumerate(first.shape) if second.shape[axis] != size]
            if len(grown) == 1 and first.shape[grown[0]] == 1 and second.shape[grown[0]] == 2:
                found[name] = Tried(list(first.shape), grown[0], helper.np_dtype_to_tensor_dtype(first.dtype))
    return found


def _samples(model: ModelProto, sizes: Mapping[str, Sequence[int]], single: Set[str], count: int) -> dict[str, np.ndarray]:
    """Seeded normal numbers for each input, or zeros where it has integers."""
    rng, found = np.random.default_rng(SEED), {}
    for value in inputs_of(model):
        shape = sizes[value.name]
        shape = shape if value.name in single else (count, *shape[1:])
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        found[value.name] = rng.standard_normal(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype)
    return found
