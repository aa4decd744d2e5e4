"""Finds out which element of the heads each element of a detector's output comes from, by asking the tail.

Each element has a number. For each bit of it the tail runs once, with one of two integers in each element, by that bit of its
number. An element of the output that follows one element of the heads takes one of two values each time, which spell the number.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.tail import Int8, Outputs, Tail

LOW, HIGH = -100, 100  # the two integers; far from the ends, where a curve may be flat
BOX = 4  # numbers of a box
NONE = -1  # of an element that follows none, or several

Numbers = dict[str, NDArray[np.int64]]


class Source(NamedTuple):
    """Where numbers point to: arrays of one shape."""

    head: NDArray[np.int64]
    channel: NDArray[np.int64]
    cell: NDArray[np.int64]


def traced(tail: Tail) -> Numbers:
    """For each output of a fixed size, the number of the element that it follows, in the output's own shape."""
    low, high = tail.run(tail.filled(LOW)), tail.run(tail.filled(HIGH))
    follows = {name: (low[name] != high[name]) for name in low if low[name].shape == high[name].shape}
    numbers = {name: np.zeros(found.shape, np.int64) for name, found in follows.items()}
    count = sum(int(np.prod(shape)) for shape in tail.shapes)
    for bit in range(max(1, (count - 1).bit_length())):
        made = tail.run(by_bit(tail, bit))
        for name, found in follows.items():
            if made[name].shape != found.shape:  # its size depends on the scores
                found[...] = False
                continue
            one = made[name] == high[name]
            found &= one | (made[name] == low[name])
            numbers[name] |= one.astype(np.int64) << bit
    return {name: np.where(follows[name] & (found < count), found, NONE) for name, found in numbers.items()}


def by_bit(tail: Tail, bit: int) -> list[Int8]:
    """Heads with one of two integers in each element, by a bit of its number."""
    first, made = 0, []
    for shape in tail.shapes:
        numbers = np.arange(first, first + int(np.prod(shape)))
        made.append(np.where(numbers >> bit & 1, HIGH, LOW).astype(np.int8).reshape(shape))
        first += numbers.size
    return made


def sources(tail: Tail, numbers: NDArray[np.int64]) -> Source:
    """Head, channel and cell of each number; -1 for NONE."""
    ends = np.cumsum([int(np.prod(shape)) for shape in tail.shapes])
    head = np.searchsorted(ends, numbers, side="right")
    inside = numbers - np.concatenate([[0], ends])[head]
    cells = np.array([shape[1] * shape[2] for shape in tail.shapes])[np.minimum(head, len(tail.shapes) - 1)]
    channel, cell = np.divmod(inside, cells)
    return Source(*(np.where(numbers == NONE, NONE, one) for one in (head, channel, cell)))


class Arrangement(NamedTuple):
    """How outputs are rows [boxes, numbers]. turned: channels come before boxes. beside: outputs have numbers of the same boxes;
    else they have boxes of their own.
    """

    names: tuple[str, ...]
    turned: bool
    beside: bool = False

    def rows(self, outputs: Outputs) -> NDArray[Any]:
        """The outputs so."""
        parts = [outputs[name] for name in self.names]
        rows = [part.reshape(part.shape[-2:]).T if self.turned else part.reshape(-1, part.shape[-1]) for part in parts]
        return np.concatenate(rows, axis=1 if self.beside else 0)


def arrangements(outputs: Outputs) -> list[Arrangement]:
    """The ways in which outputs may be rows of boxes, the likeliest first: scores with boxes beside them are not read alone."""
    found: list[Arrangement] = []
    flat = {name: y.shape[-2:] for name, y in outputs.items() if y.ndim in (2, 3) and y.size == y.shape[-1] * y.shape[-2]}
    for box, shape in flat.items():
        for other in (name for name in flat if name != box):
            turned = shape[-1] != BOX
            same = BOX in shape and shape[-1 if turned else 0] == flat[other][-1 if turned else 0]
            found += [Arrangement((box, other), turned, beside=True)] if same else []
    alone = {name: shape for name, shape in flat.items() if not any(name in one.names for one in found)}
    for name, (first, last) in sorted(alone.items(), key=lambda pair: -outputs[pair[0]].size):
        ways = (first < last, first >= last)
        found += [Arrangement((name,), turned) for turned in ways if (first if turned else last) > BOX]
    for names in (tuple(flat), tuple(name for name, y in outputs.items() if y.ndim > 3 and len(y) == 1)):
        lasts = {outputs[name].shape[-1] for name in names}
        found += [Arrangement(names, False)] if len(names) > 1 and len(lasts) == 1 and min(lasts) > BOX else []
    return found
