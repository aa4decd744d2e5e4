"""The interpreter's exit while a daemon thread uses the run loop, with the library under the address sanitizer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cnna.host.native import build

from .programs import ADDRESS, NATIVE, objects, words

SECONDS = 120
CODE = """
import sys, threading, time
from pathlib import Path
from cnna.host.native import library
found = library.opened(Path(sys.argv[1]))
assert found.calls is not None, found
library.native = lambda: found
import cnna
from tests.host.hand_made import requantised_copy, samples
from tests.host.mapped_board import MappedBoard
board = MappedBoard()
session = cnna.InferenceSession(requantised_copy(batch=1), board, retries=0)
board.page.stuck = sys.argv[2] == "waits"
def runs():
    while True:
        session.run(None, {"x": samples(1)})
threading.Thread(target=runs, daemon=True).start()
while not board.page.starts:
    time.sleep(0.01)
time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, which ends the process at an access to memory that is freed."""
    made = tmp_path_factory.mktemp("library") / build.NAME
    line = [*words(NATIVE, ADDRESS), "-shared", *map(str, objects(NATIVE, ADDRESS)), "-o", str(made)]
    subprocess.run(line, check=True, timeout=SECONDS)
    return made


def beside(name: str) -> str:
    """A library of the compiler's."""
    return subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("doing", ["waits", "runs"])
def test_a_daemon_thread_may_use_it_to_the_end(checked: Path, doing: str) -> None:
    """Python does not wait for such a thread. It would wait in memory that is freed: a server would crash at its end, at times."""
    preloaded = {"LD_PRELOAD": f"{beside('libasan.so')}:{beside('libstdc++.so')}", "ASAN_OPTIONS": "detect_leaks=0"}
    for _ in range(3):
        line = [sys.executable, "-c", CODE, str(checked), doing]
        done = subprocess.run(line, env={**os.environ, **preloaded}, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
