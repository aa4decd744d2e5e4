"""How simulators that tests build are optimised: one way for a configuration, so that all tests share its simulator."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cnna.sim.rtl import build
from cnna.spec.config import PRESETS, Config

OF_COMMANDS = ("tiny", "zcu102", "zcu102x2")  # commands build simulators of these presets, and tests use the same


@contextmanager
def built_quickly(config: Config) -> Iterator[None]:
    """Within it a simulator of the configuration is optimised less, unless commands build the same.

    g++ takes a third less time, and the simulator some 5 % more for a clock.
    """
    with pytest.MonkeyPatch.context() as patch:
        if config not in [PRESETS[name] for name in OF_COMMANDS]:
            optimise_less(patch)
        yield


def optimise_less(patch: pytest.MonkeyPatch) -> None:
    """Builds simulators with flags of their own under the patch. They share a runtime, which depends on the flags too."""
    patch.setattr(build, "MAKE_FLAGS", build.MAKE_FLAGS.replace("OPT_FAST=-O2", "OPT_FAST=-O1"))
    patch.setattr(build, "TRACED_FLAGS", re.sub(r"(OPT_\w+)=-O1", r"\1=-O0", build.TRACED_FLAGS))
