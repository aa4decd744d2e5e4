"""Turns PixelShuffle and PixelUnshuffle, written as Reshape, Transpose and Reshape, into interleaved maps and concatenated pixels.

Requires: typed views, each chain ending in the tensor that a layer reads (`sink_views`); no views that flatten a map for a layer
(`absorb_views`).
Ensures: between two layers, no chain of views turns channels into the pixels of blocks, or back, in any order of the channels.
Leaves alone: views that move other elements or make a vector, views of graph inputs and of ONNX operators (which the CPU runs), and
views without a reader.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Reshape
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.passes.canonical.canonical_blocks import put_channels, to_depth, to_space
from cnna.compiler.passes.views.sink_views import moved_map


def pixel_shuffle(graph: Graph) -> Graph:
    """Returns the graph without these views."""
    edit = Editor(graph)
    for node in edit:
        if moved := moved_map(edit, node):
            _convert(edit, node, *moved)
    return edit.finish()


def _convert(edit: Editor, node: Node, source: str, whole_order: NDArray[np.int64]) -> None:
    before, after, order = edit.shape(source), edit.shape(node.output), whole_order[0]
    if after[2] > before[2]:
        step = after[2] // before[2]
        picked = _picked(order, before, step) if after[2:] == (before[2] * step, before[3] * step) else None
        if picked is not None:
            to_space(edit, node, source, step, picked)
        return
    step = before[2] // after[2]
    if step < 2 or after[2:] == (1, 1) or before[2:] != (after[2] * step, after[3] * step):
        return
    wanted = np.concatenate([_pixels(before)[:, a::step, b::step] for a in range(step) for b in range(step)])
    firsts = {int(part[0, 0]): number for number, part in enumerate(wanted)}
    index = np.array([firsts.get(int(part[0, 0]), 0) for part in order])
    if (order != wanted[index]).any():
        return
    if index.tolist() == list(range(len(index))):
        to_depth(edit, node, source, step)
    else:
        whole = edit.insert(node.name, Reshape(after), (source,), f"{node.output}:blocks", after)
        to_depth(edit, edit.nodes[whole], source, step)
        put_channels(edit, Node(f"{node.name}:order", node.op, (whole,), node.output), index)


def _pixels(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.arange(int(np.prod(shape))).reshape(shape[1:])


def _picked(order: NDArray[np.int64], before: tuple[int, ...], step: int) -> NDArray[np.int64] | None:
    """The channels [phases, channels] that each phase of the output shows. None: a phase mixes pixels of several channels."""
    pixels = _pixels(before)
    phases = [order[:, a::step, b::step] for a in range(step) for b in range(step)]
    picked = np.array([phase[:, 0, 0] // pixels[0].size for phase in phases])
    same = all((phase == pixels[index]).all() for phase, index in zip(phases, picked, strict=True))
    return picked if same else None
