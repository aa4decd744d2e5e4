"""Ctrl-C in the middle of a call is kept until the call's end, once, so that the connection of stock pynq survives."""

import signal
import threading

import pytest

from cnna.host.board.deferred_signals import signals_deferred


def test_the_first_signal_waits_for_the_end():
    """If a call is broken off in the middle, gRPC keeps a lock for ever."""
    done = []

    def call():
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("to the end")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_does_not():
    """A board that never answers must not hold its user."""
    done = []

    def call():
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("the first is kept")
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert done == ["the first is kept"]


def test_other_threads_set_no_handlers():
    """Python refuses to set handlers there."""
    caught = []

    def call():
        try:
            with signals_deferred():
                pass
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not caught
