"""Finds a model's tensors in another model: by their names, or by their values, their shapes and their order.

Names change when a model is equalised, when layers are folded, and when a tool such as onnx-simplifier writes the model anew. The
quantiser writes down which tensors it has equalised, with the factors (`scaled_channels`). Others are found by their values: both
models have answered the same sample. A pair's score is the share of the other tensor's power that ours explains. Of all ways to
pair tensors in the order in which both models make them, that with the greatest sum of scores is taken.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.divergence import squeezed

Arrays = Mapping[str, NDArray[Any]]
Factors = Mapping[str, tuple[str, tuple[float, ...]]]  # of equalised tensors: the name before, what channels were divided by
LEAST = 0.6  # score of a pair whose order fits: 4 dB
SURE = 0.95  # score of one whose order does not: 13 dB
ELEMENTS, PIXELS = 1 << 14, 32  # of a tensor, that are looked at, but of each channel at least so many pixels


@dataclass(frozen=True, eq=False)
class Match:
    """Where a tensor is in the other model. scales: by which its channels are greater there, [C]; None: it is the same tensor.

    by_value: whether it was found by its values, since no name says where it is.
    """

    name: str
    scales: NDArray[np.float64] | None = None
    by_value: bool = False

    def as_ours(self, theirs: NDArray[Any], channels: int) -> NDArray[Any]:
        """The other model's tensor with our scales, so that all channels count as they do for our int8."""
        if self.scales is None:
            return theirs
        return (theirs.reshape(channels, -1) / self.scales[:, None]).reshape(theirs.shape)


class _Pair(NamedTuple):
    score: float
    match: Match


def alike(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether one is the other but for axes of 1, or for how its axes are joined; numbers of another kind are never."""
    if theirs.dtype.kind != "f" or ours.size != theirs.size:
        return False
    return squeezed(ours.shape) == squeezed(theirs.shape) or ours.ndim != theirs.ndim


def named(ours: Arrays, there: Collection[str], factors: Factors, other: Factors) -> dict[str, Match]:
    """Where each of our tensors is among those of the other model, by its name; those whose names are not there are left out.

    factors, other: of the tensors that are equalised in our model, and in the other one, which may be quantised too.
    """
    places = {other[name][0] if name in other else name: name for name in there}
    found = {}
    for name, x in ours.items():
        before, scales = (factors[name][0], _scales(factors, name, x)) if name in factors else (name, None)
        if before in places:
            place = places[before]
            theirs = _scales(other, place, x) if place in other else None
            mine, theirs = (np.ones(x.shape[1]) if one is None else one for one in (scales, theirs))
            found[name] = Match(place, None if np.array_equal(mine, theirs) else mine / theirs)
        elif name in there:
            found[name] = Match(name)
    return found


def _scales(factors: Factors, name: str, x: NDArray[Any]) -> NDArray[np.float64] | None:
    """The factors of a tensor [1, C, H, W]; None: they are not for so many channels, as in a model that was changed by hand."""
    found = np.array(factors[name][1])
    return found if len(found) == x.shape[1] else None


def matched(ours: Arrays, theirs: Arrays, factors: Factors) -> dict[str, Match]:
    """Where each of our tensors, [1, C, H, W], is in the other model, by its values; those that are not to be told are left out.

    Both come in the order in which they are made, and hold the answers to one sample. factors: as of `named`.
    """
    sizes: dict[int, list[int]] = defaultdict(list)
    parts: dict[tuple[int, int], NDArray[np.float64]] = {}  # of their tensors, by place and channels
    for place, x in enumerate(theirs.values()):
        sizes[x.size].append(place)
    names = list(theirs)
    pairs: list[dict[int, _Pair]] = []
    for name, x in ours.items():
        there = {place: theirs[names[place]] for place in sizes[x.size] if alike(x, theirs[names[place]])}
        channels = x.shape[1]
        for place, y in there.items():
            if (place, channels) not in parts:
                parts[place, channels] = _part(y, channels)
        own, scales = _part(x, channels), _scales(factors, name, x) if name in factors else None
        scored = {place: _scored(own, parts[place, channels], names[place], scales) for place in there}
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


def _scored(a: NDArray[np.float64], b: NDArray[np.float64], name: str, scales: NDArray[np.float64] | None) -> _Pair:
    """How much of the other tensor, b, is explained by a: as it is or, where that is more, with its channels scaled back."""
    ways = [(b, Match(name, by_value=True))]
    if scales is not None:
        ways.append((b / scales[:, None], Match(name, scales, by_value=True)))
    return max((_Pair(_explained(a, y), match) for y, match in ways), key=lambda pair: pair.score)


def _explained(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The share of b's power that is in a; 0 for what has none."""
    with np.errstate(invalid="ignore", over="ignore"):
        power, noise = float((b * b).sum()), float(((a - b) ** 2).sum())
    return 1 - noise / power if power and np.isfinite(power + noise) else 0.0
