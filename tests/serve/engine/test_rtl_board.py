"""A board of the kind `rtl`: the generated Verilog answers, and a long build is not taken for a hang."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import Answer
from cnna.serve.engine.board import EngineBoard

Images = NDArray[np.float32]


@pytest.mark.cosim
def test_the_verilog_answers(repository: Path, images: Images, answers: Images) -> None:
    """Golden answers or those to clients would differ from the emulator's, or a simulator would stay behind its worker."""
    for batch in (4, 8):
        (repository / "digits" / "1" / f"tiny-b{batch}.cnna").unlink()
    said: list[tuple[str, Any]] = []
    with Engine(repository, ["v=rtl"], log=lambda level, event, **more: said.append((event, more.get("cause")))) as engine:
        asked = [engine.submit("digits", {"image": images[number : number + 1]}) for number in range(3)]
        assert [np.array_equal(one.result().outputs["logits"], answers[n : n + 1]) for n, one in enumerate(asked)] == [True] * 3
        board = engine.core.board("v")
        assert board is not None
        assert board.life.batches == 3
        assert board.life.resets == 0
    assert [event for event, _ in said if event != "board says"] == ["board ready", "version ready", "switched"]


def test_a_sign_of_life_renews_the_limit_of_a_load_alone(within: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    """The first board of a configuration would be killed while its simulator is built; a batch must not go on for ever."""
    events: list[tuple[str, str]] = []

    def log(level: str, event: str, **more: Any) -> None:
        events.append((event, more["board"]))

    async def life() -> None:
        loop = asyncio.get_running_loop()
        limits = Limits(pause_seconds=(60.0, 60.0))
        board = EngineBoard(BoardSpec("v"), limits, list, lambda: None, log)
        await board.settled.wait()
        assert board.worker is not None
        for load in (True, False):
            command: asyncio.Future[Answer] = loop.create_future()
            board.worker.watch.timed(command, 60.0, renewed=load)
            before = board.worker.watch.timer
            board.told({"said": "building the simulator"} if load else {"alive": True})
            assert (board.worker.watch.timer is not before) == load
            command.set_result(Answer(0.0, {}))
            await asyncio.sleep(0)
        await board.close()

    within(life())
    assert events == [("board ready", "v"), ("board says", "v")]
