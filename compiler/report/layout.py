"""Lays out a graph in layers, by Sugiyama's method: ranks from the top, few crossings, edges nearly straight.

An edge that spans several ranks has a point of its own in each of them, so that it runs beside boxes and not behind them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP, RANK_GAP = 16.0, 22.0  # between neighbours in a rank, between ranks
MARGIN = 10.0
POINT_WIDTH = 6.0  # the width of an edge where it passes a rank
ORDERINGS, PLACINGS = 12, 12  # numbers of sweeps, each down and up
STRAIGHT = 4.0  # how much harder it is to move an edge's point aside than a box

Spot = tuple[float, float]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Centres of the boxes, and the points of each edge from the lower side of its source to the upper side of its target."""

    width: float
    height: float
    centres: tuple[Spot, ...]
    routes: dict[Edge, tuple[Spot, ...]]


def layered(sizes: Sequence[Spot], edges: Sequence[Edge]) -> Layout:
    """The layout of boxes of these sizes (width, height). An edge leads from a box to one that comes later in the list."""
    return _Layers(sizes, edges).layout()


def path(points: Sequence[Spot]) -> str:
    """An edge as an SVG path that is straight through ranks and curved between them."""
    words = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        if abs(x - to_x) < 0.5:
            words.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            words.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(words)


class _Layers:
    """Boxes and the points of edges, as numbered items. The neighbours of an item are in the ranks above and below its own."""

    def __init__(self, sizes: Sequence[Spot], edges: Sequence[Edge]) -> None:
        self.sizes, self.edges = sizes, list(dict.fromkeys(edges))
        self.ranks = _ranks(len(sizes), self.edges)
        self.widths = [width for width, _ in sizes]
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.chains: dict[Edge, list[int]] = {}
        for edge in self.edges:
            self._chain(edge)
        self.rows: list[list[int]] = [[] for _ in range(max(self.ranks, default=-1) + 1)]
        for item, rank in enumerate(self.ranks):
            self.rows[rank].append(item)

    def _chain(self, edge: Edge) -> None:
        source, target = edge
        chain, before = [], source
        for rank in range(self.ranks[source] + 1, self.ranks[target]):
            point = len(self.ranks)
            self.ranks.append(rank)
            self.widths.append(POINT_WIDTH)
            self.above.append([before])
            self.below.append([])
            self.below[before].append(point)
            chain.append(point)
            before = point
        self.below[before].append(target)
        self.above[target].append(before)
        self.chains[edge] = chain

    def layout(self) -> Layout:
        self._order()
        x = self._place()
        heights = [max((self.sizes[item][1] for item in row if item < len(self.sizes)), default=0.0) for row in self.rows]
        tops = [MARGIN]
        for height in heights:
            tops.append(tops[-1] + height + RANK_GAP)
        least = min((x[item] - self.widths[item] / 2 for item in range(len(x))), default=0.0)
        most = max((x[item] + self.widths[item] / 2 for item in range(len(x))), default=0.0)
        x = [value - least + MARGIN for value in x]
        y = [tops[rank] + heights[rank] / 2 for rank in self.ranks]
        centres = tuple((x[item], y[item]) for item in range(len(self.sizes)))
        routes = {edge: self._route(edge, x, y, tops, heights) for edge in self.edges}
        return Layout(most - least + 2 * MARGIN, max(tops[-1] - RANK_GAP, 0) + MARGIN, centres, routes)

    def _route(self, edge: Edge, x: list[float], y: list[float], tops: list[float], heights: list[float]) -> tuple[Spot, ...]:
        """The points of an edge, which runs straight through the height of each rank that it passes."""
        source, target = edge
        points = [(x[source], y[source] + self.sizes[source][1] / 2)]
        for point in self.chains[edge]:
            top = tops[self.ranks[point]]
            points += [(x[point], top), (x[point], top + heights[self.ranks[point]])]
        return (*points, (x[target], y[target] - self.sizes[target][1] / 2))

    def _order(self) -> None:
        """Sorts each rank by the mean place of each item's neighbours in the rank before, downwards and upwards in turn."""
        place = {item: float(index) for row in self.rows for index, item in enumerate(row)}
        for _ in range(ORDERINGS):
            for rows, beside in ((self.rows, self.above), (self.rows[::-1], self.below)):
                for row in rows:
                    row.sort(key=lambda item: _mean([place[other] for other in beside[item]], place[item]))
                    place.update((item, float(index)) for index, item in enumerate(row))

    def _place(self) -> list[float]:
        """Places the middle of each item near the mean of its neighbours' middles, as far as order and gaps allow."""
        x = [0.0] * len(self.ranks)
        for row in self.rows:
            for before, item in pairwise(row):
                x[item] = x[before] + self._gap(before, item)
            middle = x[row[-1]] / 2
            for item in row:
                x[item] -= middle
        for _ in range(PLACINGS):
            for rows, beside in ((self.rows, self.above), (self.rows[::-1], self.below)):
                for row in rows:
                    wanted = [_mean([x[other] for other in beside[item]], x[item]) for item in row]
                    for item, value in zip(row, self._spread(row, wanted), strict=True):
                        x[item] = value
        return x

    def _gap(self, left: int, right: int) -> float:
        return (self.widths[left] + self.widths[right]) / 2 + GAP

    def _spread(self, row: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """The places nearest to the wanted ones, by least squares, that keep the order and the gaps.

        It pools items that are too close.
        """
        offsets = [0.0]
        for before, item in pairwise(row):
            offsets.append(offsets[-1] + self._gap(before, item))
        blocks: list[tuple[float, float, int]] = []  # mean place, weight, items
        for item, want, offset in zip(row, wanted, offsets, strict=False):
            mean, weight, count = want - offset, STRAIGHT if item >= len(self.sizes) else 1.0, 1
            while blocks and blocks[-1][0] > mean:
                other, other_weight, other_count = blocks.pop()
                mean = (mean * weight + other * other_weight) / (weight + other_weight)
                weight, count = weight + other_weight, count + other_count
            blocks.append((mean, weight, count))
        places = [mean for mean, _, count in blocks for _ in range(count)]
        return [place + offset for place, offset in zip(places, offsets, strict=False)]


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """The rank of each box: the longest way from the top. A box without a source stands just above the first that reads it."""
    ranks = [0] * count
    reading: dict[int, list[int]] = {source: [] for source, _ in edges}
    entered = {target for _, target in edges}
    for source, target in sorted(edges):
        assert source < target, "an edge leads back"
        ranks[target] = max(ranks[target], ranks[source] + 1)
        reading[source].append(target)
    for source, targets in reading.items():
        if source not in entered:
            ranks[source] = min(ranks[target] for target in targets) - 1
    return ranks


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
