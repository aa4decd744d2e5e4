"""Workers are killed and stopped under load: no request is lost, and every answer is right."""

import os
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits

from .load import SETTINGS, Images, Load, resident, until

pytestmark = pytest.mark.soak
EVERY_SECONDS = 2.5  # a worker is killed or stopped: each of the two every 5 s
PATIENT = Limits(hang_seconds=1.0, pause_seconds=(0.2, 5.0), failures=1_000_000)  # no board is out for good


Worker = tuple[str, int]  # the board, and how often it was started before: a process's number may come again


def workers(engine: Engine) -> dict[Worker, int]:
    """The processes of the boards that take batches. For the engine's loop, which alone forgets those that have ended."""
    boards = [(one, one.worker) for one in engine.core.boards if one.state == "ready"]
    live = [(one, worker) for one, worker in boards if worker is not None and not worker.process.gone.is_set()]
    return {(one.spec.name, one.life.resets): worker.process.pid for one, worker in live if worker.process.pid is not None}


def hurt_one(engine: Engine, hurt: list[Worker], how: signal.Signals) -> bool:
    """Kills or stops a worker that was not hurt before; whether there was one."""
    unhurt = {worker: pid for worker, pid in workers(engine).items() if worker not in hurt}
    if unhurt:
        hurt.append(min(unhurt))
        os.kill(unhurt[hurt[-1]], how)
    return bool(unhurt)


@pytest.mark.parametrize("kind", ["emulator", "paced"])
def test_workers_are_killed_and_boards_hang(
    repository: Path, images: Images, answers: Images, kind: str, soak_seconds: float
) -> None:
    """A request would be lost with its board, or answered twice, or with another one's answer."""
    (repository / "digits" / "model.yaml").write_text(SETTINGS)
    events, hurt = Counter[str](), list[Worker]()

    def log(level: str, event: str, **more: Any) -> None:
        events[event] += 1

    with Engine(repository, [f"a={kind}", f"b={kind}"], PATIENT, log) as engine:
        load = Load(engine, images, lambda version: answers)
        before = resident()
        with load.running():
            for turn in range(max(4, int(soak_seconds / EVERY_SECONDS))):
                time.sleep(EVERY_SECONDS)
                hurts = partial(hurt_one, engine, hurt, (signal.SIGKILL, signal.SIGSTOP)[turn % 2])
                until(partial(engine.of_loop, hurts), "a board that is ready")
            until(lambda: events["board failed"] >= len(hurt), "a failure for each worker that was killed or stopped")
            until(lambda: len(engine.of_loop(lambda: workers(engine)).keys() - set(hurt)) == 2, "both boards are ready again")
    assert not load.wrong
    assert not load.refused
    hurting, failures = f"{len(hurt)} workers killed or stopped", f"{events['board failed']} failures"
    slowest, grown = f"the slowest answer after {load.slowest:.2f} s", f"{(resident() - before) / 1e6:+.1f} MB"
    print(f"{kind}: {load.versions.total()} requests, {hurting}, {failures}, {slowest}, {grown}")
