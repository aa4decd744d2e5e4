"""Signals that end a command: each becomes an exception that unwinds the command, but never in the middle of an import.

An exception that a handler raises while a C extension is initialised is lost, or turns into an ImportError; numpy, onnx and gRPC
show both. So a signal that arrives during an import is sent again a little later, until no import is under way.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)  # these end a command by an exception, as Ctrl-C does
SERVING = (signal.SIGINT, signal.SIGTERM)  # these end a server without an error
AGAIN_SECONDS = 0.02
IMPORT = "<frozen importlib._bootstrap>"  # the file name in the frames of Python's import

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Makes a signal unwind the command, so that it ends the processes that it has started and removes its temporary folders.

    SIGINT raises KeyboardInterrupt; the other signals raise SystemExit with the shell's code.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        for other in ours:
            signal.signal(other, signal.SIG_IGN)  # once is enough: another signal must not stop the clean-up
        raise SystemExit(128 + number)

    main_thread = threading.current_thread() is threading.main_thread()  # only the main thread receives signals
    # Signals that nohup, or a program around us, has set otherwise stay as they are.
    usual = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(ENDING, signal.SIG_DFL)}
    ours = {number: before for number, before in usual.items() if main_thread and signal.getsignal(number) is before}
    handler = AfterImports(end)
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in ours.items():
            signal.signal(number, before)


class EndedError(BaseException):
    """A signal asks us to end. It is no Exception, so no `except Exception` on the way catches it."""


@contextmanager
def until_signal() -> Iterator[None]:
    """SIGINT and SIGTERM end the block in order and without an error; a second signal changes nothing."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in SERVING:
            signal.signal(each, signal.SIG_IGN)
        raise EndedError

    handler = AfterImports(end)
    before = {number: signal.signal(number, handler) for number in SERVING}
    try:
        yield
    except EndedError:
        pass
    finally:
        for number, own in before.items():
            signal.signal(number, own)


class AfterImports:
    """A signal handler that calls `handle` once no import is under way, except those that were when the handler was made."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.imports = _imports(sys._getframe())
        self.calls = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Python calls this in the main thread, between two of its instructions."""
        self.calls += 1
        if _imports(frame) > self.imports:
            threading.Thread(target=_send_again, args=(number,), daemon=True).start()
        else:
            self.handle(number, frame)


def _send_again(number: int) -> None:
    """Sends a signal until the handler in place has been called. That may be another handler by now, or not one of ours.

    Once is not enough: if a signal comes between the main thread's last instruction and the system call in which it then waits, it
    is seen only when that call returns.
    """
    time.sleep(AGAIN_SECONDS)
    while isinstance(handler := signal.getsignal(number), AfterImports):
        calls = handler.calls
        signal.pthread_kill(threading.main_thread().ident or 0, number)
        time.sleep(AGAIN_SECONDS)
        if handler.calls != calls:
            return


def _imports(frame: FrameType | None) -> int:
    """The number of frames of Python's import among this frame and its callers."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == IMPORT
        frame = frame.f_back
    return count
