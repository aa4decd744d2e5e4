"""The demo, as `make demo` runs it: a newcomer sees it first, so it must be true and complete."""

import re
import subprocess
import sys
from pathlib import Path

import demo
import numpy as np
import pytest

from cnna.compiler.zoo.digits import data

TIMEOUT_S = 900


@pytest.fixture(scope="module")
def said(root: Path) -> str:
    """The demo's output."""
    command = [sys.executable, str(root / "examples" / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _layers(said: str, with_all: bool = False) -> dict[str, np.ndarray]:
    """The rows of the table by layer: MACs, cycles, bytes read, bytes written."""
    rows = re.findall(r"^(\S+) +(conv|vector|none|) +([\d,]+) +([\d,]+) +(?:[\d.]+%|-) +([\d,]+) +([\d,]+)$", said, re.MULTILINE)
    found = {name: np.array([int(cell.replace(",", "")) for cell in cells]) for name, _, *cells in rows}
    return {name: numbers for name, numbers in found.items() if with_all or name != "all"}


@pytest.mark.cosim
def test_ends_with_the_three_executions_equal(said: str) -> None:
    """The line to which everything else leads would be missing."""
    line = re.search(r"^RTL == emulator == reference: ([\d,]+) tensors, ([\d,]+) elements$", said, re.MULTILINE)
    assert line
    tensors, elements = (int(number.replace(",", "")) for number in line.groups())
    assert tensors == len(_layers(said))
    assert elements % demo.SHOWN == 0
    assert elements >= demo.SHOWN * data.load().test.images[0].size


@pytest.mark.cosim
def test_shows_every_picture_with_its_class_and_answer(said: str) -> None:
    """There must be ten pictures, with classes as in the data set and mostly right answers."""
    pairs = [(int(a), int(b)) for a, b in re.findall(r"is (\d), RTL says (\d)", said)]
    assert [a for a, _ in pairs] == data.load().test.classes[: demo.SHOWN].tolist()
    assert np.mean([a == b for a, b in pairs]) >= 0.8


def test_a_time_says_what_took_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A bare "2.9 s" says nothing: the time must follow what was done or, after lines of its own, have a name."""
    with demo.step("quantise"):
        pass
    with demo.step("build", "the simulator is ready"):
        print("a line of its own")
    said = re.sub(r"\d+\.\d", "N", capsys.readouterr().out)
    assert said == "quantise ... N s\nbuild ...\na line of its own\nthe simulator is ready after N s\n"


@pytest.mark.cosim
def test_the_table_sums_to_the_whole(said: str) -> None:
    """Layers whose MACs, cycles or bytes do not add up would be invented."""
    numbers = _layers(said, with_all=True)
    whole = numbers.pop("all")
    assert len(numbers) >= 9
    assert np.array_equal(sum(numbers.values()), whole)


@pytest.mark.cosim
def test_int8_is_nearly_as_accurate_as_float(said: str) -> None:
    """The accuracy is over the whole test set; 400 images have a standard error of 0.6 points here."""
    accuracy = {name: float(percent) for name, percent in re.findall(r"^(float|int8) +accuracy ([\d.]+)%", said, re.MULTILINE)}
    assert accuracy["float"] >= 97
    assert accuracy["int8"] >= accuracy["float"] - 2
