"""The stages of the host's work that are counted, and the marks by which the measured program says which one begins.

It runs in the measured program too, so it imports nothing that a board lacks. `counter.cpp` reads the marks.
"""

import os
from collections.abc import Callable
from typing import Any

STAGES = (  # in the order of their numbers, which begin at 1; 0 is not counted
    "resize",  # of a camera's picture, and its crop; not part of a run
    "quantise",  # uint8 by tables, or floats by their scale
    "pack",  # into the port's layout, and into the accelerator's memory
    "cache",  # maintenance of cache lines before and after a run
    "start",  # registers that are set before a run, and the start
    "wait",  # what the host does once a run has ended: STATUS, errors, counters. The waiting itself is not counted
    "unpack",  # out of the accelerator's memory, and to floats
    "cpu",  # pieces on the CPU
    "python",  # around all of these
)
WHOLE = "whole"  # a run without the marks inside it: what `python` is the rest of
EMPTY, OUTSIDE = "empty", "outside"  # marks around a function that does nothing: what they add to a stage, and what lies around
MODES = ("stream", "single")  # one picture of a long stream; one picture alone, by `run`
NUMBERS = {"resize": 1}
for _mode in MODES:
    for _stage in (*STAGES[1:], WHOLE):
        NUMBERS[f"{_mode}.{_stage}"] = len(NUMBERS) + 1
for _name in (EMPTY, OUTSIDE):
    NUMBERS[_name] = len(NUMBERS) + 1

MARK, VALUE_BITS = 0x5A000000, 20  # of the descriptor that `isatty` is asked about
SET_STAGE, SHIFT_IN, REGION_BEGIN, REGION_END, CLEAN_LINES = range(5)
BUFFERS, REGISTERS = 1, 2  # regions of memory; 0: all other
LINE_BYTES = 64


def mark(kind: int, value: int) -> None:
    """Tells the plugin; costs a call of a built-in function."""
    os.isatty(MARK | kind << VALUE_BITS | value)


def mark_region(region: int, begin: int, size: int) -> None:
    """Says where the memory of a region is."""
    for kind, address in ((REGION_BEGIN, begin), (REGION_END, begin + size)):
        for shift in (40, 20, 0):
            mark(SHIFT_IN, address >> shift & 0xFFFFF)
        mark(kind, region)


class Marks:
    """The stage that is under way. A stage inside another one takes its counts from it."""

    def __init__(self) -> None:
        self.mode, self._now = MODES[0], 0

    def enter(self, number: int) -> int:
        """Begins a stage, or none (0), and returns the one before it."""
        before, self._now = self._now, number
        os.isatty(MARK | number)
        return before

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as a stage of whichever mode is under way. Where nothing is counted, it is not either."""
        numbers = {mode: NUMBERS[stage if stage in NUMBERS else f"{mode}.{stage}"] for mode in MODES}

        def marked(*args: Any, **options: Any) -> Any:
            if not self._now:
                return function(*args, **options)
            before = self.enter(numbers[self.mode])
            try:
                return function(*args, **options)
            finally:
                self.enter(before)

        return marked
