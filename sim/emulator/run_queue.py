"""The emulator's queue of runs: starts that wait, and what is counted of programs that have ended.

The host of a virtual board queues starts while another thread plays a program, so a lock guards all of this.
"""

import threading
from collections.abc import Mapping

from cnna.spec.errors import RunError
from cnna.spec.regmap import PLACES, REGISTERS, RUN_REGISTERS

Words = Mapping[str, int]  # of registers, by name
MOST_DROPPED = (1 << REGISTERS["QUEUE"].fields[1].bits) - 1
COUNTS = ("PC", *(name for name, register in REGISTERS.items() if register.block == "counters"))


def snapshot(registers: Words) -> Words:
    """What a start takes."""
    return {name: registers[name] for name in RUN_REGISTERS}


class RunQueue:
    """Snapshots of the run registers, in the order in which their programs begin.

    `lock` also guards what both threads change in the emulator's STATUS. `last` has the counters and PC of the program before the
    one from the queue that runs.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.finished = 0
        self.last: Words = {}
        self._waiting: list[Words] = []
        self._dropped = 0
        self._queued = False

    @property
    def pending(self) -> int:
        """How many starts wait."""
        return len(self._waiting)

    @property
    def word(self) -> int:
        """The register QUEUE."""
        with self.lock:
            fields = {"pending": min(self.pending, PLACES), "dropped": self._dropped, "places": PLACES, "queued": int(self._queued)}
            return REGISTERS["QUEUE"].pack(**fields)

    def check_write(self, name: str, busy: bool) -> None:
        """RunError: the register may not be written now, because no place is free for a start with its new word.

        Where no program is busy, the next one is about to free a place. An accelerator holds the write until then.
        """
        if name in (*RUN_REGISTERS, "CTRL") and self.pending >= PLACES + (not busy):
            raise RunError(f"the accelerator answers SLVERR to {name}: {PLACES} queued starts are pending")

    def add(self, words: Words, busy: bool) -> None:
        """Adds a start, while a program is busy or not. RunError: no place is free."""
        with self.lock:
            self.check_write("CTRL", busy)
            self._waiting.append(words)

    def drop(self) -> None:
        """Counts a start that came after an error."""
        with self.lock:
            self._dropped = min(self._dropped + 1, MOST_DROPPED)

    def take(self) -> Words | None:
        """The next start's snapshot."""
        with self.lock:
            return self._waiting.pop(0) if self._waiting else None

    def begin(self, before: Words | None) -> None:
        """A program begins. before: what `last` holds while it runs, if it comes from the queue."""
        with self.lock:
            self._queued, self._dropped = before is not None, 0
            self.last = before or {}

    def end(self, finished: bool) -> None:
        """A program has ended. One that an error has stopped drops what waits."""
        with self.lock:
            self._queued = False
            self.last = {}
            if finished:
                self.finished = (self.finished + 1) % (1 << 32)
            else:
                self._dropped, self._waiting = self.pending, []

    def reset(self) -> None:
        """A soft reset: nothing waits."""
        with self.lock:
            self._queued, self._dropped, self._waiting, self.last = False, 0, [], {}
