"""Which channels of a family matter least: the optimal brain surgeon's sums over the layers that read them.

After B. Hassibi, D. Stork, "Second order derivatives for network pruning: Optimal Brain Surgeon", NIPS 1992, taken channel by
channel: without the taps c of a layer, the best other weights leave the squared error

    tr(W_c (H^-1_cc)^-1 W_c^T),    H = X X^T over the layer's inputs X

and are W - W_c (H^-1_cc)^-1 H^-1_c. Errors count as shares of the power of the layer's outputs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.pruning.coupled import Labels
from cnna.pruning.layers import Layer, Real
from cnna.pruning.seen import Products

DAMPING = 0.01  # of the mean of a diagonal


@dataclass
class Reader:
    """A group of a layer that reads channels of a family. there: the places in the family of the channels that it reads; taps: of
    each of these, those that it has, all equally many.
    """

    rows: Real
    inverse: Real
    there: NDArray[np.int64]
    taps: NDArray[np.int64]
    power: float

    def costs(self, channels: int) -> Real:
        """Of each channel of the family."""
        blocks = self.inverse[self.taps[:, :, None], self.taps[:, None, :]]
        own = self.rows[:, self.taps].transpose(1, 2, 0)  # [channels, taps of one, outputs]
        found = np.zeros(channels)
        found[self.there] = np.einsum("cto,cto->c", own, np.linalg.solve(blocks, own)) / self.power
        return found

    def remove(self, place: int) -> None:
        """Takes a channel away, and spreads what it did over the others."""
        if place not in self.there:
            return
        own = self.taps[np.flatnonzero(self.there == place)[0]]
        solved = np.linalg.solve(self.inverse[np.ix_(own, own)], self.inverse[own])
        self.rows -= self.rows[:, own] @ solved
        self.inverse -= self.inverse[:, own] @ solved
        self.rows[:, own] = 0
        self.inverse[own, own] = 1.0  # a channel that is gone costs nothing, and its block can be solved


def readers_of(roots: Labels, layers: Sequence[tuple[Layer, Labels]], seen: Mapping[int, Products]) -> list[Reader]:
    """All groups of layers that read a family. layers: with the roots of their inputs, [groups, channels of a group]."""
    found = []
    for layer, labels in layers:
        for group, row in enumerate(labels):
            if not np.isin(row, roots).any():
                continue
            kernel = layer.taps // len(row)
            places = [np.flatnonzero(row == root) for root in roots]
            there = np.array([number for number, one in enumerate(places) if len(one)], np.int64)
            taps = np.stack([(one[:, None] * kernel + np.arange(kernel)).ravel() for one in places if len(one)])
            hessian = seen[layer.number].inputs[group]
            mean = hessian[:-1, -1] / seen[layer.number].pixels  # a bias takes the mean out
            covariance = hessian[:-1, :-1] - seen[layer.number].pixels * np.outer(mean, mean)
            diagonal = np.diag(covariance).mean()
            damped = covariance + (DAMPING * diagonal if diagonal > 0 else 1.0) * np.eye(len(covariance))
            power = max(seen[layer.number].power, 1e-30)
            found.append(Reader(layer.rows[group].copy(), np.linalg.inv(damped), there, taps, power))
    return found


def order(roots: Labels, readers: Sequence[Reader], tensors: Iterable[Collection[int]] = ()) -> list[tuple[int, float]]:
    """The channels, the least one first, each with the error of all so far; the last one is never removed.

    tensors: the roots that each of some tensors has, such as the half of a Split; its last one is never removed either.
    """
    left, found, total = list(range(len(roots))), list[tuple[int, float]](), 0.0
    sets = [{int(place) for place in np.flatnonzero(np.isin(roots, [*each]))} for each in tensors]
    while len(left) > 1:
        last = set[int]().union(*(each for each in sets if len(each) == 1))
        if not (free := [place for place in left if place not in last]):
            break
        costs = sum((one.costs(len(roots)) for one in readers), start=np.zeros(len(roots)))
        place = min(free, key=lambda one: costs[one])
        for each in sets:
            each.discard(place)
        left.remove(place)
        total += float(costs[place])
        found.append((int(roots[place]), total))
        for one in readers:
            one.remove(place)
    return found
