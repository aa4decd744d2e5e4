"""Holds back the search for garbage in cycles while much is made that stays: plans of a network, or the parts of a circuit.

These are hundred thousands of small objects, or millions, which live to the end. Each search walks through all of them and finds
nothing: a fifth of the processor seconds of a large network's plans, and half of those of `zcu102`'s Verilog.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
