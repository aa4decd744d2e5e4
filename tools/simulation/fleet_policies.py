"""How a front chooses a board: each policy is a function of (front, model) that answers a board's number.

`opened` has the open requests of each board, of all fronts; `events` keeps it. A board that health checks have found is in `out`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from fleet import Fleet
from numpy.typing import NDArray

Choose = Callable[[int, int], int]
AHEAD = 1 << 16  # random numbers that are drawn at once


class Draws:
    """Uniform numbers, many at a time: one call of numpy's generator for each would take most of the run."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def below(self, count: int) -> int:
        """A whole number from 0 to count - 1."""
        if not self._left:
            self._left = self._rng.random(AHEAD).tolist()
        return int(self._left.pop() * count)


class Chooser:
    """The state that policies need: who is out, and how many requests are open where."""

    def __init__(self, fleet: Fleet, rng: np.random.Generator) -> None:
        self.fleet, self.draws = fleet, Draws(rng)
        self.opened: list[int] = [0] * fleet.boards
        self.out: set[int] = set()
        everywhere = tuple(range(fleet.boards))
        self.placed: list[Sequence[int]] = list(fleet.placed or [everywhere] * len(fleet.mix))
        self._turn = [rng.integers(0, len(boards), fleet.fronts).tolist() for boards in self.placed]
        self._own: NDArray[np.float64] | None = None
        if fleet.policy == "least":  # a front's own counts; ties are broken by noise that differs from front to front
            self._own = rng.random((fleet.fronts, fleet.boards)) * 0.5
        self._size = fleet.boards // fleet.racks
        self._in_rack = [0] * fleet.racks

    def choice(self) -> Choose:
        """The function of the fleet's policy."""
        found: dict[str, Choose] = {
            "random": self._random,
            "round": self._round,
            "least": self._least,
            "two": self._two,
            "racks": self._racks,
            "ideal": self._ideal,
            "central": lambda front, model: -1,
        }
        return found[self.fleet.policy]

    def sent(self, front: int, board: int) -> None:
        """A request was sent."""
        self.opened[board] += 1
        self._in_rack[board // self._size] += 1
        if self._own is not None:
            self._own[front, board] += 1

    def ended(self, front: int, board: int) -> None:
        """It was answered, or goes elsewhere."""
        self.opened[board] -= 1
        self._in_rack[board // self._size] -= 1
        if self._own is not None:
            self._own[front, board] -= 1

    def take_out(self, board: int) -> None:
        """Health checks have found that a board is away."""
        self.out.add(board)
        self.placed = [tuple(one for one in boards if one != board) for boards in self.placed]
        if self._own is not None:
            self._own[:, board] = np.inf

    def _random(self, front: int, model: int) -> int:
        boards = self.placed[model]
        return boards[self.draws.below(len(boards))]

    def _round(self, front: int, model: int) -> int:
        boards, turns = self.placed[model], self._turn[model]
        turns[front] = (turns[front] + 1) % len(boards)
        return boards[turns[front]]

    def _least(self, front: int, model: int) -> int:
        assert self._own is not None
        boards = self.placed[model]
        if len(boards) == self.fleet.boards - len(self.out):
            return int(self._own[front].argmin())
        return boards[int(self._own[front, list(boards)].argmin())]

    def _two(self, front: int, model: int) -> int:
        boards, opened = self.placed[model], self.opened
        one, other = boards[self.draws.below(len(boards))], boards[self.draws.below(len(boards))]
        return one if opened[one] <= opened[other] else other

    def _racks(self, front: int, model: int) -> int:
        """Racks are for fleets whose boards all have all models."""
        one, other = self.draws.below(self.fleet.racks), self.draws.below(self.fleet.racks)
        rack = one if self._in_rack[one] <= self._in_rack[other] else other
        members = range(rack * self._size, (rack + 1) * self._size)
        return self._fewest([board for board in members if board not in self.out])

    def _ideal(self, front: int, model: int) -> int:
        return self._fewest(self.placed[model])

    def _fewest(self, boards: Sequence[int]) -> int:
        """The fewest open requests; of equal ones the first from a random place on."""
        start, opened = self.draws.below(len(boards)), self.opened
        turned = [*boards[start:], *boards[:start]]
        return min(turned, key=opened.__getitem__)
