"""Operators that move elements: what becomes of the numbers of channels, and of the sizes that a node states, once some are gone.

The numbers are spread over the whole tensor and moved as the elements are; so a Reshape, a channel shuffle, a Split, or a Flatten
in front of a fully connected layer need no rules of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from cnna.pruning.coupled import Axes, Labels
from cnna.pruning.values import Array, Network, attributes

NONE = -1  # the number of an element without a channel
Mover = Callable[[list[Array], dict[str, Any], Sequence[tuple[int, ...]]], list[Array] | None]


def _reshape(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    return [x[0].reshape(outputs[0])]


def _transpose(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    return [x[0].transpose(given.get("perm"))]


def _concat(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    return [np.concatenate(x, given["axis"])]


def _split(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    axis = given.get("axis", 0)
    return np.split(x[0], np.cumsum([shape[axis] for shape in outputs])[:-1], axis)


def _depth_to_space(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    size, (n, c, h, w) = given["blocksize"], x[0].shape
    if given.get("mode", "DCR") == "DCR":
        return [x[0].reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(outputs[0])]
    return [x[0].reshape(n, c // size**2, size, size, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(outputs[0])]


def _space_to_depth(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    size, (n, c, h, w) = given["blocksize"], x[0].shape
    return [x[0].reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4).reshape(outputs[0])]


def _nearest(x: list[Array], given: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> list[Array] | None:
    """A Resize of rows and columns, which have no channels, or a Pad around them."""
    sizes = zip(x[0].shape, outputs[0], strict=True)
    changed = [axis for axis, (before, after) in enumerate(sizes) if before != after]
    if any((x[0] != x[0].take([0], axis)).any() for axis in changed):
        return None
    for axis in changed:
        x = [np.repeat(x[0].take([0], axis), outputs[0][axis], axis)]
    return x


MOVERS: Mapping[str, Mover] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("Resize", "Upsample", "Pad"), _nearest),
}
MOVES = (*MOVERS, "Slice", "Gather")


def moved(network: Network, node: NodeProto, axes: Mapping[str, Axes], constants: Mapping[str, Array]) -> dict[str, Labels] | None:
    """The numbers of all elements of a node's outputs; NONE where an element has none. None: they cannot be followed."""
    several = node.op_type == "Concat"
    names = list(node.input) if several else [node.input[0]]
    if not any(axes.get(name) for name in names):
        return {}
    if not _stated(network, node, constants) or any(len(axes.get(name, {})) > 1 for name in names):
        return None
    spread = [_spread(network.shapes[name], axes.get(name, {})) for name in names]
    outputs = [name for name in node.output if name]
    if node.op_type in ("Slice", "Gather"):
        made = _picked(spread[0], node, network, constants)
    else:
        made = MOVERS[node.op_type](spread, attributes(node), [network.shapes[name] for name in outputs])
    return None if made is None else dict(zip(outputs, made, strict=True))


def _stated(network: Network, node: NodeProto, constants: Mapping[str, Array]) -> bool:
    """Whether all sizes that the node reads are constants, so that they can be changed."""
    return all(name in constants for name in node.input[1:] if name and node.op_type != "Concat")


def _spread(shape: tuple[int, ...], axes: Axes) -> Labels:
    """The number of each element."""
    if not axes:
        return np.broadcast_to(np.int64(NONE), shape)
    ((axis, labels),) = axes.items()
    return np.broadcast_to(labels.reshape([-1 if one == axis else 1 for one in range(len(shape))]), shape)


def _picked(x: Labels, node: NodeProto, network: Network, constants: Mapping[str, Array]) -> list[Array] | None:
    """A Gather of whole places, or a Slice."""
    if node.op_type == "Gather":
        axis, places = attributes(node).get("axis", 0), constants[node.input[1]]
        return [np.take(x, places, axis)] if places.ndim == 1 else None
    found = slices_of(node, constants, x.shape)
    if found is None or any(one.step not in (None, 1) and (x != x.take([0], axis)).any() for axis, one in enumerate(found)):
        return None  # every second channel would be another one, once some are gone
    return [x[found]]


def slices_of(node: NodeProto, constants: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """What a Slice takes of each axis, as places from 0 on; None: backwards, or in a form that is not followed."""
    given = attributes(node)
    stated = [constants[name].tolist() if name else None for name in node.input[1:]]
    lists = stated or [given["starts"], given["ends"], given.get("axes")]
    starts, ends = lists[:2]
    assert starts is not None
    assert ends is not None
    axes = (lists[2] if len(lists) > 2 else None) or list(range(len(starts)))
    steps = (lists[3] if len(lists) > 3 else None) or [1] * len(starts)
    found = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            return None
        first, last, _ = slice(start, end, step).indices(shape[axis])
        found[axis] = slice(first, last, step)
    return tuple(found)
