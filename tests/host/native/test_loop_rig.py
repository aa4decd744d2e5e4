"""The run loop against a thread that plays the accelerator, with memory that is not coherent, under sanitizers and for aarch64.

Its parts alone too: the helpers, and the packer of a port.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cnna.host.native import build

SECONDS = 300
FEWER, RUNS, MANY = 200, 400, 1_000_000


def rig(folder: Path, compiler: str, flags: Sequence[str], source: str = "loop_rig.cpp") -> Path:
    """A program with the library's sources."""
    program = folder / "rig"
    line = [word for word in build.command(program, compiler, flags) if word not in ("-shared", "-fPIC", "-fvisibility=hidden")]
    subprocess.run([*line, str(Path(__file__).with_name(source)), f"-I{build.FOLDER}"], check=True, timeout=SECONDS)
    return program


def played(program: Path, runs: int, *words: str, runner: Sequence[str] = (), seconds: float = SECONDS) -> tuple[int, str]:
    """The exit code of a rig, and all that it printed."""
    line = [*runner, str(program), str(runs), "7", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_every_answer_is_its_own(tmp_path: Path, sanitizer: str) -> None:
    """An answer of the slot before, a line that is not carried, a race or an error that is lost would show once in thousands."""
    program = rig(tmp_path, "g++", [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O1", "-g"])
    code, said = played(program, RUNS)
    assert code == 0, said[-2000:]
    assert f"{RUNS} answers right" in said


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_every_part_is_done_once_and_in_time(tmp_path: Path, sanitizer: str) -> None:
    """A band of a picture would keep what the picture before it had."""
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O1", "-g"]
    code, said = played(rig(tmp_path, "g++", flags, "team_rig.cpp"), 10 * RUNS)
    assert code == 0, said[-2000:]


def test_a_packer_forgets_what_holds_no_more(tmp_path: Path) -> None:
    """After other tables at one address, another pitch, or memory that has run out, the way of the picture before would be used."""
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"]
    code, said = played(rig(tmp_path, "g++", flags, "packer_rig.cpp"), 10 * RUNS)
    assert code == 0, said[-2000:]
    assert "all pictures alike" in said


@pytest.mark.parametrize("layout", [(), ("apart",)], ids=["bands share lines", "bands have lines of their own"])
@pytest.mark.parametrize("forgotten", ["forget-clean", "forget-invalidate"])
def test_a_line_that_is_forgotten_changes_an_answer(tmp_path: Path, forgotten: str, layout: tuple[str, ...]) -> None:
    """The test above would pass without any maintenance of the cache, if the model of memory were coherent."""
    code, said = played(rig(tmp_path, "g++", ["-O1"]), RUNS, forgotten, *layout)
    assert (code, "a wrong answer" in said) == (1, True)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_memory_that_runs_out_is_a_code_and_costs_no_answer(tmp_path: Path, sanitizer: str) -> None:
    """An exception in a thread would end the process; a code that nobody heeds would leave what was in the array before."""
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O1", "-g"]
    code, said = played(rig(tmp_path, "g++", flags), FEWER, "starve")
    assert code == 0, said[-2000:]
    assert said.count(f"{FEWER} answers right") == 2


@pytest.mark.aarch64
def test_the_loop_runs_as_a_boards_code(tmp_path: Path) -> None:
    """Its barriers and accesses to registers are other instructions on a board."""
    assert shutil.which("qemu-aarch64"), "qemu-aarch64 is missing: apt install qemu-user"
    runner = ("qemu-aarch64", "-cpu", "cortex-a53")
    code, said = played(rig(tmp_path, "aarch64-linux-gnu-g++", ["-static", "-Werror"]), RUNS, runner=runner)
    assert code == 0, said[-2000:]


@pytest.mark.slow
def test_a_million_runs_take_no_memory(tmp_path: Path) -> None:
    """A server runs for months. The rig compares its memory in the middle with that at the end: at most 1 MB more."""
    code, said = played(rig(tmp_path, "g++", []), MANY, seconds=3000)
    assert code == 0, said[-2000:]
