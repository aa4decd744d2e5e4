"""The requests that are open, and how they end: each once, with its answers or with an error."""

import asyncio
import time
from collections.abc import Callable

from cnna.serve.requests.history import History
from cnna.serve.requests.request import Request, Result
from cnna.spec.errors import BusyError, CnnaError, LateError


class OpenRequests:
    """Those that were admitted and have not ended. `succeed` and `fail` are the only ends; what comes later is dropped.

    history: counts and logs what becomes of them. changed: is called when a deadline has made room. The log comes last: its disk
    may be full.
    """

    def __init__(self, history: History, changed: Callable[[], None]) -> None:
        self._history, self._changed = history, changed
        self._open: set[Request] = set()
        self._none = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, request: Request, let_go: Callable[[], None]) -> None:
        """Keeps a request until it has ended. let_go: is called then."""
        timer = asyncio.get_running_loop().call_at(request.deadline, self._late, request)
        self._open.add(request)

        def ended(_: "asyncio.Future[Result]") -> None:
            timer.cancel()
            let_go()
            self._open.discard(request)
            if not self._open:
                self._none.set()

        request.future.add_done_callback(ended)

    def of(self, model: str, version: str) -> list[Request]:
        """Those to a version."""
        return [one for one in self._open if (one.model, one.version) == (model, version)]

    def succeed(self, request: Request) -> None:
        """Gives a request its answers, which are all there, and counts it.

        A pipeline's last step and its deadline may come in one round of the loop.
        """
        if request.future.done():
            return
        now, stats, seconds = asyncio.get_running_loop().time(), request.stats, request.run_seconds
        waited = (request.begun or now) - request.admitted
        about = request.model, request.version
        result = Result(*about, request.outputs, waited, seconds, request.runtime, request.labels, request.detects)
        request.future.set_result(result)
        stats.succeeded += 1
        stats.samples += request.samples
        stats.waits.add(waited)
        stats.runs.add(seconds)
        stats.scale_seconds += request.scale_seconds
        stats.decode_seconds += request.decode_seconds
        stats.totals.add(now - request.admitted)
        stats.last = time.time()
        self._history.answered(request.model, request.samples, request.within)
        if request.spare:
            stats.fallbacks[request.runtime] += 1
            known = {"request_id": request.request_id, "model": request.model, "version": request.version}
            self._history.note("warning", "answered by the fallback", runtime=request.runtime, cause=request.spare, **known)

    def fail(self, request: Request, error: CnnaError, cause: str) -> None:
        """Fails a request as a whole; what other batches answer of it is dropped."""
        if request.future.done():
            return
        request.future.set_exception(error)
        request.future.exception()  # a client that has gone is not told
        request.stats.failed[cause] += 1
        request.stats.failed_seconds += asyncio.get_running_loop().time() - request.admitted
        if not request.within:
            self._history.failed()
        known = {"request_id": request.request_id, "model": request.model, "version": request.version}
        self._history.note("error", "request failed", cause=str(error), **known)

    def lose(self, model: str, version: str, reason: str) -> None:
        """No board is left for a version: requests that are bound to it can have no answer."""
        for request in self.of(model, version):
            self.fail(request, BusyError(f"model {model}, version {version} is unavailable: {reason}"), "lost")

    def close(self) -> None:
        """The server ends: so do all."""
        for request in list(self._open):
            self.fail(request, BusyError("the server is closed"), "closed")

    async def wait(self, seconds: float) -> bool:
        """Waits until all have ended. Whether they did in time."""
        self._none.clear()
        if self._open:
            try:
                await asyncio.wait_for(self._none.wait(), seconds)
            except asyncio.TimeoutError:
                return False
        return True

    def _late(self, request: Request) -> None:
        seconds = request.deadline - request.admitted
        doing = "waited for a board" if request.begun is None else "ran"
        error = LateError(f"model {request.model}: no answer within its deadline of {seconds:g} s; it {doing}")
        self.fail(request, error, "deadline")
        self._changed()
