"""Channels that must go or stay together, as a union-find of numbers, and why some of them must stay."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]  # the number of the channel at each position of an axis
Axes = dict[int, Labels]  # of a tensor: by axis; axes without channels are left out


class Coupled:
    """Numbers of channels. Two that are joined have the same root; a root that was kept must not be removed."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._kept: dict[int, str] = {}
        self._families: list[tuple[int, Labels]] = []  # the node that made channels, and their numbers
        self._table: Labels | None = None

    def fresh(self, count: int, node: int) -> Labels:
        """Numbers for the channels that a node makes."""
        start = len(self._parents)
        self._parents += range(start, start + count)
        made = np.arange(start, start + count)
        self._families.append((node, made))
        return made

    def root(self, label: int) -> int:
        """The number that stands for all that are coupled with this one."""
        while self._parents[label] != label:
            self._parents[label] = self._parents[self._parents[label]]
            label = self._parents[label]
        return label

    def roots(self, labels: Labels) -> Labels:
        """The roots of an array of numbers."""
        if self._table is not None:
            return self._table[labels]
        unique, places = np.unique(labels, return_inverse=True)
        return np.array([self.root(int(one)) for one in unique], np.int64)[places].reshape(labels.shape)

    def settle(self) -> None:
        """Says that nothing more is coupled, so that roots are looked up."""
        self._table = np.array([self.root(label) for label in range(len(self._parents))], np.int64)

    def join(self, first: Labels, second: Labels) -> None:
        """Couples each channel of one array with the channel at the same place of another."""
        for one, other in {(int(a), int(b)) for a, b in zip(first.ravel(), second.ravel(), strict=True)}:
            low, high = sorted((self.root(one), self.root(other)))
            if low != high:
                self._parents[high] = low
                if high in self._kept:
                    self._kept.setdefault(low, self._kept.pop(high))

    def join_slices(self, labels: Labels, axis: int) -> Labels:
        """Couples all channels at each place of an axis; returns one of each place."""
        rows = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)
        for row in rows:
            found = np.unique(row)
            self.join(np.full(len(found) - 1, found[0]), found[1:])
        return np.ascontiguousarray(rows[:, 0])

    def keep(self, labels: Iterable[int] | Labels, why: str) -> None:
        """Says that channels must stay; the first reason counts."""
        for one in {self.root(int(label)) for label in np.asarray(labels).ravel()}:
            self._kept.setdefault(one, why)

    def why_kept(self, label: int) -> str | None:
        """Why a channel must stay; None: it may go."""
        return self._kept.get(self.root(label))

    def families(self) -> list[tuple[tuple[int, ...], Labels]]:
        """Roots that nodes make together, with these nodes: channels of one family may be exchanged for each other."""
        groups: list[tuple[set[int], set[int]]] = []
        for node, labels in self._families:
            nodes, roots = {node}, {int(one) for one in self.roots(labels)}
            apart = []
            for group in groups:
                if group[1] & roots:
                    nodes, roots = nodes | group[0], roots | group[1]
                else:
                    apart.append(group)
            groups = [*apart, (nodes, roots)]
        return [(tuple(sorted(nodes)), np.array(sorted(roots), np.int64)) for nodes, roots in groups]
