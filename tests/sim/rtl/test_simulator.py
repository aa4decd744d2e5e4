"""The simulator's process when no connection comes up; `test_cosim.py` tests its answers."""

import signal
import sys
from pathlib import Path

import pytest

from cnna.sim.rtl import simulator
from cnna.sim.rtl.simulator import Simulator


def test_one_that_has_not_answered_yet_is_ended_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the start would take five seconds: the process would be asked to end over a connection that does not exist."""
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
