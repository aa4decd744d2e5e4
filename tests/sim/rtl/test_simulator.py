"""The simulator's process, where it does not come to a conversation; what it answers is tested in `test_cosim.py`."""

import signal
import sys
from pathlib import Path

import pytest

from cnna.sim.rtl import simulator
from cnna.sim.rtl.simulator import Simulator


def test_one_that_has_not_answered_yet_is_ended_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it starts took five seconds: it was asked to end by itself over a connection that there was not."""
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    made = []

    def interrupted(self: Simulator, listener: object) -> None:
        made.append(self.process)
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulator, "connect", interrupted)
    monkeypatch.setattr(simulator, "STOP_SECONDS", 600)  # longer than the process lives by itself
    with pytest.raises(KeyboardInterrupt):
        Simulator(tmp_path, tmp_path, traced=False, say=print)
    assert made[0].returncode == -signal.SIGKILL, "it was waited for"
