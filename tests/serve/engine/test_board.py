"""When a board is taken for hung."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.process import Answer
from cnna.serve.engine.board import LATE, Board, Limits

Within = Callable[[Coroutine[Any, Any, None]], None]
LIMIT = 0.05


class Timed(Board):
    """A board without a worker; `failed` says why it was given up."""

    def __init__(self) -> None:
        super().__init__(BoardSpec("a"), Limits(), list, lambda: None, lambda *_, **__: None)
        self._life.cancel()
        self.failed = asyncio.get_running_loop().create_future()

    def fail(self, cause: str, busy: bool = False) -> None:
        self.failed.set_result(cause)

    def sent(self) -> "asyncio.Future[Answer]":
        return self._timed(asyncio.get_running_loop().create_future(), LIMIT)


def test_no_answer_in_time_is_a_hang(within: Within) -> None:
    """Requests of a board that hangs would wait until their deadlines."""

    async def run() -> None:
        board = Timed()
        board.sent()
        assert await board.failed == f"it hangs: no answer in {LIMIT:.2f} s"

    within(run())


def test_a_front_that_stood_still_does_not_blame_the_board(within: Within) -> None:
    """A computer that stops for a moment would kill all of its boards, and again when they come back."""

    async def run() -> None:
        board = Timed()
        future = board.sent()
        time.sleep(LIMIT + 2 * LATE)  # this loop stands still; the answer comes meanwhile, and is read some turns later
        for _ in range(5):
            await asyncio.sleep(0)
        future.set_result(Answer(0.01, {}))
        await asyncio.sleep(3 * LIMIT)
        assert not board.failed.done()

    within(run())
