"""Weights that are a few values in each output channel: a book of 16 int8 values, found by k-means on the float weights.

The accelerator may then bring 4 bits for each weight (`spec.codebook`). For any other tool they are int8 weights like others.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import AnyNode, Graph, Node
from cnna.compiler.quantise.weights import WEIGHT_MAX
from cnna.spec.codebook import ENTRIES

FEWEST_INPUTS = 128  # of a layer: with fewer, books take a good part of what codes save
ROUNDS = 60  # of k-means at most; most channels rest sooner
PARTS = 64  # into which a channel's weights are cut to see how dense they are


def fully_connected(body: Graph) -> list[Node]:
    """The layers whose weights may come as codes, the one with most weights first.

    They make one pixel, so each weight is used once for an image.
    """
    found = [node for node in body.nodes if takes_books(node, body)]
    return sorted(found, key=lambda node: -body.constants[node.op.weights].size)


def takes_books(node: AnyNode, body: Graph) -> bool:
    """Whether a layer makes one pixel and has inputs enough."""
    if not isinstance(node.op, Conv) or node.op.groups != 1 or body.tensors[node.output].shape[2:] != (1, 1):
        return False
    return body.constants[node.op.weights].size // body.tensors[node.output].shape[1] >= FEWEST_INPUTS


def books_of(weights: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """A book for each output channel: whole numbers [channels, ENTRIES], rising, of which the nearest times the scale is a weight.

    It is the better of k-means from two beginnings, so equal weights give equal books. A channel with few enough values in int8
    keeps them.
    """
    rows = np.sort(weights.reshape(len(weights), -1) / scales[:, None], axis=1)
    return np.array([_book(row) for row in rows])


def _book(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """The book of rising numbers."""
    values = np.unique(np.rint(row))
    if len(values) <= ENTRIES:
        return np.pad(values, (0, ENTRIES - len(values)), mode="edge")
    found = [np.clip(np.rint(_means(row, begin)), -WEIGHT_MAX, WEIGHT_MAX) for begin in (_even_shares(row), _even_errors(row))]
    return min(found, key=lambda book: float(((nearest_in(book[None], row[None])[0] - row) ** 2).sum()))


def _even_shares(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entries with as many of the rising numbers between each two."""
    return np.asarray(row[((np.arange(ENTRIES) + 0.5) * len(row) / ENTRIES).astype(int)])


def _even_errors(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entries whose clusters have equal errors: as dense as the cube root of the numbers' density (Panter and Dite, 1951)."""
    edges = row[:: max(len(row) // PARTS, 1)]
    place = np.concatenate([[0.0], np.cumsum(np.diff(edges) ** (2 / 3))])
    return np.interp((np.arange(ENTRIES) + 0.5) / ENTRIES * place[-1], place, edges)


def nearest_in_books(weights: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights as multiples of their scales, each the nearest entry of its channel's book."""
    whole = weights.reshape(len(weights), -1) / scales[:, None]
    return (nearest_in(books_of(weights, scales), whole) * scales[:, None]).reshape(weights.shape)


def _means(row: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means of the clusters of rising numbers, from these on. An empty cluster keeps its place."""
    sums = np.concatenate([[0.0], np.cumsum(row)])
    before = None
    for _ in range(ROUNDS):
        ends = np.concatenate([[0], np.searchsorted(row, (means[1:] + means[:-1]) / 2), [len(row)]])
        if before is not None and np.array_equal(ends, before):
            break
        before, counts = ends, np.diff(ends)
        means = np.where(counts > 0, np.diff(sums[ends]) / np.maximum(counts, 1), means)
    return means


def nearest_in(books: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each number [..., channels, n] the nearest entry of its channel's rising book [..., channels, ENTRIES]."""
    found = np.repeat(books[..., :1], whole.shape[-1], axis=-1)
    for entry in range(1, ENTRIES):
        lower, upper = books[..., entry - 1, None], books[..., entry, None]
        np.copyto(found, np.broadcast_to(upper, found.shape), where=whole > (lower + upper) / 2)
    return found
