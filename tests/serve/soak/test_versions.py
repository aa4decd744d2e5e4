"""Versions come, go and fail under load: no request is lost, and each answer is that of the version which it names.

Odd versions have the digits network, even ones another network, so an answer of the wrong version is seen. The workers die of the
last version (`sick_worker.py`).
"""

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna.compiler.compile import compile_model
from cnna.host.model.session import InferenceSession
from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.models.publication import publish
from cnna.spec.config import preset

from . import sick_worker
from .load import DEADLINE_SECONDS, Images, Load, until
from .sick_worker import GOLDEN, SICK

pytestmark = pytest.mark.soak
SETTINGS = f"deadline_ms: {DEADLINE_SECONDS * 1e3:.0f}\n"


@pytest.fixture
def other(tmp_path: Path, images: Images, opposite: onnx.ModelProto) -> tuple[Path, Images]:
    """A version of another network, which has the same shapes, and its answers to the images."""
    artifacts = [compile_model(opposite, preset("tiny"), batch) for batch in (1, 4)]
    with InferenceSession(artifacts[1], "reference") as session:
        (logits,) = session.run(None, {"image": images})
    golden = {"image": images[:GOLDEN]}, {"logits": logits[:GOLDEN]}
    return publish(tmp_path / "other", "digits", "2", artifacts, *golden), logits


def test_versions_switch_under_load(
    repository: Path,
    other: tuple[Path, Images],
    images: Images,
    answers: Images,
    soak_seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request would be lost in the gap between two versions, or get the answer of a version that it does not name."""
    shutil.copy(sick_worker.__file__, tmp_path / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the workers: each reads it when it starts
    assert not subprocess.run([sys.executable, "-c", ""], capture_output=True).stderr, "the workers would be healthy"
    folders, here = {1: repository / "digits" / "1", 0: other[0]}, repository / "digits"

    def add(number: int, more: str = "", spoil: Callable[[Path], None] = lambda folder: None) -> None:
        shutil.copytree(folders[number % 2], here / ".new")
        spoil(here / ".new")
        (here / ".new").rename(here / str(number))
        (here / "model.yaml").write_text(SETTINGS + more)
        engine.load("digits")

    def answering(*numbers: int) -> None:
        seen = Counter(load.versions)
        until(
            lambda: bool(load.wrong) or all(load.versions[str(one)] > seen[str(one)] for one in numbers),
            f"versions {numbers} answer",
        )
        assert not load.wrong  # a client ends with it, so that nobody might ask any more

    limits = Limits(hang_seconds=DEADLINE_SECONDS, pause_seconds=(0.2, 1.0), failures=1_000_000)
    (here / "model.yaml").write_text(SETTINGS)
    with Engine(repository, ["a=paced", "b=paced"], limits) as engine:
        model = engine.core.catalogue.models["digits"]
        load, number = Load(engine, images, lambda version: answers if int(version) % 2 else other[1]), 1
        with load.running():
            end = time.monotonic() + soak_seconds * 2 / 3
            while number < 8 or time.monotonic() < end:
                number += 1
                if number % 4 == 0:  # a canary of half the requests
                    add(number, f"versions: [{number - 1}, {number}]\ncanary: {{version: {number}, share: 0.5}}\n")
                    answering(number, number - 1)
                elif number % 4 == 1:  # wrong golden answers: it is refused, and nobody sees it
                    add(number, spoil=spoil_golden)
                    assert "golden answers differ" in model.versions[str(number)].reason
                else:
                    add(number)
                    answering(number)
            sound = Counter(load.versions)
            add(SICK)
            until(lambda: "rolled back" in model.versions[str(SICK)].reason, "the version that kills workers is taken back")
            until(lambda: load.versions.total() > sound.total() + 8, "the version before it answers again")
    assert not load.wrong
    assert str(SICK) not in load.versions
    assert all(f"version {SICK}: failed" in line for line in load.refused), load.refused
    refused, slowest = f"{load.refused.total()} refused by the one taken back", f"the slowest answer after {load.slowest:.2f} s"
    print(f"{load.versions.total()} requests, {len(load.versions)} versions, {refused}, {slowest}")


def spoil_golden(folder: Path) -> None:
    """Changes one of the answers that a version must give."""
    with np.load(folder / "golden.npz") as file:
        arrays = dict(file)
    arrays["output.logits"][0, 0] += 1
    np.savez(folder / "golden.npz", **arrays)
