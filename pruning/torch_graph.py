"""A float ONNX model as a torch module. Its weights are parameters that keep their names, so they can be put back into the model.

It knows the operators of convolutional networks; `checked` compares its answers with onnxruntime's before anybody relies on them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from torch import nn
from torch.nn import functional

from cnna.compiler.quantise.sessions import Session
from cnna.pruning.values import attributes, folded, with_constants
from cnna.spec.errors import ModelError

LEARNS = {"Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (1, 2), "MatMul": (1,), "BatchNormalization": (1, 2), "PRelu": (1,)}
ALIKE = 1e-3  # of the greatest answer: what another order of sums changes in a deep network
Inputs = Sequence[Any]  # tensors; None: an input that is left out
Given = Mapping[str, Any]  # a node's attributes
Operator = Callable[[Given, Inputs], Any]


class TorchGraph(nn.Module):
    """The module. It takes and returns tensors by the names of the model. ModelError: it has an operator that is not known here."""

    def __init__(self, model: ModelProto, name: str) -> None:
        super().__init__()
        self.proto, self.called = folded(with_constants(model), name), name
        constants = {one.name: numpy_helper.to_array(one) for one in self.proto.graph.initializer}
        self._nodes = [(node, attributes(node)) for node in self.proto.graph.node]
        for node, _ in self._nodes:
            if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
                raise ModelError(
                    f"{name}: {node.name or node.output[0]}: {node.op_type} cannot be trained here; prune without --finetune"
                )
        known = [
            (node.input[place], constants)
            for node, _ in self._nodes
            for place in LEARNS.get(node.op_type, ())
            if place < len(node.input)
        ]
        self.names = list(dict.fromkeys(one for one, of in known if one in of and of[one].dtype == np.float32))
        self.weights = nn.ParameterList(nn.Parameter(torch.from_numpy(constants[one].copy())) for one in self.names)
        self._fixed = {key: torch.from_numpy(value.copy()) for key, value in constants.items() if key not in self.names}

    def forward(self, feeds: Mapping[str, torch.Tensor], shown: Sequence[str] = ()) -> dict[str, torch.Tensor]:
        """The outputs, and other tensors that are to be shown."""
        values: dict[str, Any] = {**self._fixed, **dict(zip(self.names, self.weights, strict=True)), **feeds}
        for node, given in self._nodes:
            made = OPERATORS[node.op_type](given, [values[one] if one else None for one in node.input])
            made = made if isinstance(made, tuple) else (made,)
            values.update(zip(node.output, made, strict=False))
        return {name: values[name] for name in (*(value.name for value in self.proto.graph.output), *shown)}

    def inside(self) -> list[str]:
        """What layers and sums make, apart from the outputs. Of a layer whose result only an Add reads, the sum counts."""
        readers: dict[str, set[str]] = {}
        for node, _ in self._nodes:
            for name in node.input:
                readers.setdefault(name, set()).add(node.op_type)
        outputs = {value.name for value in self.proto.graph.output}
        made = [node.output[0] for node, _ in self._nodes if node.op_type in (*LEARNS, "Add")]
        return [name for name in made if name not in outputs and readers.get(name) != {"Add"}]

    def put(self, model: ModelProto) -> ModelProto:
        """The model with the weights as they are now; all else stays."""
        now = {key: value.detach().numpy() for key, value in zip(self.names, self.weights, strict=True)}
        made = with_constants(model)
        for tensor in made.graph.initializer:
            if tensor.name in now:
                tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(now[tensor.name]), tensor.name))
        return made

    def checked(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
        """The answers to one sample. ModelError: one is another than onnxruntime's."""
        wanted = Session(self.proto.SerializeToString(), self.called, brief=True).run(dict(feeds))
        try:
            with torch.no_grad():
                found = self({key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in feeds.items()})
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as error:
            first = str(error).splitlines()[0]
            raise ModelError(f"{self.called}: cannot be trained here ({first}); prune without --finetune") from None
        for key, value in found.items():
            right = wanted[key]
            if value.shape != right.shape or np.abs(value.numpy() - right).max() > ALIKE * max(np.abs(right).max(), 1e-6):
                raise ModelError(
                    f"{self.called}: output '{key}' differs from onnxruntime's as a torch module; prune without --finetune"
                )
        return found

    def made_by(self, output: str) -> NodeProto | None:
        """The node that makes a tensor."""
        return next((node for node, _ in self._nodes if output in node.output), None)


def _padding(given: Given, x: torch.Tensor, kernel: Sequence[int]) -> list[int]:
    """What is added before and behind, axis by axis from the last, as torch takes it."""
    rank = len(kernel)
    pads, kind = given.get("pads", [0] * 2 * rank), given.get("auto_pad", "NOTSET")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        strides, gaps = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
        sizes = list(x.shape[2:])
        whole = [
            max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, s, k, d in zip(sizes, strides, kernel, gaps, strict=True)
        ]
        first = [(one + (kind == "SAME_LOWER")) // 2 for one in whole]
        pads = [*first, *(one - start for one, start in zip(whole, first, strict=True))]
    return [side for axis in reversed(range(rank)) for side in (pads[axis], pads[axis + rank])]


def _by_rank(kind: str, rank: int) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(functional, f"{kind}{rank}d")
    return found


def _conv(given: Given, inputs: Inputs) -> Any:
    x, weights, bias = (*inputs, None)[:3]
    rank = x.ndim - 2
    x = functional.pad(x, _padding(given, x, weights.shape[2:]))
    strides, gaps = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    return _by_rank("conv", rank)(x, weights, bias, strides, 0, gaps, given.get("group", 1))


def _conv_transpose(given: Given, inputs: Inputs) -> Any:
    x, weights, bias = (*inputs, None)[:3]
    rank = x.ndim - 2
    if "output_shape" in given or given.get("auto_pad", "NOTSET") != "NOTSET":
        raise ValueError("a ConvTranspose with output_shape or auto_pad")
    ones, none = [1] * rank, [0] * rank
    more, strides, gaps = given.get("output_padding", none), given.get("strides", ones), given.get("dilations", ones)
    y = _by_rank("conv_transpose", rank)(x, weights, bias, strides, 0, more, given.get("group", 1), gaps)
    return functional.pad(y, [-one for one in _padding(given, x, weights.shape[2:])])


def _max_pool(given: Given, inputs: Inputs) -> Any:
    (x,), kernel = inputs, given["kernel_shape"]
    rank = len(kernel)
    strides, gaps = given.get("strides", [1] * rank), given.get("dilations", [1] * rank)
    x = functional.pad(x, _padding(given, x, kernel), value=-torch.inf)
    return _by_rank("max_pool", rank)(x, kernel, strides, 0, gaps, bool(given.get("ceil_mode", 0)))


def _average_pool(given: Given, inputs: Inputs) -> Any:
    (x,), kernel = inputs, given["kernel_shape"]
    rank, pads = len(kernel), _padding(given, x, kernel)
    pool, strides, up = _by_rank("avg_pool", rank), given.get("strides", [1] * rank), bool(given.get("ceil_mode", 0))
    made = pool(functional.pad(x, pads), kernel, strides, 0, up)
    if given.get("count_include_pad", 0) or not any(pads):
        return made
    return made / pool(functional.pad(torch.ones_like(x[:1, :1]), pads), kernel, strides, 0, up)


def _gemm(given: Given, inputs: Inputs) -> Any:
    a, b, c = (*inputs, None)[:3]
    made = given.get("alpha", 1.0) * ((a.T if given.get("transA") else a) @ (b.T if given.get("transB") else b))
    return made if c is None else made + given.get("beta", 1.0) * c


def _norm(given: Given, inputs: Inputs) -> Any:
    x, scale, bias, mean, var = inputs
    return functional.batch_norm(x, mean, var, scale, bias, False, 0.0, given.get("epsilon", 1e-5))


def _axes(given: Given, inputs: Inputs) -> list[int] | None:
    found: list[int] | None = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else given.get("axes")
    return found


def _reshape(given: Given, inputs: Inputs) -> Any:
    x, shape = inputs
    return x.reshape(
        [x.shape[axis] if size == 0 and not given.get("allowzero") else size for axis, size in enumerate(shape.tolist())]
    )


def _reduce_mean(given: Given, inputs: Inputs) -> Any:
    axes = _axes(given, inputs) or list(range(inputs[0].ndim))
    return inputs[0].mean(axes, bool(given.get("keepdims", 1)))


def _squeeze(given: Given, inputs: Inputs) -> Any:
    axes = _axes(given, inputs)
    return inputs[0].squeeze() if axes is None else inputs[0].squeeze(tuple(axes))


def _unsqueeze(given: Given, inputs: Inputs) -> Any:
    x, axes = inputs[0], _axes(given, inputs) or []
    for axis in sorted(one % (x.ndim + len(axes)) for one in axes):
        x = x.unsqueeze(axis)
    return x


def _split(given: Given, inputs: Inputs) -> Any:
    x, axis = inputs[0], given.get("axis", 0)
    sizes = inputs[1].tolist() if len(inputs) > 1 else given.get("split")
    if sizes is None:
        raise ValueError("a Split without sizes")
    return tuple(x.split(sizes, axis))


def _slice(given: Given, inputs: Inputs) -> Any:
    x = inputs[0]
    lists = [one.tolist() for one in inputs[1:] if one is not None] or [given["starts"], given["ends"], given.get("axes")]
    starts, ends, axes, steps = (*lists, None, None)[:4]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[place] if axes else place
        taken = range(x.shape[axis])[slice(start, end, steps[place] if steps else 1)]
        x = x.index_select(axis, torch.tensor(list(taken), dtype=torch.int64))
    return x


def _clip(given: Given, inputs: Inputs) -> Any:
    x, low, high = (*inputs, None, None)[:3]
    return x.clamp(given.get("min") if low is None else float(low), given.get("max") if high is None else float(high))


def _pad(given: Given, inputs: Inputs) -> Any:
    if given.get("mode", "constant") != "constant" or (len(inputs) > 3 and inputs[3] is not None):
        raise ValueError("a Pad that is not constant over all axes")
    pads = inputs[1].tolist() if len(inputs) > 1 else given["pads"]
    rank, value = len(pads) // 2, float(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else given.get("value", 0.0)
    return functional.pad(
        inputs[0], [side for axis in reversed(range(rank)) for side in (pads[axis], pads[axis + rank])], value=value
    )


def _resize(given: Given, inputs: Inputs) -> Any:
    """Nearest by whole factors; `checked` finds any other form."""
    x = inputs[0]
    sizes = (
        inputs[3].tolist()
        if len(inputs) > 3 and inputs[3] is not None
        else [n * s for n, s in zip(x.shape, inputs[-1].tolist(), strict=True)]
    )
    rest = (
        {}
        if given.get("mode", "nearest") == "nearest"
        else {"align_corners": given.get("coordinate_transformation_mode") == "align_corners"}
    )
    return functional.interpolate(x, size=[int(one) for one in sizes[2:]], mode="bilinear" if rest else "nearest", **rest)


def _depth_to_space(given: Given, inputs: Inputs) -> Any:
    (x,), size = inputs, given["blocksize"]
    if given.get("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(x, size)
    n, _, h, w = x.shape
    return x.reshape(n, size, size, -1, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, -1, h * size, w * size)


def _hard_sigmoid(given: Given, inputs: Inputs) -> Any:
    return (inputs[0] * given.get("alpha", 0.2) + given.get("beta", 0.5)).clamp(0, 1)


OPERATORS: Mapping[str, Operator] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": lambda given, inputs: inputs[0] @ inputs[1],
    "BatchNormalization": _norm,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda given, inputs: inputs[0].mean(tuple(range(2, inputs[0].ndim)), True),
    "GlobalMaxPool": lambda given, inputs: inputs[0].amax(tuple(range(2, inputs[0].ndim)), True),
    "Relu": lambda given, inputs: inputs[0].relu(),
    "LeakyRelu": lambda given, inputs: functional.leaky_relu(inputs[0], given.get("alpha", 0.01)),
    "PRelu": lambda given, inputs: inputs[0].clamp(min=0) + inputs[1] * inputs[0].clamp(max=0),
    "Clip": _clip,
    "Sigmoid": lambda given, inputs: inputs[0].sigmoid(),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda given, inputs: functional.hardswish(inputs[0]),
    "Tanh": lambda given, inputs: inputs[0].tanh(),
    "Elu": lambda given, inputs: functional.elu(inputs[0], given.get("alpha", 1.0)),
    "Softplus": lambda given, inputs: functional.softplus(inputs[0]),
    "Erf": lambda given, inputs: inputs[0].erf(),
    "Exp": lambda given, inputs: inputs[0].exp(),
    "Sqrt": lambda given, inputs: inputs[0].sqrt(),
    "Add": lambda given, inputs: inputs[0] + inputs[1],
    "Sub": lambda given, inputs: inputs[0] - inputs[1],
    "Mul": lambda given, inputs: inputs[0] * inputs[1],
    "Div": lambda given, inputs: inputs[0] / inputs[1],
    "Pow": lambda given, inputs: inputs[0] ** inputs[1],
    "Identity": lambda given, inputs: inputs[0],
    "Dropout": lambda given, inputs: inputs[0],
    "Cast": lambda given, inputs: inputs[0].to({TensorProto.FLOAT: torch.float32, TensorProto.INT64: torch.int64}[given["to"]]),
    "Concat": lambda given, inputs: torch.cat(list(inputs), given["axis"]),
    "Flatten": lambda given, inputs: inputs[0].reshape(int(np.prod(inputs[0].shape[: given.get("axis", 1)])), -1),
    "Reshape": _reshape,
    "Transpose": lambda given, inputs: inputs[0].permute(given.get("perm", list(range(inputs[0].ndim))[::-1])),
    "ReduceMean": _reduce_mean,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Resize": _resize,
    "DepthToSpace": _depth_to_space,
    "Shape": lambda given, inputs: torch.tensor(inputs[0].shape),
    "Gather": lambda given, inputs: (
        inputs[0].index_select(given.get("axis", 0), inputs[1].reshape(-1)).squeeze(() if inputs[1].ndim else given.get("axis", 0))
    ),
    "Softmax": lambda given, inputs: inputs[0].softmax(given.get("axis", -1)),
    "LogSoftmax": lambda given, inputs: inputs[0].log_softmax(given.get("axis", -1)),
}
