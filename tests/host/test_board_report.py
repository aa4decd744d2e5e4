"""`cnna board selftest` as a command: what it refuses before it touches a board."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from cnna.host.board_report import selftest
from cnna.host.errors import CnnaError


@pytest.mark.parametrize(("text", "words"), [(None, "no such file"), (b"no arrays", "not a .npy or .npz file")])
def test_answers_to_expect_are_read_before_anything_runs(tmp_path: Path, text: bytes | None, words: str) -> None:
    """An internal error after minutes of tests, whose findings were lost."""
    np.savez(tmp_path / "x.npz", x=np.zeros(1))
    if text:
        (tmp_path / "y.npz").write_bytes(text)
    args = Namespace(model=tmp_path / "m.cnna", input=tmp_path / "x.npz", expect=tmp_path / "y.npz", overlay=tmp_path / "none.bit")
    with pytest.raises(CnnaError, match=words):
        selftest(args)
