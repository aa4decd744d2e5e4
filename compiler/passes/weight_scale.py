"""The scale of each output channel of weights that came in int8."""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import scale_name
from cnna.compiler.graph.ir import Node
from cnna.spec.errors import ModelError


def weight_scale(edit: Editor, node: Node, weights: str, shape: tuple[int, ...], axis: int, factor: float = 1.0) -> str | None:
    """Name of a new constant [shape[axis]], `factor` times the scales; None where the weights are float.

    ModelError: scales differ within an output channel.
    """
    if scale_name(weights) not in edit.constants:
        return None
    scales = np.broadcast_to(edit.constants[scale_name(weights)], shape)
    channels = np.moveaxis(scales, axis, 0).reshape(shape[axis], -1)
    if (channels != channels[:, :1]).any():
        raise ModelError(
            f"node '{node.name}' ({getattr(node.op, 'kind', 'Conv')}): its weights have scales along an axis other than the output "
            f"channels; quantise them per output channel (axis {axis}) or per tensor"
        )
    scale = np.where(channels[:, 0] == 0, 1.0, channels[:, 0])  # such weights are 0 at any scale
    return edit.constant(f"{weights}:scales", scale * factor)
