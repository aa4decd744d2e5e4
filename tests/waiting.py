"""Waiting in tests for a condition and not for a time: slow machines get the time, and quick ones do not wait."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 600.0  # for a busy machine: it ends a test that would otherwise hang
LOOK_SECONDS = 0.01


def until(condition: Callable[[], object], otherwise: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Returns when the condition holds. AssertionError: it does not hold in time; says `otherwise`."""
    end = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(LOOK_SECONDS)
