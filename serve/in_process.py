"""`Engine`: the same batcher and dispatcher for programs without an asyncio loop, such as notebooks.

with Engine("models/", boards=["left=emulator", "right=emulator"]) as engine:
    answer = engine.infer("digits", {"image": images})
print(answer.version, answer.outputs["logits"].argmax(1))
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from numpy.typing import NDArray

from cnna.serve.boards.board_spec import board_specs
from cnna.serve.boards.limits import Limits
from cnna.serve.engine.core import Core
from cnna.serve.models.repository import open_repository
from cnna.serve.requests.history import Log, silent
from cnna.serve.requests.request import Result
from cnna.spec.errors import BusyError

BOARDS = ("emulator=emulator",)
CLOSED = "the server is closed"
T = TypeVar("T")


class Engine:
    """Serves a repository, or one .cnna, inside this process. Any thread may use it; its loop has a thread of its own.

    boards: as `--board` of `cnna serve`. UserError: the path or a board is none. A model that cannot be served says why when it is
    asked for.
    """

    def __init__(
        self, path: str | os.PathLike[str], boards: Sequence[str] = BOARDS, limits: Limits | None = None, log: Log = silent
    ) -> None:
        self.core = Core(open_repository(Path(path)), board_specs(list(boards)), limits, log)
        self._loop = asyncio.new_event_loop()
        self._posting, self._closed = threading.Lock(), False  # nothing is given to the loop behind what ends it
        self._thread = threading.Thread(target=self._loop.run_forever, name="cnna-engine", daemon=True)
        self._thread.start()
        try:
            self._done(self.core.start())
        except BaseException:  # Ctrl-C too: nobody else could close it
            self.close()
            raise

    def submit(self, model: str, inputs: Mapping[str, NDArray[Any]], version: str | None = None, **more: Any) -> "Future[Result]":
        """Begins a request; `more` is as of `Core.admit`. The future's errors are those of `admit`, BusyError and LateError."""
        return self._posted(self._answer(model, inputs, version, more))

    def infer(self, model: str, inputs: Mapping[str, NDArray[Any]], version: str | None = None, **more: Any) -> Result:
        """The answer to a request."""
        return self.submit(model, inputs, version, **more).result()

    def load(self, model: str) -> None:
        """Reads a model's folder again: loads new versions and switches to them. A version that is refused keeps its reason."""
        self._done(self.core.catalogue.load(model))

    def unload(self, model: str) -> None:
        """Takes no more requests for a model; it answers those that it has."""
        self._done(self.core.catalogue.unload(model))

    def of_loop(self, make: Callable[[], Any]) -> Any:
        """What `make` returns in the engine's loop; awaited if it is a coroutine. For fronts of one's own."""

        async def made() -> Any:
            found = make()
            return await found if asyncio.iscoroutine(found) else found

        return self._done(made())

    def close(self) -> None:
        """Ends what is open, and the workers. What is called from now on ends in BusyError."""
        with self._posting:
            first, self._closed = not self._closed, True
        if first:
            try:
                asyncio.run_coroutine_threadsafe(self._ended(), self._loop).result()
            finally:
                self._stop()
        else:
            self._thread.join()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def _answer(self, model: str, inputs: Mapping[str, Any], version: str | None, more: Mapping[str, Any]) -> Result:
        return await self.core.admit(model, inputs, version, **more).future

    async def _ended(self) -> None:
        """Everything that was begun before ends too: nothing could end it when the loop has stopped."""
        await self.core.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _done(self, work: "Coroutine[Any, Any, T]") -> T:
        return self._posted(work).result()

    def _posted(self, work: "Coroutine[Any, Any, T]") -> "Future[T]":
        """Gives work to the loop."""
        with self._posting:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(self._kept(work), self._loop)
        work.close()
        refused: Future[T] = Future()
        refused.set_exception(BusyError(CLOSED))
        return refused

    async def _kept(self, work: "Coroutine[Any, Any, T]") -> T:
        """The work, whose caller waits for it in another thread."""
        try:
            return await work
        except asyncio.CancelledError:
            if self._closed:
                raise BusyError(CLOSED) from None
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
