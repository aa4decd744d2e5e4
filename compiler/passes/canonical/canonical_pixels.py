"""Turns operators that only select rows, columns or channels into Pixels and Channels.

These are a nearest Resize, Slice, Gather, a Pad that repeats or mirrors pixels of the map, Expand and Tile. A Resize of any mode
only repeats the pixels of an axis that has one.

Requires: folded constants and the shapes that follow from them (`fold_constants`); no Split (`split_slices`).
Ensures: each such operator on a map of known size is a Pixels, a Channels, a Conv that selects channels, or two of these.
Leaves alone: a Resize that interpolates between pixels, or one where a rounding error of float32 could select another pixel;
Slices that `slice_pad` takes; Pads with constants (`fuse_pad`); selections of samples of the batch.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.even_runs import COPIES_MAX, even_runs
from cnna.compiler.graph.float_ops import Channels, Conv, Onnx, Pixels
from cnna.compiler.graph.ir import Graph, Node, Tensor, Window
from cnna.compiler.passes.canonical.typed_operators import four_axes, put_framed
from cnna.compiler.passes.fusion.fuse_pad import unit_scale
from cnna.compiler.passes.fusion.slice_pad import corner_steps

Chosen = dict[int, NDArray[np.int64]]  # by axis: for each element of the output, the index of the input's element
CROPS = "tf_crop_and_resize"  # coordinates of a part of the map, also where an axis keeps its size
MARGIN = Fraction(1, 1000)  # of a pixel: the greatest error of a coordinate in float32


def canonical_pixels(graph: Graph) -> Graph:
    """Returns the graph with typed selections of pixels and channels."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or node.op.kind not in _CHOSEN:
            continue
        if node.inputs[0] in edit.constants or not edit.is_real(node):
            continue
        before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
        if len(before) != len(after) or not 2 <= len(before) <= 4 or before[0] != 1 or min(*before, *after) < 1:
            continue
        chosen = _CHOSEN[node.op.kind](edit, node)
        if chosen is not None and all(len(chosen.get(axis, range(before[axis]))) == size for axis, size in enumerate(after)):
            _put(edit, node, {axis: index for axis, index in chosen.items() if index.tolist() != list(range(before[axis]))})
    return edit.finish()


def _put(edit: Editor, node: Node, chosen: Chosen) -> None:
    """Replaces the node by a selection of channels, of pixels, or both. `chosen` counts the axes of the node's own input."""
    x, rank = node.inputs[0], len(edit.shape(node.inputs[0]))
    if 0 in chosen:
        return
    if not chosen:
        edit.put(node.name, Onnx("Identity"), (x,), node.output)
        return
    pixels = {axis: index for axis, index in chosen.items() if axis > 1}
    if 1 in chosen:
        shape = (1, len(chosen[1]), *edit.shape(x)[2:])
        output = edit.fresh(f"{node.output}:channels") if pixels else node.output
        edit.tensors.setdefault(output, Tensor(shape))
        put_channels(edit, Node(node.name, node.op, (x,), output), chosen[1])
        x = output
    if pixels:
        _, _, height, width = four_axes(edit.shape(x))
        rows = pixels.get(2, np.arange(height)) if rank == 4 else np.arange(height)
        columns = pixels.get(rank - 1, np.arange(width))
        _put_pixels(edit, node, x, tuple(rows.tolist()), tuple(columns.tolist()))


def _put_pixels(edit: Editor, node: Node, x: str, rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    """Replaces the node by a selection of pixels, or by two where one alone takes more copies of a tile than may run."""
    _, channels, height, width = four_axes(edit.shape(x))
    both = rows != tuple(range(height)) and columns != tuple(range(width))
    if both and len(even_runs(rows)) * len(even_runs(columns)) > COPIES_MAX:
        chosen = Pixels(rows, tuple(range(width)))
        x = edit.insert(f"{node.name}:rows", chosen, (x,), f"{node.output}:rows", (1, channels, len(rows), width))
        rows = tuple(range(len(rows)))
    put_framed(edit, node, Pixels(rows, columns), (x,))


def put_channels(edit: Editor, node: Node, index: NDArray[np.int64]) -> None:
    """Replaces a node by the selection of the channels `index` of its input."""
    first, count = int(index[0]), edit.shape(node.inputs[0])[1]
    if index.tolist() == list(range(first, first + len(index))):
        put_framed(edit, node, Channels(first), node.inputs[:1])
        return
    weights = np.zeros((len(index), count, 1, 1), np.float32)
    weights[np.arange(len(index)), index] = 1
    zeros = edit.constant(f"{node.name}:zeros", np.zeros(len(index), np.float32))
    names = edit.constant(f"{node.name}:select", weights), zeros
    put_framed(edit, node, Conv(Window(), 1, *names, unit_scale(edit, node, len(index))), node.inputs[:1])


def _constants(edit: Editor, node: Node, first: int) -> list[list[int]] | None:
    """The values of a node's inputs from number `first` on, [] for an absent one. None: one of them is computed."""
    if not all(name in edit.constants for name in node.inputs[first:] if name):
        return None
    return [edit.constants[name].reshape(-1).tolist() if name else [] for name in node.inputs[first:]]


def _slice(edit: Editor, node: Node) -> Chosen | None:
    lists = _constants(edit, node, 1)
    if lists is None or len(lists) < 2 or corner_steps(edit, node) not in (None, (1, 1)):
        return None
    starts, ends, axes, steps = (*lists, [], [])[:4]
    if 0 in steps or not len(starts) == len(ends) == len(axes or starts) == len(steps or starts):
        return None
    shape, chosen = edit.shape(node.inputs[0]), {}
    for axis, start, end, step in zip(axes or range(len(starts)), starts, ends, steps or [1] * len(starts), strict=True):
        chosen[axis % len(shape)] = np.arange(shape[axis])[start:end:step]
    return chosen


def _gather(edit: Editor, node: Node) -> Chosen | None:
    index = edit.constants.get(node.inputs[1])
    shape = edit.shape(node.inputs[0])
    axis = int(node.op.attributes.get("axis", 0)) % len(shape)
    if index is None or index.min() < -shape[axis] or index.max() >= shape[axis]:
        return None
    return {axis: index.astype(np.int64) % shape[axis]}


def _pad(edit: Editor, node: Node) -> Chosen | None:
    mode, lists = node.op.attributes.get("mode", "constant"), _constants(edit, node, 1)
    if mode not in ("edge", "reflect", "wrap") or not lists or min(lists[0]) < 0:
        return None
    shape = edit.shape(node.inputs[0])
    axes = [axis % len(shape) for axis in lists[2]] if len(lists) > 2 and lists[2] else list(range(len(shape)))
    if len(lists[0]) != 2 * len(axes):
        return None
    widths = zip(axes, lists[0][: len(axes)], lists[0][len(axes) :], strict=True)
    if any(max(before, after) >= shape[axis] and (shape[axis] > 1 or mode == "reflect") for axis, before, after in widths):
        return None
    widths = zip(axes, lists[0][: len(axes)], lists[0][len(axes) :], strict=True)
    return {axis: np.pad(np.arange(shape[axis]), (before, after), mode=mode) for axis, before, after in widths}


def _expand(edit: Editor, node: Node) -> Chosen | None:
    """A pixel or channel at every place of an axis. ONNX lets an Expand repeat nothing else."""
    before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
    return {axis: np.zeros(size, np.int64) for axis, size in enumerate(after) if before[axis] == 1}


def _tile(edit: Editor, node: Node) -> Chosen | None:
    before, lists = edit.shape(node.inputs[0]), _constants(edit, node, 1)
    if lists is None or len(lists[0]) != len(before):
        return None
    return {axis: np.tile(np.arange(before[axis]), times) for axis, times in enumerate(lists[0])}


# --- Resize ---


def resize_pixels(edit: Editor, node: Node) -> Chosen | None:
    """For each axis that a Resize changes, the pixels that it selects. None: it computes others, or is not sure."""
    attributes, before, after = node.op.attributes, edit.shape(node.inputs[0]), edit.shape(node.output)
    scales = resize_scales(edit, node)
    chosen = {}
    for axis in resized_axes(node, len(before)):
        if before[axis] == 1:  # whatever a mode makes of one pixel and itself is that pixel
            chosen[axis] = np.zeros(after[axis], np.int64)
            continue
        if scales is not None and (before[axis], scales[axis]) == (after[axis], 1) and _uncropped(edit, node, axis):
            continue
        index = None if scales is None else _resized(before[axis], after[axis], scales[axis], attributes)
        if index is None:
            return None
        chosen[axis] = index
    return chosen


def _resized(before: int, after: int, scale: Fraction, attributes: Mapping[str, str]) -> NDArray[np.int64] | None:
    """For each of `after` pixels of an axis, the one of `before` that a Resize takes. None: it computes others, or is not sure."""
    corners = attributes.get("coordinate_transformation_mode") == "align_corners"
    if attributes.get("mode", "nearest") != "nearest" or (corners and not fits_corners(before, scale)):
        return None
    return nearest(before, after, scale, attributes)


def _uncropped(edit: Editor, node: Node, axis: int) -> bool:
    """Whether a Resize takes the whole of an axis. tf_crop_and_resize has a first and a last part of 0 to 1 for each axis."""
    if node.op.attributes.get("coordinate_transformation_mode") != CROPS:
        return True
    axes, region = resized_axes(node, len(edit.shape(node.output))), edit.constants.get(node.inputs[1])
    number = axes.index(axis)
    return region is not None and region.reshape(2, -1)[:, number].tolist() == [0, 1]


def resized_axes(node: Node, rank: int) -> list[int]:
    """The axes that a Resize names; all if it names none."""
    return [axis % rank for axis in node.op.attributes.get("axes", range(rank))]


def resize_scales(graph: Editor | Graph, node: Node) -> dict[int, Fraction] | None:
    """The factor of each axis that a Resize names. None: the factors are computed, or follow from a policy."""
    if not all(name in graph.constants for name in node.inputs[2:] if name):
        return None
    attributes, before, after = node.op.attributes, graph.tensors[node.inputs[0]].shape, graph.tensors[node.output].shape
    scales = graph.constants[node.inputs[2]].reshape(-1) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(0)
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    axes = resized_axes(node, len(before))
    if (scales.size and len(scales) != len(axes)) or (not scales.size and policy != "stretch"):
        return None
    given = scales.tolist() if scales.size else [Fraction(after[axis], before[axis]) for axis in axes]
    return dict(zip(axes, map(Fraction, given), strict=True))


def fits_corners(before: int, scale: Fraction) -> bool:
    """Whether a length times a scale is a whole number.

    ONNX's align_corners puts the corners at the exact product. Other tools round it first, so the two agree only if it is whole.
    """
    return abs(before * scale - round(before * scale)) < MARGIN


def nearest(before: int, after: int, scale: Fraction, attributes: Mapping[str, str]) -> NDArray[np.int64] | None:
    """For each of `after` pixels, the one of `before` that a Resize takes. None: a rounding error of float32 could change one."""
    mode, rounding = (
        attributes.get("coordinate_transformation_mode", "half_pixel"),
        attributes.get("nearest_mode", "round_prefer_floor"),
    )
    if mode not in _COORDINATES or rounding not in _ROUNDINGS or scale <= 0:
        return None
    exact = scale == Fraction(float(np.float32(scale))) or mode == "align_corners"  # then float32 has no error at a rounding border
    found = []
    for place in range(after):
        at = _COORDINATES[mode](place, before, after, scale)
        index = _rounded(at, _ROUNDINGS[rounding], exact)
        if index is None:
            return None
        found.append(min(max(index, 0), before - 1))
    return np.array(found, np.int64)


def _rounded(at: Fraction, round_: Callable[[Fraction], int], exact: bool) -> int | None:
    """A coordinate as a whole number. None: an error of float32 could move it across a rounding border.

    exact: a coordinate that lies on the border has no error.
    """
    near = round_(at - MARGIN) != round_(at + MARGIN)
    return None if near and not (exact and (2 * at).denominator == 1) else round_(at)


HALF = Fraction(1, 2)
_ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "floor": floor,
    "ceil": lambda at: -floor(-at),
    "round_prefer_floor": lambda at: -floor(HALF - at),
    "round_prefer_ceil": lambda at: floor(at + HALF),
}
_COORDINATES: dict[str, Callable[[int, int, int, Fraction], Fraction]] = {
    "asymmetric": lambda i, before, after, scale: i / scale,
    "half_pixel": lambda i, before, after, scale: (i + HALF) / scale - HALF,
    "pytorch_half_pixel": lambda i, before, after, scale: (i + HALF) / scale - HALF if after > 1 else Fraction(0),
    "tf_half_pixel_for_nn": lambda i, before, after, scale: (i + HALF) / scale,
    "align_corners": lambda i, before, after, scale: Fraction(i * (before - 1), after - 1) if after > 1 else Fraction(0),
}
_CHOSEN: dict[str, Callable[[Editor, Node], Chosen | None]] = {
    "Expand": _expand,
    "Gather": _gather,
    "Pad": _pad,
    "Resize": resize_pixels,
    "Slice": _slice,
    "Tile": _tile,
}
