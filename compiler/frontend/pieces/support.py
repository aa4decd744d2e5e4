"""The table of what runs where: each operator's engine, its limits, and what helps if it does not run."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from cnna.compiler.frontend.onnx_model.input_shapes import whole_name
from cnna.compiler.frontend.pieces.hints import (
    CUT,
    FLOAT_MODEL,
    HINTS,
    JUMPS,
    POINTWISE,
    STEEP_KINDS,
    WHOLE_NUMBERS,
    Excess,
    TooLarge,
)
from cnna.compiler.graph import float_ops as f
from cnna.compiler.graph.even_runs import COPIES_MAX, even_runs
from cnna.compiler.graph.ir import Graph, Node, Window, taps_inside
from cnna.compiler.graph.node_names import kind_in, kind_of, place
from cnna.compiler.passes.canonical.canonical_bilinear import bilinear_limit
from cnna.compiler.passes.rounding.integer_limits import LIMITS
from cnna.spec.machine import limits

SIZE_MAX = limits("conv", "out_width")[1]  # rows, columns of a map
KERNEL_MAX = limits("conv", "kernel_width")[1]  # taps in a row or column
STEP_MAX = limits("conv", "stride_x")[1]  # stride, dilation
PAD_MAX = limits("conv", "first_x")[1]  # rows, columns of padding before a map


@dataclass(frozen=True)
class Rule:
    """An operator's engine (array, vector or none), and a function that names the limit a node exceeds, or None."""

    engine: str
    limit: Callable[[Any, Node, Graph], str | None]


def _no_limit(op: Any, node: Node, graph: Graph) -> str | None:
    return None


def _window(op: Any, node: Node, graph: Graph) -> str | None:
    window: Window = op.window
    if max(window.kernel) > KERNEL_MAX:
        return Excess(f"a kernel of {window.kernel[0]}x{window.kernel[1]} is above {KERNEL_MAX}")
    if max(*window.stride, *window.dilation) > STEP_MAX:
        return Excess(f"strides {window.stride} and dilations {window.dilation} must be at most {STEP_MAX}")
    if max(window.pads) > PAD_MAX or min(window.pads) < 0:
        return Excess(f"padding {window.pads} must be within 0..{PAD_MAX}")
    return None


def _average(op: f.AveragePool, node: Node, graph: Graph) -> str | None:
    shape, out = graph.tensors[node.inputs[0]].shape, graph.tensors[node.output].shape
    if not taps_inside(op.window, (shape[2], shape[3]), (out[2], out[3]), op.include_pad).all():
        return "a window lies in the padding altogether"
    return _window(op, node, graph)


def _view(op: Any, node: Node, graph: Graph) -> str | None:
    return "it orders elements anew between two layers; the accelerator takes only what a fully connected layer behind it absorbs"


def _pixels(op: f.Pixels, node: Node, graph: Graph) -> str | None:
    runs = [even_runs(index) for index in (op.rows, op.columns)]
    if max(run.step for axis in runs for run in axis) > STEP_MAX:
        return Excess(f"steps over rows and columns must be at most {STEP_MAX}")
    if len(runs[0]) * len(runs[1]) > COPIES_MAX:
        return Excess(f"it takes {len(runs[0]) * len(runs[1])} copies of evenly spaced pixels; at most {COPIES_MAX} run")
    return None


def _join(op: f.Join, node: Node, graph: Graph) -> str | None:
    before = sum(graph.tensors[name].shape[op.axis] for name in node.inputs[:-1])
    return Excess(f"its last part begins behind {before} rows or columns; at most {PAD_MAX} run") if before > PAD_MAX else None


def _pad(op: f.Pad, node: Node, graph: Graph) -> str | None:
    if max(op.widths) > PAD_MAX:
        return Excess(f"padding {op.widths} must be at most {PAD_MAX}")
    return None if isfinite(op.value) else f"it pads with {op.value:g}, which int8 has no range for"


def _interleave(op: f.Interleave, node: Node, graph: Graph) -> str | None:
    makers = {name: graph.producer(name) for name in node.inputs}
    if any(maker is None or not isinstance(maker.op, f.Conv | f.Channels) for maker in makers.values()):
        return "it interleaves what no convolution makes"
    made = {(type(maker.op), maker.inputs, getattr(maker.op, "groups", 0)) for maker in makers.values() if maker}
    quants = {graph.tensors[name].quant for name in (*node.inputs, node.output)}
    if len(made) > 1 or len(quants) > 1 or len(makers) < len(node.inputs) or any(graph.uses(name) > 1 for name in makers):
        return "it interleaves maps of several sources or scales, or maps that others read too"
    if op.step**2 > COPIES_MAX:
        return Excess(f"it interleaves {op.step**2} maps; at most {COPIES_MAX} run")
    return None


OPERATORS: dict[type, Rule] = {
    f.Conv: Rule("array", _window),  # on the vector engine with one input and one output channel a group
    f.MaxPool: Rule("vector", _window),
    f.AveragePool: Rule("vector", _average),
    f.Bilinear: Rule("vector", _no_limit),
    f.Affine: Rule("vector", _no_limit),
    f.Add: Rule("array", _no_limit),  # on the array behind a convolution, else on the vector engine
    f.Product: Rule("vector", _no_limit),
    f.Maximum: Rule("vector", _no_limit),
    f.Minimum: Rule("vector", _no_limit),
    f.Clip: Rule("vector", _no_limit),  # folded into the operator before it, if there is one
    f.Requantise: Rule("vector", _no_limit),
    f.Chain: Rule("vector", _no_limit),  # folded into the operator before it, if there is one
    f.Concat: Rule("vector", _no_limit),  # copies only if scales differ
    f.Join: Rule("vector", _join),
    f.Pixels: Rule("vector", _pixels),
    f.Pad: Rule("vector", _pad),
    f.Channels: Rule("array", _no_limit),  # needs nothing if they begin with a block
    f.Interleave: Rule("none", _interleave),  # the array writes there
    f.Reshape: Rule("none", _view),
    f.Transpose: Rule("none", _view),
}

CURVES = (  # ONNX's operators that run as part of a chain alone
    *("LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "Gelu", "Mish", "Swish", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Erf"),
    *("Abs", "Neg"),
)

RUNS = (  # ONNX's operators that become one of these, in at least one form
    *("Conv", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReduceMax", "ReduceMean"),
    *("BatchNormalization", "Relu", "Clip", "Min", "Max", "Add", "Sum", "Sub", "Mul", "Div", "Concat", "Pad", "Slice", "Flatten"),
    *("Resize", "Expand", "Tile", "Split", "Gather", "ConvTranspose", "DepthToSpace", "SpaceToDepth", "HardSigmoid", "ReduceSum"),
    *(*CURVES, "PRelu", "Pow"),
)

OPERANDS = {"Clip": "limit", "Pow": "exponent", "Pad": "operand", "PRelu": "slope"}  # what must be constant, and its name
VIEW_KINDS = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")  # operators that only rearrange elements


def limit(node: Node, graph: Graph) -> str | None:
    """Why the accelerator cannot run a node, whatever its quantisation; None if it can."""
    rule = OPERATORS.get(type(node.op))
    if rule is None:
        return _otherwise_quantised(node, graph) or _no_form(node, graph)
    shapes = [graph.tensors[name].shape for name in (*node.inputs, node.output)]
    if any(shape[:1] != (1,) for shape in shapes):
        whole = [graph.tensors[name].shape for name in map(whole_name, graph.inputs) if name in graph.tensors]
        fixed = any(len(shape) > 3 and shape[0] > 1 for shape in whole)  # the answers depend on the batch that the model has
        helps = "; export the model for a batch of 1, or of any size" if fixed else ""
        had = ", ".join(map(str, shapes))
        return f"for one sample its tensors have shapes {had}; the first axis must be the batch, of size 1{helps}"
    if isinstance(node.op, f.VIEWS):
        return _view(node.op, node, graph)
    if any(len(shape) != 4 for shape in shapes):
        return f"its tensors have shapes {', '.join(map(str, shapes))}, not [batch, channels, rows, columns]"
    if any(min(shape) < 1 for shape in shapes):
        return f"its tensors have shapes {', '.join(map(str, shapes))}, of which one is empty or of unknown size"
    if max(max(shape[2:]) for shape in shapes) > SIZE_MAX:
        return TooLarge(f"a map of {max(max(shape[2:]) for shape in shapes)} rows or columns is above {SIZE_MAX}")
    return rule.limit(node.op, node, graph)


def _no_form(node: Node, graph: Graph) -> str:
    """Why an operator that no pass has rewritten does not run."""
    if getattr(node.op, "domain", "") == "com.microsoft.nchwc":
        return "onnxruntime has laid out its weights for one processor; save the model at level ORT_ENABLE_EXTENDED at most"
    kind = "" if getattr(node.op, "domain", "") else kind_of(node)
    if kind in LIMITS and node.output in graph.types:
        return "it limits integers; only numbers between a QuantizeLinear and a DequantizeLinear of one scale run"
    if kind in OPERANDS and (computed := next((name for name in node.inputs[1:] if name and name not in graph.constants), None)):
        return f"its {OPERANDS[kind]} '{computed.removesuffix(':whole')}' is computed while the model runs"
    if kind in (*CURVES, *STEEP_KINDS) and any(tensor.quant for tensor in graph.tensors.values()):
        return "what it reads and what it makes are not int8 on both sides; put Q and DQ there"
    if kind in STEEP_KINDS:
        return f"its curve {'has jumps that are too steep' if kind in JUMPS else 'is too steep'} for int8"
    if kind == "Resize" and node.op.attributes.get("mode", "nearest") != "nearest":
        return bilinear_limit(node, graph) or "not in this form"
    return "not in this form" if may_run(node) else "the accelerator has no such operator"


def quantised_limit(node: Node, graph: Graph) -> str | None:
    """As `limit`, and also why the node's quantisation does not fit."""
    reason = limit(node, graph)
    if reason:
        able = may_run(node) or not isinstance(node.op, f.Onnx)
        return (quantised_at_run(graph) if able and not _otherwise_quantised(node, graph) else None) or reason
    for name in (*node.inputs, node.output):
        if graph.tensors[name].quant is None:
            return quantised_at_run(graph) or _unquantised(node, name, graph)
    if isinstance(node.op, f.Conv):
        if node.op.weight_scale is None:
            return f"its weights are not quantised, or not with one scale for each output channel or for all; {WHOLE}"
        scale, weights = graph.constants[node.op.weight_scale], graph.constants[node.op.weights]
        if graph.whole(node.op.weights, scale) is not None:
            return None
        each = weights.reshape(len(weights), -1)
        ends = [each.min(axis=1, initial=0), each.max(axis=1, initial=0)]
        whole = np.rint(np.array(ends) / scale)
        if whole.min(initial=0) < -128 or whole.max(initial=0) > 127:
            reach = f"{whole.min():.0f} to {whole.max():.0f}"
            return f"its weights reach from {reach} about their zero point; quantise them in int8 with zero point 0"
    if isinstance(node.op, f.Interleave):  # the array writes the inputs between each other, so it must make them
        makers = (graph.producer(name) for name in node.inputs)
        reasons = (quantised_limit(maker, graph) for maker in makers if maker)
        return next((f"a part of it is not made on the accelerator: {reason}" for reason in reasons if reason), None)
    return None


WHOLE = "quantise the float model with `cnna quantize`, which leaves nothing out"


def _unquantised(node: Node, tensor: str, graph: Graph) -> str:
    """The reason, with its remedy, why a tensor of a node has no quantisation."""
    readers = [reader for reader in graph.nodes if tensor in reader.inputs]
    floats = [f"node '{reader.name}'" for reader in readers if not isinstance(reader.op, f.Requantise)]
    floats += ["the model's output"] * (tensor in graph.outputs)
    if len(floats) < len(readers) + (tensor in graph.outputs) and floats:
        remedy = "let all that read it do so behind QuantizeLinear and DequantizeLinear"
        return f"tensor '{tensor}' is quantised, but {floats[0]} reads it before it is; {remedy}"
    fold = "fold BatchNormalization, Mul and Add before you quantise (onnxruntime's quant_pre_process does), or "
    remedy = (fold if isinstance(node.op, f.Affine) else "") + WHOLE
    return f"tensor '{tensor}' has no QuantizeLinear and DequantizeLinear of its own; {remedy}"


def quantised_at_run(graph: Graph) -> str | None:
    """Why nothing in a model runs that computes its scales while it runs, as its float operators cannot help; None for others."""
    if any(tensor.quant for tensor in graph.tensors.values()):
        return None
    node = next((node for node in graph.nodes if isinstance(node.op, f.Onnx) and node.op.kind in WHOLE_NUMBERS), None)
    return None if node is None else f"the model is quantised while it runs, first by {place(node, graph)}; {FLOAT_MODEL}"


def foreign_quantisation(graph: Graph) -> str | None:
    """The line for a model that is quantised otherwise than in int8 with scales that are known beforehand; None for others.

    The CPU runs such a model as it is. `cnna quantize` cannot add anything to it.
    """
    for node in graph.nodes:
        if how := _otherwise_quantised(node, graph):
            return f"{place(node, graph)}: {how}: {FLOAT_MODEL}"
    return None


def _otherwise_quantised(node: Node, graph: Graph) -> str | None:
    """Why a node computes with integers in another way than the accelerator; None if it does not."""
    if not isinstance(node.op, f.Onnx):
        return None
    how = None
    if node.op.kind in WHOLE_NUMBERS:
        how = "its scales are computed while the model runs, or its sums stay integers"
    elif node.op.kind in ("QuantizeLinear", "DequantizeLinear"):
        zero = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
        if zero is not None and zero.dtype not in (np.int8, np.uint8):
            how = f"it is quantised as {zero.dtype}"
        elif block := node.op.attributes.get("block_size"):
            how = f"it has a scale for each block of {block} elements"
    return how and f"{how}; the accelerator computes in int8 with scales fixed beforehand"


def refusal(node: Node, reason: str, graph: Graph) -> str:
    """The line for a node in the middle of a model that cannot run. Reasons of operators that can run have their own remedy."""
    kind = kind_in(node, graph)
    if isinstance(node.op, f.VIEWS) and kind not in VIEW_KINDS:
        reason = "not in this form"
    parts = [f"{place(node, graph)} cannot run on the accelerator: {reason}"]
    if isinstance(node.op, f.Onnx | f.Reshape | f.Transpose):
        parts.append(HINTS.get(kind, CUT))  # what helps
    if isinstance(node.op, f.Onnx) and not may_run(node) and kind not in ("QuantizeLinear", "DequantizeLinear"):
        parts.append(f"those that run: {', '.join(RUNS)}")  # no other operator could replace a Q or DQ
    return "; ".join(parts)


def remedy(node: Node, graph: Graph) -> str | None:
    """What helps a node for which `limit` gives a reason, in its own words; None if nothing does, or if the reason says it."""
    reason = limit(node, graph)
    if isinstance(reason, Excess):
        return reason.remedy
    if not isinstance(node.op, f.Onnx | f.Reshape | f.Transpose):
        return None
    kind = kind_in(node, graph)
    if kind in ("ReduceMean", "ReduceSum") and reduced_axes(node, graph) == (1,):
        return POINTWISE
    return (HINTS.get(kind) or "").removesuffix(f", or {CUT}") or None


def reduced_axes(node: Node, graph: Graph) -> tuple[int, ...] | None:
    """The axes, from 0 and in order, over which a Reduce* of a map goes; None where they are not known."""
    rank = len(graph.tensors[node.inputs[0]].shape) if node.inputs[0] in graph.tensors else 0
    axes = node.op.attributes.get("axes") if isinstance(node.op, f.Onnx) else None
    if axes is None and len(node.inputs) > 1:
        axes = graph.constants.get(node.inputs[1])
    return tuple(sorted(int(axis) % rank for axis in np.asarray(axes).reshape(-1))) if axes is not None and rank == 4 else None


def may_run(node: Node) -> bool:
    """Whether the operator runs in another form."""
    return kind_of(node) in (*RUNS, *STEEP_KINDS) and not getattr(node.op, "domain", "")
