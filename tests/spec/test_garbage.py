"""The search for garbage is held back, or begins seldom, within a block alone."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cnna.spec.garbage import SELDOM, held_back, search_no_more, seldom


@held_back()
def refused():
    assert not gc.isenabled()
    raise ValueError("refused")


def test_the_search_is_on_again_behind_an_error():
    """A model that does not compile would leave a server without it for good."""
    with pytest.raises(ValueError, match="refused"):
        refused()
    assert gc.isenabled()


def test_what_the_caller_has_switched_off_stays_off():
    gc.disable()
    try:
        with held_back(), held_back():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@contextmanager
def searches() -> Iterator[list[int]]:
    """The generations of the searches that begin within the block, with Python's own thresholds and nothing frozen."""
    was, found = gc.get_threshold(), list[int]()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.unfreeze()
    gc.collect()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*was)


def test_a_search_begins_seldom_and_not_at_once_behind_the_block():
    with searches() as found:
        with seldom():
            assert gc.get_threshold() == (SELDOM, 10, 10)
            made = [[] for _ in range(100_000)]
        between = len(found)
        assert gc.get_threshold() == (700, 10, 10)
        made += [[] for _ in range(10_000)]
        assert between == 0
        assert set(found) == {0, 1}
    assert len(made) == 110_000


def test_what_is_rarer_or_off_stays_so():
    with searches():
        for threshold in (0, 2 * SELDOM):
            gc.set_threshold(threshold, 7, 7)
            with seldom(), seldom():
                assert gc.get_threshold() == (threshold, 7, 7)
            assert gc.get_threshold() == (threshold, 7, 7)


def test_what_is_frozen_stays_frozen():
    with searches():
        gc.freeze()
        count = gc.get_freeze_count()
        with seldom():
            pass
        assert gc.get_freeze_count() == count
        gc.unfreeze()


def test_nothing_is_searched_at_the_end():
    """As of a process's end, which searches all that is left."""
    with searches():
        dropped: list[object] = []
        dropped.append(dropped)
        del dropped
        search_no_more()
        assert gc.collect() == 0
        gc.unfreeze()
        assert gc.collect() > 0
