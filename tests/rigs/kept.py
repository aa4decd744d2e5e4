"""What takes long to make, kept in the user's cache folder under a digest of all that it depends on, and made by one process."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from cnna.sim.rtl.build import drop, locked
from cnna.sim.rtl.cache import private, prune, use
from cnna.sim.rtl.lifetime import scratch

READY = "ready"
LOCK = ".lock"


def kept(cache: Path, parts: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The file or folder READY that `make` leaves in the folder it gets. It is made once for these parts.

    Others who want the same at that time wait: a run of the tests has several processes.
    """
    place = private(cache) / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    if use(place):
        return place
    with locked(place, lambda _: None):
        if not use(place):
            with scratch("building-", cache) as work:
                make(work)
                (work / READY).rename(place)  # complete or not at all
            prune((entry for entry in cache.iterdir() if entry.suffix != LOCK), drop)
    return place
