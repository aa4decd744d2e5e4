"""Work that is shared by processes behind `concurrent.futures.Executor`, none of which is lost if a process ends in the middle.

An executor breaks as a whole when one of its processes is killed. Then another one is opened, and does again what was under way.
"""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing import active_children, get_context, parent_process
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from cnna.spec.errors import ToolError
from cnna.spec.garbage import search_seldom, seldom

MOST_BREAKS = 5  # one after another, without a result between them
FILES = 10  # that are open for a process, and some to spare; it was seen to need 8
USUAL_FILES = 256  # that the process itself may open
AHEAD = 2  # pieces of work for each process of a cluster: one that it does, and one that waits for it

Item = TypeVar("Item")
Result = TypeVar("Result")
Taken = ParamSpec("Taken")


class Here(Executor):
    """Does the work where it is handed in, at once."""

    def submit(self, fn: Callable[Taken, Result], /, *args: Taken.args, **kwargs: Taken.kwargs) -> "Future[Result]":
        """As of every executor; what the work raises is raised here."""
        future: Future[Result] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Processes(Executor):
    """Processes of this machine, each of which does one piece of work at a time. A piece goes to the free one whose last piece had
    an equal `near`, an attribute of its last argument: that process has kept what both need.
    """

    def __init__(self, count: int) -> None:
        """count: of processes at most. Each begins with its first piece of work, when all others are at work."""
        self._count = count
        self._each: list[ProcessPoolExecutor] = []
        self._last: list[tuple[Future[Any], Any]] = []  # by process, work and its `near`
        _allow_files(FILES * count)

    def submit(self, fn: Callable[Taken, Result], /, *args: Taken.args, **kwargs: Taken.kwargs) -> "Future[Result]":
        """As of every executor. Where no process is free, the first one does the work later. ToolError: none can begin."""
        near = getattr(args[-1], "near", None) if args else None
        free = [number for number, (future, _) in enumerate(self._last) if future.done()]
        try:
            if not free and len(self._each) < self._count:
                self._each.append(ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin))
                self._last.append((self._each[-1].submit(fn, *args, **kwargs), near))
                return self._last[-1][0]
            number = next((one for one in free if self._last[one][1] == near), (free or [0])[0])
            self._last[number] = self._each[number].submit(fn, *args, **kwargs), near
        except OSError as error:
            which = f"of {self._count} worker processes, {len(self._each)} are more than this machine allows"
            raise ToolError(f"{which} ({error.strerror}); fewer --jobs need less") from None
        return self._last[number][0]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of every executor."""
        for one in self._each:
            one.shutdown(wait=wait, cancel_futures=cancel_futures)


class Workers:
    """A context with an executor that does work. opened: opens one. width: pieces of work that are under way at the same time."""

    def __init__(self, opened: Callable[[], Executor], width: int) -> None:
        self._opened, self._width, self._breaks = opened, width, 0
        self._others = set(active_children())
        self._executor = opened()

    @classmethod
    def local(cls, jobs: int) -> "Workers":
        """So many processes of this machine; one is this process itself."""
        return cls(Here, 1) if jobs == 1 else cls(lambda: Processes(jobs), jobs)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._executor.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for process in set(active_children()) - self._others:
                process.terminate()  # nobody waits for what it does

    @seldom()
    def run(
        self,
        work: Callable[..., Result],
        items: Iterable[Item | None],
        done: Callable[[Item, Result], object],
        first: Sequence[Any] = (),
    ) -> None:
        """Does the work for each item, and hands every result to `done` as it comes. items: are asked for one by one, as late as
        can be; None says that the next one cannot begin before some result has come. first: arguments of the work before the item.
        ToolError: processes end again and again.
        """
        left, again, under_way = iter(items), deque[Item](), dict[Future[Result], Item]()
        while True:
            while len(under_way) < self._width:
                try:
                    item = again.popleft() if again else next(left)
                except StopIteration:
                    break
                if item is None:
                    break
                future = self._submitted(work, *first, item)
                if future is None:
                    again.appendleft(item)
                    break
                under_way[future] = item
            if not under_way and not again:
                return
            finished = wait(under_way, return_when=FIRST_COMPLETED).done if under_way else set()
            lost = [item for future, item in _taken(under_way, finished) if not self._handed(future, item, done)]
            if lost or not under_way:  # it is broken: all else that is under way ends too
                rest = list(_taken(under_way, wait(under_way).done))
                lost += [item for future, item in rest if not self._handed(future, item, done)]
            if lost:
                again.extend(lost)
                self._renew()

    def _submitted(self, work: Callable[..., Result], *arguments: Any) -> "Future[Result] | None":
        """None: the executor broke before it was told so."""
        try:
            return self._executor.submit(work, *arguments)
        except BrokenExecutor:
            self._renew()
            return None

    def _handed(self, future: "Future[Result]", item: Item, done: Callable[[Item, Result], object]) -> bool:
        """Hands a result on. False: there is none, since a process ended."""
        try:
            result = future.result()
        except BrokenExecutor:
            return False
        self._breaks = 0
        done(item, result)
        return True

    def _renew(self) -> None:
        self._breaks += 1
        self._executor.shutdown(wait=False)
        if self._breaks > MOST_BREAKS:
            raise ToolError(
                f"a worker process ended {self._breaks} times without a result, perhaps for want of memory; fewer --jobs need less"
            )
        self._executor = self._opened()


def _taken(under_way: "dict[Future[Result], Item]", finished: Iterable[Any]) -> "list[tuple[Future[Result], Item]]":
    """Those that have finished, in the order in which they were handed in; they are no longer under way."""
    ended = set(finished)
    return [(future, under_way.pop(future)) for future in list(under_way) if future in ended]


def _allow_files(count: int) -> None:
    """Allows so many open files for workers, beside the usual ones, as far as this process may."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = USUAL_FILES + count
        if 0 <= soft < wanted:
            with suppress(ValueError, OSError):  # some systems allow less than they say
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))


def _begin() -> None:
    """A worker leaves Ctrl-C to the process that it works for, and ends with it. It keeps most of what it makes."""
    search_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
