"""Runs code with the stock pynq package in a process of its own, like a user's."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cnna.cli.main import main

LOCK = Path(tempfile.gettempdir()) / "cnna-stock-pynq.lock"  # pynq keeps the last design's metadata in a file beside itself
PATIENCE_SECONDS = 300  # for a busy machine, on which importing pynq has taken 40 s
DIGITS = (
    "models digits -o digits.onnx --calib calib.npz --test test.npz",
    "quantize digits.onnx --calib calib.npz -o q.onnx",
    "compile q.onnx --config tiny -o digits.cnna",
)
START = """
import sys
import numpy as np
import pynq
from pynq import MMIO, Device, Overlay, allocate
"""


def images(folder: Path, config: str = "tiny", variant: str = "ps") -> Path:
    """cnna.bit, beside its cnna.hwh, as the command writes them."""
    assert main(["board", "image", "--config", config, "--variant", variant, "-o", str(folder)]) == 0
    return folder / "cnna.bit"


def digits(folder: Path) -> Path:
    """digits.cnna for `tiny`, beside q.onnx, digits.onnx, calib.npz and test.npz, as docs/tour.md writes them."""
    for line in DIGITS:
        assert main([str(folder / word) if "." in word else word for word in line.split()]) == 0
    return folder / "digits.cnna"


def command(code: str, *arguments: object) -> list[str]:
    """The command line that runs code; warnings of pynq and its own dependencies are not ours."""
    return [sys.executable, "-W", "ignore", "-c", START + code, *map(str, arguments)]


def environment(address: str) -> dict[str, str]:
    """The environment that a stock client needs."""
    return {**os.environ, "PYNQ_REMOTE_DEVICES": address}


def run(address: str, code: str, *arguments: object, fails: bool = False) -> str:
    """What the code prints (if it `fails`, on its error output)."""
    return execute(address, command(code, *arguments), fails)


def execute(address: str, line: list[str], fails: bool = False) -> str:
    """As `run`, but for a whole command line."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(line, env=environment(address), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout
