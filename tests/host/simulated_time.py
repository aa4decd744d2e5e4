"""Processes and threads in simulated time: one runs at a time, and long waits take no time of the test."""

import heapq
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace


class Killed(BaseException):
    """Ends a task that is left when the simulation ends, or whose process was killed."""


class Process:
    """Tasks that stand still, or are killed, together."""

    def __init__(self) -> None:
        self.frozen_until, self.killed = 0.0, False


class Simulation:
    """Stands for `time` and `threading` in tasks that `spawn` begins; `run` runs them to their end."""

    def __init__(self) -> None:
        self.now, self.ended = 1000.0, False
        self._waiting: list[tuple[float, int, _Task]] = []
        self._numbers = itertools.count()
        self.task: object = None  # the task that runs now
        self._main = threading.Semaphore(0)
        self._failures: list[BaseException] = []
        self.time = SimpleNamespace(
            sleep=self.sleep, monotonic=lambda: self.now, clock_gettime=lambda clock: self.now, CLOCK_MONOTONIC=1
        )
        self.threading = SimpleNamespace(Lock=lambda: _Lock(self), Event=lambda: _Event(self), Thread=self._thread)

    def spawn(self, work: Callable[[], object], process: Process) -> None:
        """Begins a task of a process."""
        task = _Task(process)

        def whole() -> None:
            task.turn.acquire()
            try:
                if not self.ended:
                    work()
            except Killed:
                pass
            except BaseException as error:
                self._failures.append(error)
            self._main.release()

        threading.Thread(target=whole, daemon=True).start()
        self._wake(task, self.now)

    def sleep(self, seconds: float) -> None:
        """Lets the task that runs sleep; others go on meanwhile."""
        task = self.task
        assert isinstance(task, _Task)
        self._wake(task, self.now + seconds)
        self._main.release()
        task.turn.acquire()
        if self.ended or task.process.killed:
            raise Killed

    def run(self, until: Callable[[], bool], limit_seconds: float) -> None:
        """Runs all tasks until the condition holds. AssertionError: it takes longer. Other errors are the tasks'."""
        begun = self.now
        while self._waiting and not until() and not self._failures:
            when, _, task = heapq.heappop(self._waiting)
            if task.process.frozen_until > max(when, self.now) and not task.process.killed:
                self._wake(task, task.process.frozen_until)
                continue
            self.now = max(self.now, when)
            assert self.now - begun < limit_seconds, "somebody waits for ever"
            self._step(task)
        self.ended = True
        while self._waiting:
            self._step(heapq.heappop(self._waiting)[2])
        for failure in self._failures:
            raise failure

    def _step(self, task: "_Task") -> None:
        self.task = task
        task.turn.release()
        self._main.acquire()

    def _wake(self, task: "_Task", when: float) -> None:
        heapq.heappush(self._waiting, (when, next(self._numbers), task))

    def _thread(self, target: Callable[..., object], args: tuple[object, ...], **_: object) -> SimpleNamespace:
        assert isinstance(self.task, _Task)
        process = self.task.process
        return SimpleNamespace(start=lambda: self.spawn(lambda: target(*args), process))


class _Task:
    def __init__(self, process: Process) -> None:
        self.process, self.turn = process, threading.Semaphore(0)


class _Lock:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.taken = simulation, False

    def __enter__(self) -> None:
        while self.taken:
            self.simulation.sleep(0.001)
        self.taken = True

    def __exit__(self, *_: object) -> None:
        self.taken = False


class _Event:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.was_set = simulation, False

    def set(self) -> None:
        self.was_set = True

    def is_set(self) -> bool:
        return self.was_set

    def wait(self, seconds: float) -> bool:
        self.simulation.sleep(seconds)
        return self.was_set
