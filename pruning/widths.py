"""Which widths cost least: of families of channels, those for which a network is expected to take few enough clocks.

Everything here is numbers that are quick to find: an estimate of the clocks of any widths, and the damage of each family alone.
Damages of several families add up. Widths of layers that follow each other do not: the clocks of all widths are estimated together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Widths = Mapping[str, int]  # channels that a family keeps; those left out keep all
ROUNDS = 20  # of exchanges; each lowers the damage, so there are few
NOTHING = 1e-12
LESS = 1e-9  # a share of the damage that is no more than rounding


@dataclass(frozen=True)
class Choices:
    """What may be chosen. widths: of each family, from all of its channels down; clocks: of any widths, estimated; damage: of a
    family at a width.
    """

    widths: Mapping[str, Sequence[int]]
    clocks: Callable[[Widths], float]
    damage: Callable[[str, int], float]

    def of(self, name: str, widths: Widths) -> int:
        """The width of a family."""
        return widths.get(name, self.widths[name][0])

    def total(self, widths: Widths) -> float:
        """The damage of all widths."""
        return sum(self.damage(name, width) for name, width in widths.items() if width < self.widths[name][0])

    def added(self, name: str, width: int, widths: Widths) -> float:
        """How much more damage another width of a family does."""
        now = self.of(name, widths)
        known = self.damage(name, now) if now < self.widths[name][0] else 0.0
        return (self.damage(name, width) if width < self.widths[name][0] else 0.0) - known


def cheapest(choices: Choices, target: float) -> dict[str, int]:
    """Widths with few enough clocks for little damage; the narrowest that save anything, if none are few enough.

    Families get narrower one after another, that with the most clocks for its damage first. Then what is not needed is given back,
    and one family is made narrower where another one may then get wider for less damage in all.
    """
    widths = _narrowed({}, choices, target)
    if choices.clocks(widths) > target:
        return widths
    widths = _given_back(widths, choices, target)
    for _ in range(ROUNDS):
        better = _exchanged(widths, choices, target)
        if better is None:
            break
        widths = better
    return {name: width for name, width in widths.items() if width < choices.widths[name][0]}


def _narrowed(start: Widths, choices: Choices, target: float) -> dict[str, int]:
    widths, now = dict(start), choices.clocks(start)
    while now > target:
        found = []
        for name, all_widths in choices.widths.items():
            for width in all_widths:
                if width >= choices.of(name, widths):
                    continue
                saved = now - choices.clocks({**widths, name: width})
                if saved > NOTHING:
                    found.append((min(saved, now - target) / max(choices.added(name, width, widths), NOTHING), saved, name, width))
        if not found:
            break
        _, _, name, width = max(found)
        widths[name] = width
        now = choices.clocks(widths)
    return widths


def _given_back(widths: Widths, choices: Choices, target: float) -> dict[str, int]:
    found = dict(widths)
    while True:
        wider = []
        for name, now in found.items():
            for width in choices.widths[name]:
                if width > now and choices.clocks({**found, name: width}) <= target:
                    wider.append((choices.added(name, width, found), name, width))
        if not wider:
            return found
        _, name, width = min(wider)
        found[name] = width


def _exchanged(widths: Widths, choices: Choices, target: float) -> dict[str, int] | None:
    """The best widths of less damage that follow where one family gets narrower and others wider; None: there are none."""
    best, least = None, choices.total(widths) * (1 - LESS)
    for name, all_widths in choices.widths.items():
        for width in all_widths:
            if width >= choices.of(name, widths) or choices.damage(name, width) >= least:
                continue
            found = _given_back({**widths, name: width}, choices, target)
            if (total := choices.total(found)) < least:
                best, least = found, total
    return best
