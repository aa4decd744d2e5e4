"""When a board is taken for hung. Time stands still unless a test lets it pass: a busy computer changes nothing here."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from cnna.serve.boards.process import Answer, WorkerProcess
from cnna.serve.boards.watch import LATE, Watch

Within = Callable[[Coroutine[Any, Any, None]], None]
LIMIT = 0.05
HANGS = f"it hangs: no answer in {LIMIT:.2f} s"


class Starved:
    """A worker that had no processor for so many of the seconds since the last look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def scheduled(self) -> tuple[float, float]:
        return 0.0, 0.0

    def starved(self, since: object, seconds: float) -> float:
        found, self.seconds = self.seconds, 0.0
        return found


class Timed(Watch):
    """`failed` says why a board was given up. `passes` is all the time that there is."""

    def __init__(self) -> None:
        self.worker, self.failed, self.now = Starved(), list[str](), 0.0
        super().__init__(lambda: cast("WorkerProcess", self.worker), self.failed.append)
        asyncio.get_running_loop().time = lambda: self.now  # type: ignore[method-assign]  # the loop's own clock, for its timers too

    def sent(self) -> "asyncio.Future[Answer]":
        return self.timed(asyncio.get_running_loop().create_future(), LIMIT)

    async def passes(self, seconds: float) -> None:
        """Lets that time pass at once, and timers come that are due."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


def test_no_answer_in_time_is_a_hang(within: Within) -> None:
    """Requests of a board that hangs would wait until their deadlines."""

    async def run() -> None:
        board = Timed()
        board.sent()
        await board.passes(0.9 * LIMIT)
        assert not board.failed
        await board.passes(0.2 * LIMIT)
        assert board.failed == [HANGS]

    within(run())


def test_a_front_that_stood_still_does_not_blame_the_board(within: Within) -> None:
    """A computer that stops for a moment would kill all of its boards, and again when they come back."""

    async def run() -> None:
        board = Timed()
        future = board.sent()
        await board.passes(LIMIT + 2 * LATE)  # the answer comes meanwhile, and is read some turns later
        assert not board.failed
        future.set_result(Answer(0.01, {}))
        await board.passes(3 * LIMIT)
        assert not board.failed
        board.sent()
        await board.passes(LIMIT + 2 * LATE)
        await board.passes(1.1 * LIMIT)
        assert board.failed == [HANGS], "it has had its time again"

    within(run())


def test_a_worker_gets_back_the_time_without_a_processor(within: Within) -> None:
    """Other programs on the computer would have boards killed that do nothing wrong."""

    async def run() -> None:
        board = Timed()
        board.sent()
        board.worker.seconds = 0.6 * LIMIT
        await board.passes(1.1 * LIMIT)
        await board.passes(0.5 * LIMIT)
        assert not board.failed
        await board.passes(0.2 * LIMIT)
        assert board.failed == [HANGS]

    within(run())
