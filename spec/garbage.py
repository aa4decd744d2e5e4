"""Holds back the search for garbage in cycles while much is made that stays: plans of a network, or the parts of a circuit.

These are hundred thousands of small objects, or millions, which live to the end. Each search walks through all of them and finds
nothing: a fifth of the processor seconds of a large network's plans, and half of those of `zcu102`'s Verilog.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 3_000_000  # objects made and not dropped until the next search: of 100 bytes each or more


@contextmanager
def held_back() -> Iterator[None]:
    """No search begins by itself within the block, in any thread. Behind it all is as before."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def seldom() -> Iterator[None]:
    """A search begins only after SELDOM new objects within the block, in any thread.

    It is for work that may take hours, where garbage must not pile up. Behind the block all is as before. What was made then counts
    as old, because it would be searched at once otherwise.
    """
    was = gc.get_threshold()
    search_seldom()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # those that are left out of all searches stay so
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*was)


def search_seldom() -> None:
    """As `seldom` does, from here to the end of the process. A search that is switched off stays off."""
    first, *others = gc.get_threshold()
    gc.set_threshold(first and max(first, SELDOM), *others)


def search_no_more() -> None:
    """Nothing that is there is searched again. At its end a process would search all of it, which then ends anyway."""
    gc.freeze()
