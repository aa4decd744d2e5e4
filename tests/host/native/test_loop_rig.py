"""The run loop against a thread that plays the accelerator, with memory that is not coherent, under sanitizers and for aarch64.

Its parts alone too: the helpers, and the packer of a port.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from .programs import ADDRESS, ARM, NATIVE, SECONDS, THREAD, program

LOOP = "loop_rig.cpp"
FEWER, RUNS, MANY = 200, 400, 1_000_000
WAYS = 5  # in which the rig plays its runs: with and without a queue, and two layouts of memory


def played(rig: Path, runs: int, *words: str, runner: Sequence[str] = (), seconds: float = SECONDS) -> tuple[int, str]:
    """The exit code of a rig, and all that it printed."""
    line = [*runner, str(rig), str(runs), "7", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address,undefined"])
def test_every_answer_is_its_own(flags: Sequence[str]) -> None:
    """An answer of the slot before, a line that is not carried, a race, an error or a dropped run that is lost, or another run's
    counters would show once in thousands.
    """
    code, said = played(program(LOOP, NATIVE, flags), RUNS)
    assert code == 0, said[-2000:]
    assert said.count(f"{RUNS} answers right") == WAYS


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address,undefined"])
def test_every_part_is_done_once_and_in_time(flags: Sequence[str]) -> None:
    """A band of a picture would keep what the picture before it had."""
    code, said = played(program("team_rig.cpp", NATIVE, flags), 10 * RUNS)
    assert code == 0, said[-2000:]


def test_a_packer_forgets_what_holds_no_more() -> None:
    """After other tables at one address, another pitch, or memory that has run out, the way of the picture before would be used."""
    code, said = played(program("packer_rig.cpp", NATIVE, ADDRESS), 10 * RUNS)
    assert code == 0, said[-2000:]
    assert "all pictures alike" in said


@pytest.mark.parametrize("layout", [(), ("apart",)], ids=["bands share lines", "bands have lines of their own"])
@pytest.mark.parametrize("forgotten", ["forget-clean", "forget-invalidate"])
def test_a_line_that_is_forgotten_changes_an_answer(forgotten: str, layout: tuple[str, ...]) -> None:
    """The test above would pass without any maintenance of the cache, if the model of memory were coherent."""
    code, said = played(program(LOOP, NATIVE, ["-O1"]), RUNS, forgotten, *layout)
    assert (code, "a wrong answer" in said) == (1, True)


@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address,undefined"])
def test_memory_that_runs_out_is_a_code_and_costs_no_answer(flags: Sequence[str]) -> None:
    """An exception in a thread would end the process; a code that nobody heeds would leave what was in the array before."""
    code, said = played(program(LOOP, NATIVE, flags), FEWER, "starve")
    assert code == 0, said[-2000:]
    assert said.count(f"{FEWER} answers right") == WAYS


@pytest.mark.aarch64
def test_the_loop_runs_as_a_boards_code() -> None:
    """Its barriers and accesses to registers are other instructions on a board."""
    assert shutil.which("qemu-aarch64"), "qemu-aarch64 is missing: apt install qemu-user"
    runner = ("qemu-aarch64", "-cpu", "cortex-a53")
    code, said = played(program(LOOP, ARM, ["-static", "-Werror"]), RUNS, runner=runner)
    assert code == 0, said[-2000:]


@pytest.mark.slow
def test_a_million_runs_take_no_memory() -> None:
    """A server runs for months. The rig compares its memory in the middle with that at the end: at most 1 MB more."""
    code, said = played(program(LOOP, NATIVE, []), MANY, seconds=3000)
    assert code == 0, said[-2000:]
