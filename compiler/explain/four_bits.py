"""Weights of 4 bits: what would bring a layer's weights as codes (docs/codebook.md), and how many clocks that would save."""

from dataclasses import replace
from math import prod

import numpy as np

from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import AnyNode, Graph
from cnna.compiler.lower.array import few_groups
from cnna.compiler.quantise.books import takes_books
from cnna.spec.boards import ddr_of
from cnna.spec.codebook import ENTRIES
from cnna.spec.config import BEAT_BYTES, Config, ConfigError

CODED = "its weights come as codes of 4 bits"
QUANTISE = "cnna quantize --fc-bits auto"
DECODER = "codebook=1 in --config"
BOOK_BYTES = 2 * ENTRIES  # of a channel: half of each beat of books is empty


def remedy(node: AnyNode, whole: Graph, config: Config, batch: int) -> tuple[str, int] | None:
    """What to do, and the clocks of DDR that it saves in a run. whole: the quantised graph, whose weights are floats.

    None: nothing is to be done, the layer does not wait for its weights, its books would take what codes save or have no entry left
    for the zeros beside its channels, or the configuration can have no decoder.
    """
    pixels = batch * prod(whole.tensors[node.output].shape[2:])
    if not takes_books(node, whole) or not few_groups(config, pixels) or not _may_decode(config):
        return None
    assert isinstance(node.op, Conv)
    weights = np.asarray(whole.constants[node.op.weights])
    padded = weights.shape[1] % (config.depth * config.ci) != 0  # with zeros, which are values too
    few = all(len(np.unique(np.append(row, 0) if padded else row)) <= ENTRIES for row in weights)
    if padded and not few:
        return None
    todo = [*([] if few else [QUANTISE]), *([] if config.codebook else [DECODER])]
    saved = weights.size // 2 - BOOK_BYTES * len(weights)
    clocks = saved // min(ddr_of(config).bytes_per_cycle, BEAT_BYTES * config.ports)
    return (f"4 bits would do for its weights: {' and '.join(todo)}", clocks) if todo and clocks > 0 else None


def _may_decode(config: Config) -> bool:
    try:
        return replace(config, codebook=True).codebook
    except ConfigError:
        return False
