"""How the end of a run on a board is waited for: by looks that cost little, until nothing moves any more or it takes too long.

Clocks are the limit of a run, since a simulated board's second is longer; seconds only where nothing moves at all.
"""

import time
from collections.abc import Callable

from cnna.spec.device import Readable, state_of
from cnna.spec.errors import TimedOutError
from cnna.spec.regmap import COUNTED, offset

POLL_SECONDS = (50e-6, 10e-3)  # between two looks at STATUS, at least and at most
POLL_PART = 1 / 16  # of the time that a run has taken so far: as much longer than need be may it seem
PROGRESS_SECONDS = 0.2  # between two looks at how far it is
PROGRESS = tuple(offset(name) for name in ("CYCLES", "PC", *(f"DONE_{engine.upper()}" for engine in COUNTED)))


def pause_seconds(waited_seconds: float) -> float:
    """How long to wait for the next look at a run that has been waited for so long."""
    return min(POLL_SECONDS[1], max(POLL_SECONDS[0], POLL_PART * waited_seconds))


def await_end(device: Readable, ended: Callable[[], bool], timeout_seconds: float, limit_clocks: int | None) -> None:
    """Returns when it has `ended`. TimedOutError: it stood still for `timeout_seconds`, or ran beyond `limit_clocks`; where."""
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
            raise _hangs(device, f"nothing has moved for {timeout_seconds:g} s, its clock of cycles at {progress[0]:,}")
        if limit_clocks is not None and progress[0] > limit_clocks and not ended():
            raise _hangs(device, f"it has not ended after {progress[0]:,} clocks, {limit_clocks:,} are the limit")


def _hangs(device: Readable, how: str) -> TimedOutError:
    return TimedOutError(f"the accelerator hangs: {how}; {state_of(device)}")
