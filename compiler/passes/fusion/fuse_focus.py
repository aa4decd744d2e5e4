"""Turns a Focus and the convolution behind it into one convolution of the graph's input, in the int8 graph.

A Focus (SpaceToDepth of an image) concatenates the pixels of each block of rows and columns as channels. A convolution of the
result multiplies each pixel of the image by one weight. So it is a convolution of the image whose kernel and stride are as many
times as large as the blocks. Every sum has the same terms, and places outside the map hold the zero point before and after.

An input with few channels is folded (`compiler.plan.fold`): the host packs its pixels as the Focus would have, or better. So the
array has no more work than before, and the copies of the Focus are gone.

Requires: an int8 graph; copies at another scale are operators of their own.
Ensures: no convolution reads a concatenation of all pixels of the blocks of a graph input, in any order, in one step or in rows
and then columns. It reads the input.
Leaves alone: a Focus that something else reads, of an input that something else reads or that has more than `MOST_CHANNELS`, of
another tensor than an input (nobody can pack it), at several scales, or behind which the convolution is grouped or dilated or its
window would exceed `MOST_TAPS`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import AnyNode, Concat, Conv, Depthwise, Graph, Node, Pixels, Window
from cnna.spec import arith

MOST_TAPS = 32  # of a kernel, stride or padding along an axis: as many as `compiler.plan.fold` folds
MOST_CHANNELS = 7  # fewer than a cascade of the array: however the input is folded or not, weights of -128 can be packed
Sides = tuple[int, int]


@dataclass(frozen=True)
class Blocks:
    """Pixels of `source` as channels: each input of the Concat has those at one place (row, column) of every block of `step`."""

    source: str
    step: Sides
    places: tuple[Sides, ...]


def fuse_focus(graph: Graph) -> Graph:
    """Returns the graph with these convolutions; every value of what remains is the same int8."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Conv) and node.op.groups == 1 and node.op.window.dilation == (1, 1):
            _fuse(edit, graph, node)
    return edit.finish()


def _fuse(edit: Editor, graph: Graph, node: Node) -> None:
    joined = edit.sole(node.inputs[0], Concat)
    blocks = _blocks(edit, joined) if joined is not None else None
    if blocks is None or blocks.source not in graph.inputs:
        return
    window = _window(node.op.window, blocks.step)
    few = edit.shape(blocks.source)[0] <= MOST_CHANNELS and max(*window.kernel, *window.stride, *window.pads) <= MOST_TAPS
    if not few or not _read_alone(graph, blocks.source, node.inputs[0]):
        return
    weights = edit.constant(f"{node.output}:focused", focused_weights(blocks, edit.constants[node.op.weights]))
    edit.put(node.name, replace(node.op, window=window, weights=weights), (blocks.source, *node.inputs[1:]), node.output)


def _blocks(edit: Editor, joined: Node[Concat]) -> Blocks | None:
    """The blocks whose pixels a Concat has as channels. None: a place is missing or there twice, or an input has other pixels."""
    made = [_every(edit, name) for name in joined.inputs]
    source, step, _ = made[0]
    places = tuple(place for _, _, place in made)
    if any(one[:2] != (source, step) for one in made) or edit.shape(source)[1:] != _times(edit.shape(joined.output)[1:], step):
        return None
    if sorted(places) != [(row, column) for row in range(step[0]) for column in range(step[1])]:
        return None
    return Blocks(source, step, places) if len(places) > 1 else None


def _every(edit: Editor, name: str) -> tuple[str, Sides, Sides]:
    """The map from which nodes have taken every so manieth row and column, (how many, the first ones)."""
    step, first = (1, 1), (0, 0)
    while (node := edit.producer(name)) is not None and (picked := _picked(node, edit)) is not None:
        first = (picked.first[0] + picked.step[0] * first[0], picked.first[1] + picked.step[1] * first[1])
        step = _times(step, picked.step)
        name = node.inputs[0]
    return name, step, first


def _picked(node: AnyNode, within: Editor | Graph) -> Pixels | None:
    """Which pixels of a map a node copies. None: it does something else, or reads beside the map.

    It is a Pixels, or a depthwise convolution that changes no value (rewrites make such).
    """
    op = node.op
    if isinstance(op, Pixels):
        places = zip(op.first, op.step, *(within.tensors[name].shape[1:] for name in (node.output, node.inputs[0])), strict=True)
        return op if all(first >= 0 and first + step * (count - 1) < size for first, step, count, size in places) else None
    if not isinstance(op, Depthwise) or op.window.kernel != (1, 1) or any(op.window.pads) or op.table is not None:
        return None
    every = np.arange(-128, 128)[:, None]
    weights, bias, mult, shift = (np.asarray(within.constants[name], np.int64) for name in (op.weights, op.bias, op.mult, op.shift))
    made = arith.requantise(every * weights.reshape(-1) + bias, mult, shift, op.out.zero, op.out.low, op.out.high)
    return Pixels((0, 0), op.window.stride) if (made == every).all() else None


def _times(size: tuple[int, ...], step: Sides) -> Sides:
    return size[0] * step[0], size[1] * step[1]


def _read_alone(graph: Graph, source: str, joined: str) -> bool:
    """Whether everything that reads `source` and its pixels ends in the Concat that makes `joined`."""
    waiting = [source]
    while waiting:
        name = waiting.pop()
        if name in graph.outputs:
            return False
        readers = [node for node in graph.nodes if name in node.inputs]
        if any(node.output != joined and _picked(node, graph) is None for node in readers):
            return False
        waiting += [node.output for node in readers if node.output != joined]
    return True


def _window(window: Window, step: Sides) -> Window:
    """A window over blocks as one over their pixels."""
    top, left, bottom, right = window.pads
    pads = (*_times((top, left), step), *_times((bottom, right), step))
    return Window(_times(window.kernel, step), _times(window.stride, step), pads=pads)


def focused_weights(blocks: Blocks, weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights [cout, places * channels, kh, kw] as [cout, channels, kh * rows of a block, kw * columns of a block]."""
    cout, _, height, width = weights.shape
    (rows, columns), channels = blocks.step, weights.shape[1] // len(blocks.places)
    whole = np.zeros((cout, channels, height * rows, width * columns), np.int8)
    for number, (row, column) in enumerate(blocks.places):
        whole[:, :, row::rows, column::columns] = weights[:, number * channels : (number + 1) * channels]
    return whole
