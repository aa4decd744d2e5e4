"""A million steps in the lives of versions and boards, others than those of the short test."""

import pytest

from ..lifecycle.machine import live

pytestmark = pytest.mark.soak
STEPS = 1_000_000


def test_a_million_steps(pytestconfig: pytest.Config) -> None:
    """A rare order of events would leave a request without an end, or a version loading for ever."""
    said = live(STEPS, pytestconfig.getoption("--seed") + 1)
    assert said["steps"] >= STEPS
    print(f"{said.total()} steps and lines of the log: {dict(said)}")
