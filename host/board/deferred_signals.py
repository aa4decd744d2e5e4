"""Calls of pynq: what they raise in our words, and, over the network, not broken off by Ctrl-C in the middle.

gRPC for Python takes a lock that an exception from a signal's handler can leave taken: every later call of the process then waits
for ever (grpc issues 19973 and 3820). So the signal is kept until the call has ended, and raised then; a second one is not kept.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from cnna.spec.errors import RunError, reason_of

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """A block in the course of which the first signal is kept. Only the main thread is told of signals, so others need none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}

    def keep(number: int, frame: FrameType | None) -> None:
        if came:
            handlers[signal.Signals(number)](number, frame)
        came.append(number)

    try:
        for number in handlers:
            signal.signal(number, keep)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            handlers[signal.Signals(came[0])](came[0], None)


@contextmanager
def reporting_failures(doing: str, place: int | str, remote: bool) -> Iterator[None]:
    """Makes a RunError of whatever pynq, its network or the kernel raises at a register, an address or something with a name.

    `remote`: pynq asks over the network, so Ctrl-C waits for the answer.
    """
    try:
        with signals_deferred() if remote else nullcontext():
            yield
    except RunError:
        raise
    except Exception as error:
        where = place if isinstance(place, str) else f"{place:#x}"
        raise RunError(f"the board failed at {doing} {where}: {reason_of(error)}") from None
