"""Quantises a float model with assumed ranges, so that it can be placed and compiled.

Placement and clocks do not depend on them.
"""

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto

from cnna.compiler.frontend.pieces.partition import Reasons
from cnna.compiler.graph.ir import Graph
from cnna.compiler.quantise.calibrate import Statistics, calibrate
from cnna.compiler.quantise.quantise import float_body, written
from cnna.spec.errors import ModelError

SEED = 1
REACH = 4.0  # the range of every tensor, in both directions, if no sample can be computed


def quantised(graph: Graph) -> tuple[ModelProto, Reasons]:
    """The rewritten float `graph` as `cnna quantize` would write it, except for the ranges, and why nodes of it stay float.

    ModelError: the graph is quantised already.
    """
    reasons, body = float_body(graph)
    model, _ = written(graph, body, _ranges(graph, body), correct_bias=False)
    return model, reasons


def _ranges(graph: Graph, body: Graph) -> Mapping[str, Statistics]:
    """Ranges from one sample of seeded normal numbers.

    If onnxruntime cannot run the model on it, all tensors have the same range.
    """
    if not body.nodes:
        return {}
    rng = np.random.default_rng(SEED)
    samples = {}
    for name in graph.inputs:
        sample = rng.standard_normal((1, *graph.tensors[name].shape[1:]))
        samples[name] = np.abs(sample).astype(graph.types[name]) if name in graph.types else sample.astype(np.float32)
    try:
        return calibrate(graph, tuple(body.tensors), samples, histograms=False)
    except ModelError:  # `refusals` will find the node
        return {name: _anything(tensor.shape[1]) for name, tensor in body.tensors.items()}


def _anything(channels: int) -> Statistics:
    return Statistics(-REACH, REACH, np.zeros(channels), 1)
