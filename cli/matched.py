"""Finds a model's tensors in another model that calls them otherwise: by their values, their shapes and their order.

Names change when a model is equalised, when layers are folded, and when a tool such as onnx-simplifier writes the model anew. Both
models have answered the same sample. A pair's score is the share of the other tensor's power that ours explains. Of all ways to
pair tensors in the order in which both models make them, that with the greatest sum of scores is taken.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.divergence import squeezed

Arrays = Mapping[str, NDArray[Any]]
LEAST = 0.6  # score of a pair whose order fits: 4 dB
SURE = 0.95  # score of one whose order does not: 13 dB
ELEMENTS, PIXELS = 1 << 14, 32  # of a tensor, that are looked at, but of each channel at least so many pixels
FEW = 16  # pixels of a channel: with fewer, its scale cannot be told from its values
MOST = 64.0  # and one by this: scales that a channel may have
BETTER = 10.0  # so many times less noise tells that channels are scaled, and not merely rounded


@dataclass(frozen=True, eq=False)
class Match:
    """Where a tensor is in the other model. scales: that ours is multiplied by, [1, C, 1, 1]; None: it is the same tensor."""

    name: str
    scales: NDArray[np.float64] | None = None

    def like(self, ours: NDArray[Any]) -> NDArray[Any]:
        """Ours, as the other model has it."""
        return ours if self.scales is None else ours * self.scales


class _Pair(NamedTuple):
    score: float
    match: Match


def alike(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether one is the other but for axes of 1, or for how its axes are joined; numbers of another kind are never."""
    if theirs.dtype.kind != "f" or ours.size != theirs.size:
        return False
    return squeezed(ours.shape) == squeezed(theirs.shape) or ours.ndim != theirs.ndim


def matched(ours: Arrays, theirs: Arrays) -> dict[str, Match]:
    """Where each of our tensors, [1, C, H, W], is in the other model; those that are not to be told are left out.

    Both come in the order in which they are made, and hold the answers to one sample.
    """
    sizes: dict[int, list[int]] = defaultdict(list)
    parts: dict[tuple[int, int], NDArray[np.float64]] = {}  # of their tensors, by place and channels
    for place, x in enumerate(theirs.values()):
        sizes[x.size].append(place)
    names = list(theirs)
    pairs: list[dict[int, _Pair]] = []
    for x in ours.values():
        there = {place: theirs[names[place]] for place in sizes[x.size] if alike(x, theirs[names[place]])}
        channels = x.shape[1]
        for place, y in there.items():
            if (place, channels) not in parts:
                parts[place, channels] = _part(y, channels)
        own = _part(x, channels)
        scored = {place: _scored(own, parts[place, channels], names[place]) for place in there}
        pairs.append({place: pair for place, pair in scored.items() if pair.score >= LEAST})
    chosen = _in_order(pairs, len(names))
    taken = set(chosen.values())
    for number, row in enumerate(pairs):
        left = {place: pair.score for place, pair in row.items() if place not in taken and pair.score >= SURE}
        if number not in chosen and left:
            chosen[number] = max(left, key=left.__getitem__)
            taken.add(chosen[number])
    return {name: pairs[number][chosen[number]].match for number, name in enumerate(ours) if number in chosen}


def _in_order(pairs: Sequence[Mapping[int, _Pair]], places: int) -> dict[int, int]:
    """The place of each number: both rise together, and the scores' sum is the greatest."""
    best, ends = np.zeros(places + 1), np.full(places + 1, -1)  # of chains that end at a place, counted from 1
    chains: list[tuple[int, int, int]] = []  # number, place, the chain before it
    for number, row in enumerate(pairs):
        until = np.maximum.accumulate(best)
        where = np.maximum.accumulate(np.where(best == until, np.arange(places + 1), 0))
        news = [(place, until[place] + pair.score, int(ends[where[place]])) for place, pair in row.items()]
        for place, score, before in news:
            if score > best[place + 1]:
                best[place + 1], ends[place + 1] = score, len(chains)
                chains.append((number, place, before))
    found, chain = dict[int, int](), int(ends[best.argmax()])
    while chain >= 0:
        number, place, chain = chains[chain]
        found[number] = place
    return found


def _part(x: NDArray[Any], channels: int) -> NDArray[np.float64]:
    """The values to look at, [channels, pixels]."""
    flat = x.reshape(channels, -1)
    pixels = max(PIXELS, ELEMENTS // channels)
    where = np.linspace(0, flat.shape[1] - 1, pixels).astype(int) if flat.shape[1] > pixels else slice(None)
    return flat[:, where].astype(np.float64)


def _scored(a: NDArray[np.float64], b: NDArray[np.float64], name: str) -> _Pair:
    """How much of the other tensor, b, is explained by a: as it is or, where that is far better, with a scale for each channel."""
    with np.errstate(invalid="ignore", over="ignore"):
        power, noise = float((b * b).sum()), float(((a - b) ** 2).sum())
    if not power or not np.isfinite(power + noise):
        return _Pair(0.0, Match(name))
    if a.shape[1] < FEW:
        return _Pair(1 - noise / power, Match(name))
    own = (a * a).sum(axis=1)
    scales = np.divide((a * b).sum(axis=1), own, out=np.ones(len(a)), where=own > 0)
    least = float(((a * scales[:, None] - b) ** 2).sum())
    if least * BETTER >= noise or scales.min() < 1 / MOST or scales.max() > MOST:
        return _Pair(1 - noise / power, Match(name))
    return _Pair(1 - least / power, Match(name, scales.reshape(1, -1, 1, 1)))
