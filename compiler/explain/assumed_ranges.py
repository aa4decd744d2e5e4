"""Quantises a float model with assumed ranges, so that it can be placed and compiled.

Placement and clocks do not depend on them, but for constants far from all data, around which nodes stay in float.
"""

import numpy as np
from onnx import ModelProto

from cnna.compiler.frontend.pieces.partition import Reasons
from cnna.compiler.graph.ir import Graph
from cnna.compiler.quantise.calibrate import Statistics, calibrate, random_samples
from cnna.compiler.quantise.heads import behind_heads
from cnna.compiler.quantise.outliers import OutlierWatch, held_back, pads_as_padding, unseen_lows
from cnna.compiler.quantise.quantise import KEPT, float_body, outliers_of, written
from cnna.spec.errors import ModelError

REACH = 4.0  # the range of every tensor, in both directions, if no sample can be computed
FAR = "a number far from all others leaves int8 no range here; apply such a mask behind the network, or use a value near the data"

DECODE = "it decodes boxes, and stays in float for --detector"


def quantised(graph: Graph, detector: bool = False) -> tuple[ModelProto, Reasons]:
    """The rewritten float `graph` as `cnna quantize` would write it, except for the ranges, and why nodes of it stay float.

    detector: what a detector does behind its heads stays in float, as `cnna convert --detector` keeps it.

    ModelError: the graph is quantised already, or constants leave nothing of it for the accelerator.
    """
    reasons, body = float_body(graph)
    samples = random_samples(graph) if body.nodes else {}
    try:
        graph = pads_as_padding(graph, samples, 1, None)
        reasons, body = float_body(graph)
        names, unseen = (*body.tensors,), unseen_lows(graph, body)
        far = OutlierWatch(names, [0])
        ranges = calibrate(graph, names, samples, False, watch=[far], unseen=unseen) if body.nodes else {}
    except ModelError:  # onnxruntime cannot run it; `refusals` will find the node
        ranges = {name: _anything(tensor.shape[1]) for name, tensor in body.tensors.items()}
    else:
        decode = behind_heads(graph, reasons) if detector else frozenset[str]()
        reasons, body = float_body(graph, {*held_back(body, outliers_of(graph, body, ranges, far)), *decode})
        why = {output: DECODE if output in decode else FAR for output in reasons}
        reasons = {output: why[output] if reason == KEPT else reason for output, reason in reasons.items()}
    model, _ = written(graph, body, ranges, correct_bias=False)
    return model, reasons


def _anything(channels: int) -> Statistics:
    return Statistics(-REACH, REACH, np.zeros(channels), 1)
