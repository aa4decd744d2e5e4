"""`make board-demo`: the virtual board, the stock package and the driver, end to end."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("pynq"):  # Python 3.13 has no pynq yet
    import board_demo

    @pytest.mark.slow
    def test_bits_and_clocks_are_those_of_a_direct_simulation(root: Path) -> None:
        """The virtual board's one claim would be wrong: that the accelerator itself runs on it."""
        command = [sys.executable, "-W", "ignore", str(root / "examples" / "board_demo.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"board == reference: 1 output, {10 * board_demo.IMAGES} elements" in done.stdout
        assert re.search(rf"notebook .*1_classify.ipynb: right: \d of {board_demo.IMAGES}", done.stdout)
        assert re.search(r"clocks on the board == clocks of a direct simulation: [\d,]+ an image", done.stdout)
