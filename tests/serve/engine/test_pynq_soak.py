"""A soak on virtual boards: workers are killed and stopped under load; no request is lost, and every answer is right.

A turn that a killed worker leaves behind takes 9 s to pass on, so that a fault comes every 30 s in the long form.
"""

import fcntl
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits

from ...sim.board import stock
from ...sim.board.served import serving
from ...waiting import until

pytestmark = pytest.mark.slow
CLIENTS = 8
PATIENT = Limits(hang_seconds=2.0, pause_seconds=(0.2, 5.0), failures=1_000_000)  # no board is out for good
Images = NDArray[np.float32]


@pytest.fixture
def alone() -> Iterator[None]:
    """pynq keeps the last design's metadata in a file beside itself: other tests with stock pynq must wait."""
    with stock.LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ready(engine: Engine) -> dict[str, int]:
    """The workers of the boards that take batches, by board."""
    return {board.spec.name: board.pid for board in engine.core.boards if board.state == "ready" and board.pid is not None}


@pytest.mark.parametrize(("seconds", "every"), [(30, 10.0), (300, 30.0)])
def test_virtual_boards_are_killed_and_hang(
    repository: Path, images: Images, answers: Images, address: str, tmp_path: Path, alone: None, seconds: int, every: float
) -> None:
    """A request would be lost with its board, or get another one's answer from memory that a killed worker has left."""
    (repository / "digits" / "model.yaml").write_text("deadline_ms: 60000\nretries: 100\n")  # a busy computer is no fault
    overlay, places = stock.images(tmp_path), [f"{address.rpartition('.')[0]}.{number}" for number in (11, 12)]
    boards = [f"{name}=pynq:{place},overlay={overlay}" for name, place in zip("ab", places, strict=True)]
    stop, wrong, done, hurt, waited = threading.Event(), list[object](), Counter[str](), Counter[str](), [0.0]

    def ask(client: int) -> None:
        for turn in range(client, 1_000_000):
            if stop.is_set():
                return
            first, count, began = turn % 20, turn % 3 + 1, time.monotonic()
            try:
                outputs = engine.infer("digits", {"image": images[first : first + count]}).outputs
            except Exception as error:
                wrong.append(error)
                return
            done[str(client)] += 1
            waited.append(time.monotonic() - began)
            if not np.array_equal(outputs["logits"], answers[first : first + count]):
                wrong.append((client, turn))

    with ExitStack() as held:
        for place in places:
            held.enter_context(serving(place))
        engine = held.enter_context(Engine(repository, boards, PATIENT))
        clients = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            end = time.monotonic() + seconds
            for turn in range(int(seconds / every)):
                until(lambda: len(ready(engine)) == 2, "a board does not come back")
                name, sent = "ab"[turn // 2 % 2], (signal.SIGKILL, signal.SIGSTOP)[turn % 2]
                os.kill(ready(engine)[name], sent)
                hurt[sent.name] += 1
                time.sleep(every)
            until(lambda: len(ready(engine)) == 2, "a board does not come back")
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            stop.set()
            for client in clients:
                client.join()
        resets = sum(board.life.resets for board in engine.core.boards)
    print(f"{dict(hurt)}, {resets} resets, {done.total()} requests, the slowest {max(waited):.1f} s")
    assert not wrong
    assert len(done) == CLIENTS
    assert resets >= hurt.total()
