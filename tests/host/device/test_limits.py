"""Numbers that make no sense are refused in a line that names them, before anything is opened."""

from typing import Any

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.host.device.limits import seconds, whole
from cnna.host.model.board_model import BoardModel
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.errors import DataError

from ..hand_made import requantised_copy


def test_numbers_of_any_sound_kind_are_taken() -> None:
    """A loop over arrays gives numpy's numbers."""
    assert whole("n", np.int64(3), 0, 3) == 3
    assert seconds("s", np.float32(0.5)) == 0.5
    assert seconds("s", 0, zero=True) == 0


@pytest.mark.parametrize("value", [-1, 4, 1.0, "1", True, None])
def test_a_count_that_is_none(value: object) -> None:
    """True is not 1, nor is 1.0: a caller who gives these means another parameter."""
    with pytest.raises(DataError, match=r"n is .*: it must be a whole number within 0\.\.3"):
        whole("n", value, 0, 3)


@pytest.mark.parametrize("value", [-1, 0, float("nan"), float("inf"), "5", True, None])
def test_a_time_that_is_none(value: object) -> None:
    """Not a number is neither below nor above any limit."""
    with pytest.raises(DataError, match=r"s is .*: it must be above 0 to 1,000,000 seconds"):
        seconds("s", value)


@pytest.mark.parametrize(
    "options", [{"retries": -1}, {"retries": 0.5}, {"timeout_seconds": 0}, {"timeout_seconds": float("nan")}, {"turn_seconds": -1}]
)
def test_a_model_refuses_them(options: dict[str, Any]) -> None:
    """With retries=-1 no run would be waited for, and its answer would be whatever lay there."""
    with pytest.raises(DataError, match=f"{next(iter(options))} is "):
        BoardModel(requantised_copy(), None, **options)


@pytest.mark.parametrize(("name", "options"), [("slots", {"slots": 0}), ("watchdog_clocks", {"watchdog_clocks": -1})])
def test_an_accelerator_refuses_them(name: str, options: dict[str, int]) -> None:
    """Without a slot the first run would end in an IndexError."""
    with pytest.raises(DataError, match=f"{name} is "):
        Accelerator(EmulatorDevice(preset("tiny"), 1 << 20), requantised_copy().program, **options)


def test_an_artifact_made_in_memory_is_looked_at_too() -> None:
    """An artifact from a file was checked when it was read, but this one was not."""
    made = requantised_copy().program
    made.manifest["batch"] = -2
    with pytest.raises(DataError, match="batch is -2: "):
        Accelerator(EmulatorDevice(preset("tiny"), 1 << 20), made)
