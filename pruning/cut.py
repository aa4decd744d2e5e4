"""Removes channels from a model: weights lose rows and columns, and what states a size states the new one."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from cnna.pruning.coupled import Labels
from cnna.pruning.follow import Followed
from cnna.pruning.moves import slices_of
from cnna.pruning.values import attributes, drop_unread, read

Mask = NDArray[np.bool_]
SPLIT_INPUT = 13  # the first opset in which a Split reads its sizes
State = Callable[[str, np.ndarray], str]  # adds a constant; gives its name


class Cut:
    """What is left of each axis once some channels are gone. removed: roots."""

    def __init__(self, found: Followed, removed: Collection[int]) -> None:
        self._found, self._gone = found, np.array(sorted(removed), np.int64)

    def left(self, labels: Labels) -> Mask:
        """Which places of an axis stay."""
        return ~np.isin(self._found.coupled.roots(labels), self._gone)

    def masks(self, name: str) -> dict[int, Mask]:
        """Which places of a tensor stay, by axis."""
        return {axis: self.left(labels) for axis, labels in self._found.of(name).items()}

    def constant(self, name: str, value: np.ndarray) -> np.ndarray:
        """A constant without what is gone."""
        for axis, mask in self.masks(name).items():
            value = np.compress(mask, value, axis)
        return value


def cut(found: Followed, removed: Collection[int], changed: Mapping[str, np.ndarray] | None = None) -> ModelProto:
    """The model without some channels. changed: new values of constants, already without them."""
    left, model = Cut(found, removed), ModelProto()
    model.CopyFrom(found.network.proto)
    del model.graph.value_info[:]
    values = {name: left.constant(name, value) for name, value in found.constants.items()} | dict(changed or {})
    more: dict[str, np.ndarray] = {}

    def state(name: str, value: np.ndarray) -> str:
        fresh = name
        while fresh in values or fresh in more:
            fresh += "_"
        more[fresh] = value
        return fresh

    before = read(model)
    for node in model.graph.node:
        _restate(node, left, found, _opset(model), state)
    tensors = [numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in {**values, **more}.items()]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    _declare(model, tensors)
    drop_unread(model, before)  # a shape, say, for which another one stands now
    return model


def _declare(model: ModelProto, tensors: list[TensorProto]) -> None:
    """Old models declare constants as inputs too."""
    dims = {tensor.name: tensor.dims for tensor in tensors}
    for value in model.graph.input:
        if value.name in dims:
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, list(dims[value.name])))


def _opset(model: ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _restate(node: NodeProto, left: Cut, found: Followed, opset: int, state: State) -> None:
    """Gives a node the sizes that it has now."""
    masks = left.masks(node.input[0]) if node.input else {}
    outputs = [left.masks(name) for name in node.output]
    if all(mask.all() for each in (masks, *outputs) for mask in each.values()):
        return  # sizes of what is whole may be computed, or in a form that is not followed
    if node.op_type in ("Conv", "ConvTranspose"):
        group, weights = attributes(node).get("group", 1), left.masks(node.input[1])
        if masks and group == len(masks[1]) and set(weights) == {0}:
            _attribute(node, "group", int(masks[1].sum()))
    elif node.op_type == "Reshape" and outputs[0]:
        _sizes(node, 1, outputs[0], found, state)
    elif node.op_type == "Resize" and masks and len(node.input) > 3 and node.input[3]:
        _sizes(node, 3, outputs[0], found, state)
    elif node.op_type == "Split" and attributes(node).get("axis", 0) in masks:
        _split(node, outputs, found, opset, state)
    elif node.op_type == "Slice" and masks:
        _slice(node, masks, found, state)
    elif node.op_type == "Gather" and attributes(node).get("axis", 0) in masks:
        mask, places = masks[attributes(node).get("axis", 0)], found.constants[node.input[1]]
        node.input[1] = state(f"{node.output[0]}:places", (np.cumsum(mask) - 1)[places[mask[places]]].astype(places.dtype))


def _attribute(node: NodeProto, name: str, value: Any) -> None:
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend(kept if value is None else [*kept, helper.make_attribute(name, value)])


def _sizes(node: NodeProto, place: int, masks: Mapping[int, Mask], found: Followed, state: State) -> None:
    """A shape that a node reads. 0 and -1 stay: they follow from what is there."""
    if node.input[place] not in found.constants:
        return
    shape = found.constants[node.input[place]].copy()
    for axis, mask in masks.items():
        if axis < len(shape) and shape[axis] > 0:
            shape[axis] = mask.sum()
    node.input[place] = state(f"{node.output[0]}:shape", shape)


def _split(node: NodeProto, outputs: list[dict[int, Mask]], found: Followed, opset: int, state: State) -> None:
    axis = attributes(node).get("axis", 0)
    whole = [found.network.shapes[name][axis] for name in node.output]
    sizes = [int(masks[axis].sum()) if axis in masks else size for masks, size in zip(outputs, whole, strict=True)]
    if opset < SPLIT_INPUT:
        return _attribute(node, "split", sizes)
    _attribute(node, "num_outputs", None)
    del node.input[1:]
    node.input.append(state(f"{node.output[0]}:sizes", np.array(sizes, np.int64)))


def _slice(node: NodeProto, masks: Mapping[int, Mask], found: Followed, state: State) -> None:
    """All axes are stated anew, each from its first place to its last."""
    shape = found.network.shapes[node.input[0]]
    taken = slices_of(node, found.constants, shape)
    assert taken is not None
    starts, ends, steps = zip(*(one.indices(size) for one, size in zip(taken, shape, strict=True)), strict=True)
    for axis, mask in masks.items():
        before = np.concatenate(([0], np.cumsum(mask)))
        starts, ends = ((*one[:axis], int(before[one[axis]]), *one[axis + 1 :]) for one in (starts, ends))
    axes = [axis for axis, one in enumerate(taken) if one != slice(None)]
    lists = {"starts": starts, "ends": ends, "axes": range(len(shape)), "steps": steps}
    stated = {key: [int(one[axis]) for axis in axes] for key, one in lists.items()}
    if len(node.input) == 1:  # opset 9 and below, without steps
        for key in ("starts", "ends", "axes"):
            _attribute(node, key, stated[key])
        return
    del node.input[1:]
    node.input.extend(state(f"{node.output[0]}:{key}", np.array(value, np.int64)) for key, value in stated.items())
