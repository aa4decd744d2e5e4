"""Plays a fleet: a loop over events in order of time, for requests that are all drawn before it begins.

Fronts are first-in-first-out servers with equal work for all, so numpy plays them at once (`fleet.fifo`). Links and boards have an
event for each request that reaches a board, and for each batch.
"""

import heapq
import itertools
from collections import deque

import numpy as np
from fleet import REFUSE, Failure, Fleet, Seen, fifo
from fleet_policies import Chooser
from numpy.typing import NDArray

REACHED, DONE, DUE, FAILS, FOUND = range(5)
FIELDS = ("dispatched", "reached", "begun", "ended")


class Board:
    """One board: its queues by model, its link, and the batch that it works on."""

    def __init__(self, models: int) -> None:
        self.queues: list[deque[int]] = [deque() for _ in range(models)]
        self.link_free = 0.0
        self.running: list[int] = []
        self.on_link: set[int] = set()
        self.failure: Failure | None = None


class Player:
    """The state of a run. Times of requests are lists, since single items of numpy's arrays are slow."""

    def __init__(self, fleet: Fleet, arrivals: NDArray[np.float64], models: NDArray[np.int64], rng: np.random.Generator) -> None:
        self.fleet, self.rng = fleet, rng
        self.arrivals, self.models = arrivals, models.tolist()
        fronts = rng.integers(0, fleet.fronts, len(arrivals))
        self.fronts = fronts.tolist()
        self.dispatched = leave_fronts(fleet, arrivals, fronts)
        self.reached, self.begun, self.ended = ([0.0] * len(arrivals) for _ in range(3))
        self.chooser = Chooser(fleet, rng)
        self.choose = self.chooser.choice()
        self.boards = [Board(len(fleet.mix)) for _ in range(fleet.boards)]
        self.shared = [deque[int]() for _ in fleet.mix] if fleet.policy == "central" else None
        if self.shared is not None:
            for board in self.boards:
                board.queues = self.shared
        self.idle = set(range(fleet.boards))
        self.due: dict[int, float] = {}
        self.heap: list[tuple[float, int, int, int]] = []
        self.retries = self.batches = self.answered = 0
        self.busy = 0.0

    def play(self) -> None:
        """All requests, in the order in which they leave the fronts."""
        for number, failure in enumerate(self.fleet.failures):
            heapq.heappush(self.heap, (failure.at, FAILS, failure.board, number))
            heapq.heappush(self.heap, (failure.at + failure.detection, FOUND, failure.board, number))
        heap = self.heap
        order = np.argsort(self.dispatched, kind="stable")
        for request, now in zip(order.tolist(), self.dispatched[order].tolist(), strict=True):
            while heap and heap[0][0] <= now:
                self._event(*heapq.heappop(heap))
            self._dispatch(now, request)
        while heap:
            self._event(*heapq.heappop(heap))

    def _event(self, now: float, kind: int, number: int, request: int) -> None:
        if kind == REACHED:
            self._reach(now, number, request)
        elif kind == DONE:
            self._done(now, number)
        elif kind == DUE:
            if self.shared is not None and self.idle:  # whichever is free now
                number = next(iter(self.idle))
            if number in self.idle:
                self._start(now, number)
        elif kind == FAILS:
            self.boards[number].failure = self.fleet.failures[request]
            self.idle.discard(number)
        else:
            self._found(now, number)

    def _dispatch(self, now: float, request: int) -> None:
        if self.shared is not None:
            self.reached[request] = now
            self.shared[self.models[request]].append(request)
            if self.idle:
                self._start(now, next(iter(self.idle)))
            return
        number = self.choose(self.fronts[request], self.models[request])
        board = self.boards[number]
        self.chooser.sent(self.fronts[request], number)
        board.link_free = max(now, board.link_free) + self.fleet.link_seconds
        if self.fleet.link_seconds == 0.0 and board.failure is None:
            self._reach(now, number, request)
            return
        board.on_link.add(request)
        heapq.heappush(self.heap, (board.link_free, REACHED, number, request))

    def _reach(self, now: float, number: int, request: int) -> None:
        board = self.boards[number]
        board.on_link.discard(request)
        if number in self.chooser.out or (board.failure is not None and board.failure.kind == REFUSE):
            self._again(now, number, request)
            return
        self.reached[request] = now
        queue = board.queues[self.models[request]]
        queue.append(request)
        if number in self.idle:
            self._start(now, number)

    def _start(self, now: float, number: int) -> None:
        """Begins the batch of the request that has waited longest, if it is full or due; comes back when it is due."""
        board, fleet = self.boards[number], self.fleet
        heads = [(self.reached[queue[0]], model) for model, queue in enumerate(board.queues) if queue]
        if not heads:
            return
        oldest, model = min(heads)
        queue, network = board.queues[model], fleet.mix[model]
        full = [one for one in sorted(heads) if len(board.queues[one[1]]) >= fleet.mix[one[1]].most]
        if now < oldest + fleet.window:
            if not full:
                self._wake(oldest + fleet.window, number)
                return
            model = full[0][1]
            queue, network = board.queues[model], fleet.mix[model]
        count = min(len(queue), network.most)
        board.running = [queue.popleft() for _ in range(count)]
        seconds = network.seconds[count - 1]
        if fleet.exponential:
            seconds = float(self.rng.exponential(seconds))
        for request in board.running:
            self.begun[request] = now
        self.idle.discard(number)
        self.batches += 1
        self.busy += seconds
        heapq.heappush(self.heap, (now + seconds, DONE, number, 0))

    def _wake(self, due: float, number: int) -> None:
        """Comes back to a board, once for each moment; where boards share queues, to any of them."""
        key = number if self.shared is None else -1
        if self.due.get(key) != due:
            self.due[key] = due
            heapq.heappush(self.heap, (due, DUE, number, 0))

    def _done(self, now: float, number: int) -> None:
        board = self.boards[number]
        if board.failure is not None:  # the batch is lost; health checks will find it
            return
        for request in board.running:
            self.ended[request] = now
            self.answered += 1
            if self.shared is None:
                self.chooser.ended(self.fronts[request], number)
        board.running = []
        self.idle.add(number)
        self._start(now, number)

    def _found(self, now: float, number: int) -> None:
        """Sends all that the board holds to others. What waits in a queue that all boards share is not the board's."""
        board = self.boards[number]
        self.chooser.take_out(number)
        own = [] if self.shared is not None else board.queues
        left = [*board.running, *(request for queue in own for request in queue)]
        board.running = []
        for queue in own:
            queue.clear()
        for request in left:
            self._again(now, number, request)

    def _again(self, now: float, number: int, request: int) -> None:
        self.retries += 1
        if self.shared is None:
            self.chooser.ended(self.fronts[request], number)
        self._dispatch(now, request)


def leave_fronts(fleet: Fleet, arrivals: NDArray[np.float64], fronts: NDArray[np.int64]) -> NDArray[np.float64]:
    """When requests leave their fronts."""
    if not fleet.front_seconds:
        return arrivals.copy()
    found, order = np.empty_like(arrivals), np.argsort(fronts, kind="stable")
    borders = np.searchsorted(fronts[order], np.arange(fleet.fronts + 1))
    for first, last in itertools.pairwise(borders):
        mine = order[first:last]
        found[mine] = fifo(arrivals[mine], fleet.front_seconds)
    return found


def play(fleet: Fleet, requests: int, seed: int = 1) -> Seen:
    """Requests at random moments, of models by their shares."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / fleet.rate, requests))
    models = rng.choice(len(fleet.mix), requests, p=[one.share for one in fleet.mix])
    return played(fleet, arrivals, models, rng)


def played(fleet: Fleet, arrivals: NDArray[np.float64], models: NDArray[np.int64], rng: np.random.Generator) -> Seen:
    """Requests at these moments, in ascending order."""
    player = Player(fleet, arrivals, models, rng)
    player.play()
    dispatched, reached, begun, ended = (np.array(getattr(player, field)) for field in FIELDS)
    parts = ended - arrivals, dispatched - arrivals, reached - dispatched, begun - reached
    return Seen(arrivals, *parts, models, player.retries, player.batches, player.busy, player.answered)
