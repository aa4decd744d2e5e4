"""The run loop from Python: its thread, and what a fork and an exit do to it."""

import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.library import CPort, CTensor
from cnna.host.native.loop import Input, Loop, Program, Registers

EXITS = """
import numpy as np
from tests.host.native.test_loop import opened
loop = opened()
raise SystemExit(7)
"""


def opened() -> Loop:
    """A loop over registers behind which nobody is."""
    port = CPort(4, 16, 16, 8, (1, 2, 2), (1, 1), (1, 1), (0, 0), 0, 1.0)
    memories = [[np.zeros(16, np.uint8), np.zeros(16, np.uint8)] for _ in range(2)]
    program = Program(1, [port], [port], [[(8, 1)], [(8, 2)]], memories)
    return Loop(Registers(np.zeros(16, np.uint32), 0, 1, 4, 2, 4, [12], [12]), [program], 1.0, None)


def test_a_loop_without_jobs_touches_no_register_and_ends():
    """An idle session would write to an accelerator that is another's by now."""
    loop = opened()
    assert loop.wait(0.05) == library.EXPIRED
    assert loop.alive
    loop.close()
    assert not loop.alive
    loop.close()


def test_a_forked_process_has_no_thread_and_ends():
    """The child would wait for ever for the end of a thread that only its parent has."""
    loop = opened()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads in a process that forks
        child = os.fork()
    if not child:
        alive = loop.alive
        loop.close()
        os._exit(int(alive))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert loop.alive
    loop.close()


def test_a_program_that_forgets_its_loop_ends():
    """The interpreter would wait at its exit, or end with a signal."""
    done = subprocess.run([sys.executable, "-c", EXITS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize(
    ("answer", "code"),
    [(np.zeros(3, np.float32), library.BOUNDS), (np.zeros(3, np.int8), library.BOUNDS), (np.zeros(4, np.uint8), library.ARGUMENT)],
)
def test_an_output_that_cannot_hold_its_answer_is_refused(answer: NDArray[Any], code: int):
    """The run would end as if it had answered, with whatever was in the array before."""
    loop = opened()
    x = np.zeros((1, 1, 2, 2), np.int8)
    given = Input(CTensor(x.ctypes.data, library.INT8, x.shape, x.strides), x, None)
    with pytest.raises(AssertionError, match=f"handing over a run: code {code}"):
        loop.submit(0, [given], [answer])
    assert loop.wait(0.01) == library.EXPIRED, "it must not have begun"
    loop.close()


def test_a_job_that_is_not_handed_over_leaves_the_others(monkeypatch: pytest.MonkeyPatch):
    """A job that the library never got would be waited for."""
    loop = opened()
    x = np.zeros((1, 1, 2, 2), np.int8)
    given = Input(CTensor(x.ctypes.data, library.INT8, x.shape, x.strides), x, None)
    monkeypatch.setattr(loop, "_submit", lambda job: library.MEMORY)
    with pytest.raises(MemoryError, match="handing over a run: no memory is left"):
        loop.submit(0, [given], [np.zeros(4, np.float32)])
    assert not loop.busy
    loop.close()
