"""Hidden folders of publications: removed where the process that made them is gone, and left where it is not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cnna.serve.models.publication import publish, remove_left
from cnna.spec.errors import UserError

HOLD = """
import sys, time
from pathlib import Path
from cnna.serve.models.publication import _owned
with _owned(Path(sys.argv[1])):
    (Path(sys.argv[1]) / "m.cnna").write_bytes(b"half")
    print("there", flush=True)
    time.sleep(600)
"""
NOTHING = {"x": np.zeros((1, 2), np.float32)}


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Half a version of some hundred megabytes would stay in the repository for ever."""
    hidden = tmp_path / "digits" / ".3.4.part"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(hidden)], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "there\n"
            remove_left(tmp_path)
            assert (hidden / "m.cnna").read_bytes() == b"half", "it is under way"
        finally:
            child.kill()
    publish(tmp_path, "other", "1", [], NOTHING, NOTHING)
    assert not hidden.exists()
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["1"]


def test_other_hidden_folders_stay(tmp_path: Path) -> None:
    """They are the user's."""
    (tmp_path / "digits" / ".old.part").mkdir(parents=True)
    (tmp_path / "digits" / ".3.4.part").write_text("a file")
    remove_left(tmp_path)
    assert len([*(tmp_path / "digits").iterdir()]) == 2


def test_a_failed_publication_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next server would have to know it."""

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cnna.serve.models.golden.write", full)
    with pytest.raises(UserError, match=r"digits/1: No space left on device$"):
        publish(tmp_path, "digits", "1", [], NOTHING, NOTHING)
    assert not [*(tmp_path / "digits").iterdir()]
