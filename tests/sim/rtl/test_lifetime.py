"""Folders of killed processes are removed; those of living processes and of others are not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cnna.sim.rtl.lifetime import Scratch, scratch

OWNER = "import sys, time, pathlib; from cnna.sim.rtl.lifetime import Scratch\n"
OWNER += "print(Scratch('cnna-', pathlib.Path(sys.argv[1])).path, flush=True); time.sleep(60)"


def _age(folder: Path) -> None:
    """Makes a folder look old."""
    os.utime(folder / ".held", (time.time() - 3600,) * 2)


def test_only_what_a_dead_owner_left_is_removed(tmp_path):
    """A killed run's folder would stay for ever; a living run's, or a user's own of that name, must stay."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    theirs = Path(owner.stdout.readline().strip())
    users = [tmp_path / name for name in ("cnna-digits", "cnna-abcd1234")]
    for folder in users:
        folder.mkdir()
    _age(theirs)
    with scratch("cnna-", tmp_path):
        assert theirs.exists(), "its owner lives"
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    with scratch("cnna-", tmp_path) as mine:
        assert not theirs.exists()
        assert set(tmp_path.iterdir()) == {*users, mine}
    assert set(tmp_path.iterdir()) == set(users)


def test_a_folder_that_is_being_made_is_left_alone(tmp_path):
    """Its owner may not hold its lock yet."""
    made = Scratch("cnna-", tmp_path)
    os.close(made.lock)  # as if it were not held yet
    made.lock = -1
    with scratch("cnna-", tmp_path):
        assert made.path.exists()
    _age(made.path)
    with scratch("cnna-", tmp_path):
        assert not made.path.exists()
