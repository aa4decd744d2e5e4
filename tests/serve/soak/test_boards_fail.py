"""Workers are killed and stopped under load: no request is lost, and every answer is right."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cnna.serve import Engine
from cnna.serve.engine.board import Limits

from .load import SETTINGS, Images, Load, until

pytestmark = pytest.mark.soak
EVERY_SECONDS = 2.5  # a worker is killed or stopped: each of the two every 5 s
PATIENT = Limits(hang_seconds=1.0, pause_seconds=(0.2, 5.0), failures=1_000_000)  # no board is out for good


def workers(engine: Engine) -> set[int]:
    """The processes of the boards that take batches."""
    return {board.pid for board in engine.core.boards if board.state == "ready" and board.pid is not None}


@pytest.mark.parametrize("kind", ["emulator", "paced"])
def test_workers_are_killed_and_boards_hang(
    repository: Path, images: Images, answers: Images, kind: str, soak_seconds: float
) -> None:
    """A request would be lost with its board, or answered twice, or with another one's answer."""
    (repository / "digits" / "model.yaml").write_text(SETTINGS)
    events, hurt = Counter[str](), list[int]()

    def log(level: str, event: str, **more: Any) -> None:
        events[event] += 1

    with Engine(repository, [f"a={kind}", f"b={kind}"], PATIENT, log) as engine:
        load = Load(engine, images, lambda version: answers)
        with load.running():
            for turn in range(max(4, int(soak_seconds / EVERY_SECONDS))):
                time.sleep(EVERY_SECONDS)
                until(lambda: bool(workers(engine) - set(hurt)), "a board that is ready")
                hurt.append(min(workers(engine) - set(hurt)))
                os.kill(hurt[-1], (signal.SIGKILL, signal.SIGSTOP)[turn % 2])
            until(lambda: events["board failed"] >= len(hurt), "a failure for each worker that was killed or stopped")
            until(lambda: len(workers(engine) - set(hurt)) == 2, "both boards are ready again")
    assert not load.wrong
    assert not load.refused
    print(f"{kind}: {load.versions.total()} requests, {len(hurt)} workers killed or stopped, {events['board failed']} failures")
