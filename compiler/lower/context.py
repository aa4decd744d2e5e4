"""What every node's lowering reads (`lower.py`, `array.py` and `vector.py` use it), and constants that leave values unchanged."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph import ir
from cnna.compiler.lower.concat import Storage, store_tensors
from cnna.compiler.lower.kernels import KernelParts
from cnna.spec import arith
from cnna.spec.config import Config
from cnna.spec.errors import ModelError

FULL = ir.Clamp(0)  # the output stage that leaves values as they are
UNIT_SHIFT = arith.MULT_BITS - 1  # requantise(acc, 1 << UNIT_SHIFT, UNIT_SHIFT) is acc


class Lowering:
    """What every node's lowering reads: the graph, the configuration, and where tensors lie."""

    def __init__(self, graph: ir.Graph, config: Config, batch: int) -> None:
        self.graph, self.config, self.images = graph, config, (0, batch)
        self.storage: Storage = store_tensors(graph, config.ci)

    def size(self, tensor: str) -> tuple[int, int]:
        """Rows and columns of a tensor."""
        _, height, width = self.graph.tensors[tensor].shape
        return height, width

    def channels(self, tensor: str) -> int:
        return self.graph.tensors[tensor].shape[0]

    def zero(self, tensor: str) -> int:
        quant = self.graph.tensors[tensor].quant
        if quant is None:
            raise ModelError(f"{self.graph.name}: tensor '{tensor}' is not quantised; run `cnna quantize` first")
        return quant.zero

    def common(
        self, node: ir.Node, layer: int, window: ir.Window, pad: int, out: ir.Clamp, table: ir.Table | None = None
    ) -> KernelParts:
        """The fields that all kernels of a node share."""
        views = self.storage.views
        second = views[node.inputs[1]] if len(node.inputs) > 1 else None
        return KernelParts(
            name=node.name,
            layer=layer,
            tensor=node.output,
            tensor_block=0,
            images=self.images,
            source=views[node.inputs[0]],
            second=second,
            dest=views[node.output],
            window=window,
            pad=pad,
            out=out,
            table=table is not None,
        )


def blocked(values: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """[channels, ...] as [blocks, size, ...]; `fill` completes the last block."""
    values = np.asarray(values)
    padded = np.full((-(-len(values) // size) * size, *values.shape[1:]), fill, values.dtype)
    padded[: len(values)] = values
    return padded.reshape(-1, size, *values.shape[1:])
