"""Waiting in tests: for a condition, not for a time, so that a slow machine is waited for and a quick one is not kept waiting."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0  # of a machine with much else to do
LOOK_SECONDS = 0.01


def until(condition: Callable[[], object], otherwise: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Returns when the condition holds. AssertionError: it does not within the patience; says `otherwise`."""
    end = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(LOOK_SECONDS)
