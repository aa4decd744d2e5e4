"""Forms of operators for the CPU whose answer would not be the one that ONNX defines; they are refused, with what to do instead."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.graph.node_names import kind_of
from cnna.compiler.passes.canonical.canonical_pixels import fits_corners
from cnna.compiler.passes.drop_identity import draws_at_random


def cpu_limit(node: Node, graph: Graph) -> str | None:
    """Why a node must not run on the CPU, and the remedy; None where it may."""
    limit = _LIMITS.get(kind_of(node)) if isinstance(node.op, Onnx) and not node.op.domain else None
    return limit(node, graph) if limit else None


def _dropout(node: Node, graph: Graph) -> str | None:
    if not draws_at_random(node, graph.constants):
        return None
    return (
        "it drops values at random where training_mode is true, so no answer is the right one; export the model for inference, "
        "with training_mode false"
    )


def _resize(node: Node, graph: Graph) -> str | None:
    scales = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    if node.op.attributes.get("coordinate_transformation_mode") != "align_corners" or scales is None or not scales.size:
        return None
    shape = graph.tensors[node.inputs[0]].shape
    if not shape:  # not even the number of axes is known
        return None
    axes = [axis % len(shape) for axis in node.op.attributes.get("axes", range(len(shape)))]
    for axis, scale in zip(axes, map(Fraction, scales.reshape(-1).tolist()), strict=False):
        if not fits_corners(shape[axis], scale):
            return (
                f"with align_corners and scales it would have {float(shape[axis] * scale):.4g} pixels along axis {axis}, and ONNX "
                "and onnxruntime round that at different places; give it `sizes` instead of `scales`"
            )
    return None


_LIMITS: Mapping[str, Callable[[Node, Graph], str | None]] = {"Dropout": _dropout, "Resize": _resize}
