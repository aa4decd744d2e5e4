"""Moves pieces of the accelerator to the CPU where the crossings cost more than they gain, by predicted seconds.

A piece goes to the CPU if it takes less time there than on the accelerator with both crossings, if it has under one percent of the
model's multiply-accumulates, and if another piece stays on the accelerator. The seconds follow from stated constants.
"""

from collections.abc import Callable
from math import prod

from cnna.compiler.frontend.pieces.partition import Piece, Reasons, cut
from cnna.compiler.graph.float_ops import Chain, Onnx, Reshape, float_macs
from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.config import Config
from cnna.spec.cpu_ops import VIEWS
from cnna.spec.host_time.end_to_end import (
    ELEMENT_SECONDS,
    MAC_SECONDS,
    NODE_SECONDS,
    PIECE_SECONDS,
    VIEW_SECONDS,
    crossing_seconds,
)
from cnna.spec.manifest import ACCELERATOR

MOST_MACS = 0.01  # share of the model's that a piece for the CPU may have
TOO_LITTLE = "the CPU does it sooner than the way to the accelerator and back would take"


def cheaper(config: Config) -> Callable[[Graph, Reasons], Reasons]:
    """The function that decides for one configuration; the module says how."""

    def decide(graph: Graph, reasons: Reasons) -> Reasons:
        found = dict(reasons)
        total = sum(float_macs(node, graph) for node in graph.nodes)
        while True:
            pieces = cut(graph, found)
            own = [piece for piece in pieces if piece.kind == ACCELERATOR]
            poor = [piece for piece in own if _macs(piece) <= MOST_MACS * total and _gain(piece, config, pieces) < 0]
            if not poor or len(own) < 2:
                return found
            worst = min(poor, key=lambda piece: _gain(piece, config, pieces))
            found |= {node.output: TOO_LITTLE for node in worst.graph.nodes}

    return decide


def cpu_seconds(piece: Piece, views: bool) -> float:
    """The seconds of a piece on the CPU, for one image. views: it only gives arrays other shapes, so onnxruntime is not called."""
    return (0.0 if views else PIECE_SECONDS) + sum(node_seconds(node, piece.graph, views) for node in piece.graph.nodes)


def macs_a_second(config: Config) -> float:
    """Multiply-accumulates of a configuration at most: nothing else of it decides what goes to the CPU."""
    return config.macs * config.clock_mhz * 1e6


def _gain(piece: Piece, config: Config, pieces: list[Piece]) -> float:
    """Seconds that a piece on the accelerator saves. On the CPU it would be one piece with its neighbours there."""
    names = (*piece.graph.inputs, *piece.graph.outputs)
    there = crossing_seconds(1, sum(_elements(piece.graph, name) for name in names)) + _macs(piece) / macs_a_second(config)
    number = pieces.index(piece)
    calls = sum(not _only_views(near) for near in (*pieces[:number][-1:], *pieces[number + 1 :][:1]))  # of onnxruntime beside it
    return (1 - calls) * PIECE_SECONDS + sum(node_seconds(node, piece.graph) for node in piece.graph.nodes) - there


def _macs(piece: Piece) -> int:
    return sum(float_macs(node, piece.graph) for node in piece.graph.nodes)


def _only_views(piece: Piece) -> bool:
    """Whether the host may do a piece without onnxruntime: `spec.cpu_ops.only_views` decides, when it is exported."""
    ops = [node.op for node in piece.graph.nodes]
    return all(isinstance(op, Reshape) or (isinstance(op, Onnx) and op.kind in VIEWS) for op in ops)


def node_seconds(node: Node, graph: Graph, views: bool = False) -> float:
    """The seconds of a node on the CPU, for one image. views: as for `cpu_seconds`, of its piece."""
    if views:
        return VIEW_SECONDS
    moved = sum(_elements(graph, name) for name in (*node.inputs, node.output) if name in graph.tensors)
    nodes = len(node.op.nodes) if isinstance(node.op, Chain) else 1
    return nodes * (NODE_SECONDS + moved * ELEMENT_SECONDS) + float_macs(node, graph) * MAC_SECONDS


def _elements(graph: Graph, name: str) -> int:
    return prod(graph.tensors[name].shape)
