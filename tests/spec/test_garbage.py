"""The search for garbage is held back within a block alone."""

import gc

import pytest

from cnna.spec.garbage import held_back


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
