"""Waits for the end of a run on a board: polls at little cost, and gives up if there is no progress or the run takes too long.

The limit of a run is in clocks, because a simulated board needs more seconds for them. Only a standstill is limited in seconds.
"""

import time
from collections.abc import Callable

from cnna.spec.device import Readable, state_of
from cnna.spec.errors import TimedOutError
from cnna.spec.regmap import COUNTED, offset

POLL_SECONDS = (50e-6, 10e-3)  # between two reads of STATUS, at least and at most
POLL_PART = 1 / 16  # a pause lasts this fraction of the time waited so far, so polling lengthens a run by at most that
PROGRESS_SECONDS = 0.2  # between two checks of its progress
PROGRESS = tuple(offset(name) for name in ("CYCLES", "PC", *(f"DONE_{engine.upper()}" for engine in COUNTED)))


def pause_seconds(waited_seconds: float) -> float:
    """The pause before the next poll, from how long the run has taken so far."""
    return min(POLL_SECONDS[1], max(POLL_SECONDS[0], POLL_PART * waited_seconds))


def await_end(device: Readable, ended: Callable[[], bool], timeout_seconds: float, limit_clocks: int | None) -> None:
    """Returns when the run has `ended`. TimedOutError: no progress for `timeout_seconds`, or over `limit_clocks`; says where."""
    last, began = None, time.monotonic()
    since = looked = now = began
    while not ended():
        time.sleep(pause_seconds(now - began))
        now = time.monotonic()
        if now - looked < PROGRESS_SECONDS:
            continue
        looked, progress = now, tuple(map(device.read, PROGRESS))
        if progress != last:
            last, since = progress, now
        elif now - since > timeout_seconds and not ended():
            raise standstill(device, timeout_seconds, progress[0])
        if limit_clocks is not None and progress[0] > limit_clocks and not ended():
            raise late(device, progress[0], limit_clocks)


def standstill(device: Readable, timeout_seconds: float, clocks: int) -> TimedOutError:
    """The error of a run without progress, and where it stands."""
    return _hangs(device, f"no progress for {timeout_seconds:g} s, after {clocks:,} clocks")


def late(device: Readable, clocks: int, limit_clocks: int) -> TimedOutError:
    """The error of a run that takes too many clocks, and where it stands."""
    return _hangs(device, f"it has not ended after {clocks:,} clocks; the limit is {limit_clocks:,}")


def _hangs(device: Readable, how: str) -> TimedOutError:
    return TimedOutError(f"the accelerator hangs: {how}; {state_of(device)}")
