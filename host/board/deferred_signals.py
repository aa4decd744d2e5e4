"""Wraps calls of pynq: their errors become RunErrors, and Ctrl-C does not interrupt a call over the network.

gRPC for Python takes a lock that stays locked if a signal handler raises inside a call. Every later call of the process then waits
forever (grpc issues 19973 and 3820). So a signal is held back until the call has ended, and is delivered then. A second signal is
delivered at once.
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
    """Holds the first signal back until the block ends. Only the main thread receives signals; in others this does nothing."""
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
    """Turns every error of pynq, its network or the kernel into a RunError that says what was being done, and where.

    place: a register's offset, an address or a name. remote: whether pynq works over the network, so that Ctrl-C must wait for the
    answer.
    """
    try:
        with signals_deferred() if remote else nullcontext():
            yield
    except RunError:
        raise
    except Exception as error:
        where = place if isinstance(place, str) else f"{place:#x}"
        raise RunError(f"the board failed at {doing} {where}: {reason_of(error)}") from None
