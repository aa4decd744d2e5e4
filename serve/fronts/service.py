"""An engine and its fronts until a signal, and an end in order: unready, drained for at most DRAIN_SECONDS, closed.

A second signal ends it at once.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cnna.serve.engine.core import Core

DRAIN_SECONDS = 30.0
SAME_SECONDS = 10.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Front(Protocol):
    """What listens to clients."""

    async def start(self) -> str:
        """Listens, and returns the address."""

    async def stop(self) -> None:
        """Ends."""


async def serve(core: Core, fronts: Sequence[Front], say: Callable[[str], Any] = print) -> None:
    """Serves until SIGINT or SIGTERM. Fronts listen before models are loaded, so that health can be asked for.

    UserError: an address cannot be listened at.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(Unexpected(core.log))
    for number in SIGNALS:
        loop.add_signal_handler(number, _asked_to_end, stopping)
    started: list[Front] = []
    try:
        addresses = []
        core.starting = True
        for front in fronts:
            addresses.append(await front.start())
            started.append(front)
        starting, ending = asyncio.create_task(core.start()), asyncio.create_task(stopping.wait())
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            say(f"serving on {' and '.join(addresses)}")
            core.log("info", "serving", addresses=addresses)
            await ending
        core.log("info", "draining")
        drained = await core.drain(DRAIN_SECONDS)
        starting.cancel()
        core.log("info", "ended", drained=drained)
    finally:
        for front in started:
            await front.stop()
        await core.close()
        for number in SIGNALS:
            loop.remove_signal_handler(number)


class Unexpected:
    """Logs errors that nobody waits for, such as a connection that cannot be accepted, each once in SAME_SECONDS at most.

    asyncio would write a traceback for each into the log.
    """

    def __init__(self, log: Callable[..., None], clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock, self._last = log, clock, ("", 0.0)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        cause = f"{context['message']}: {type(error).__name__}: {error}" if error is not None else context["message"]
        last, since = self._last
        if cause != last or self._clock() - since >= SAME_SECONDS:
            self._last = cause, self._clock()
            self._log("error", "internal error", cause=" ".join(str(cause).split()))


def _asked_to_end(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(128 + signal.SIGTERM)  # a second signal; workers end with their sockets
    stopping.set()
