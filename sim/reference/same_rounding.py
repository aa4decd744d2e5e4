"""Which tensor of the quantised model a tensor of a piece on the CPU must equal: its own, or what a rounding makes of it.

The compiler moves roundings over operators that commute with them: a view of an input is then made of what is rounded already. Such
a tensor equals the model's own behind the rounding with which the model goes on. Both facts are found apart: how the piece rounds a
tensor in the piece alone, and how all that reads it rounds it in the original model alone. Where they do not fit, the tensor must
equal the model's as it is, so that a wrong rounding is found.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import elements_of, is_hollow
from cnna.compiler.frontend.onnx_model.subgraphs import captured

Rounding = tuple[float, int]  # scale, zero point
MOVERS = (  # make elements of their first input, and no others
    *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Slice", "Split", "Gather", "Expand", "Tile"),
    *("DepthToSpace", "SpaceToDepth", "MaxPool"),
)
CHOOSERS = ("Concat", "Max", "Min")  # make elements of their inputs
MONOTONE = (*MOVERS, *CHOOSERS, "Clip", "Relu", "Pad")  # rounding before them is rounding behind them


def with_roundings(model: ModelProto, part: ModelProto, names: Sequence[str]) -> dict[str, str]:
    """The tensor of the model for each of those that a piece makes. The model, in place, gets those that it does not have.

    part: the model of the piece.
    """
    constants = _constants(model)
    theirs, ours, behind = roundings(part, _constants(part)), roundings(model, constants), roundings_behind(model, constants)
    found = {}
    for name in names:
        own = theirs.get(name)
        moved = own is not None and own != ours.get(name) and own == behind.get(name)
        found[name] = _rounded(model, name, own) if own is not None and moved else name
    return found


def roundings(model: ModelProto, constants: Mapping[str, NDArray[np.generic]]) -> dict[str, Rounding]:
    """The rounding that each tensor has gone through, if nothing but choices and moves of elements came since."""
    found: dict[str, Rounding] = {}
    for node in model.graph.node:
        if node.domain:
            continue
        own: set[Rounding | None] = set()
        if node.op_type == "DequantizeLinear":
            own = {_pair(node, constants)}
        elif node.op_type in MOVERS:
            own = {found.get(node.input[0])}
        elif node.op_type in CHOOSERS:
            own = {found.get(name) for name in node.input}
        if len(own) == 1 and (one := own.pop()) is not None:
            found |= dict.fromkeys(node.output, one)
    return found


def roundings_behind(model: ModelProto, constants: Mapping[str, NDArray[np.generic]]) -> dict[str, Rounding]:
    """The one rounding of all that reads a tensor, be it behind operators that commute with it."""
    outputs = {value.name for value in model.graph.output}
    found: dict[str, set[Rounding | None]] = {name: {None} for name in outputs}
    for node in reversed(model.graph.node):
        own: set[Rounding | None] = {None}
        if node.domain:
            pass
        elif node.op_type == "QuantizeLinear":
            own = {_pair(node, constants)}
        elif node.op_type in MONOTONE:
            own = set().union(*(found.get(name, set()) for name in node.output))
        data = node.input if node.op_type in CHOOSERS else node.input[:1]
        for name in (*node.input, *captured(node)):
            found.setdefault(name, set()).update(own if name in data else {None})
    return {name: one for name, several in found.items() if len(several) == 1 and (one := next(iter(several))) is not None}


def _constants(model: ModelProto) -> dict[str, NDArray[np.generic]]:
    """Those of one element."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    return {name: numpy_helper.to_array(one) for name, one in tensors.items() if elements_of(one) == 1 and not is_hollow(one)}


def _pair(node: NodeProto, constants: Mapping[str, NDArray[np.generic]]) -> Rounding | None:
    """Scale and zero point of a Q or DQ, as of int8; None for other types, and where they are not single numbers."""
    zero = constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else np.zeros(1, np.int8)
    if node.input[1] not in constants or zero is None or zero.dtype not in (np.int8, np.uint8):
        return None
    return float(constants[node.input[1]].reshape(-1)[0]), int(zero.reshape(-1)[0]) - 128 * (zero.dtype == np.uint8)


def _rounded(model: ModelProto, name: str, rounding: Rounding) -> str:
    """The name of a tensor behind a rounding, which is added to the model if it is not there yet."""
    made = f"{name}:rounded for a check"
    if not any(made in node.output for node in model.graph.node):
        scale, zero = (f"{made}:{part}" for part in ("scale", "zero"))
        model.graph.initializer.append(numpy_helper.from_array(np.array(rounding[0], np.float32), scale))
        model.graph.initializer.append(numpy_helper.from_array(np.array(rounding[1], np.int8), zero))
        model.graph.node.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{made}:int8"]))
        model.graph.node.append(helper.make_node("DequantizeLinear", [f"{made}:int8", scale, zero], [made]))
        model.graph.value_info.append(helper.make_tensor_value_info(made, 1, None))
    return made
