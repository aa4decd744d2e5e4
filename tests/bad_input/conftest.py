"""A model with all its files, and the check that a command is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna.cli.main import main

from .cases import CLASSES, random_images, small_model


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and all its files: m.onnx, calib.npy, q.onnx, m.cnna, labels.txt."""
    folder = tmp_path_factory.mktemp("good")
    onnx.save(small_model(), folder / "m.onnx")
    np.save(folder / "calib.npy", random_images())
    (folder / "labels.txt").write_text("".join(f"class {number}\n" for number in range(CLASSES)))
    m, q, calib = (str(folder / name) for name in ("m.onnx", "q.onnx", "calib.npy"))
    assert main(["quantize", m, "--calib", calib, "-o", q]) == 0
    assert main(["compile", q, "--config", "tiny", "-o", str(folder / "m.cnna")]) == 0
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must be refused, and returns its line. `out` stands for an output that must not be left."""

    def run(*arguments: object) -> str:
        out = tmp_path / "out"
        capsys.readouterr()
        try:
            code: object = main([str(out) if argument == "out" else str(argument) for argument in arguments])
        except SystemExit as ended:  # the parser refuses an option's value
            code = ended.code
        said = capsys.readouterr().err
        lines = [line for line in said.splitlines() if not line.startswith("note: ")]
        assert code == 2, said
        assert len(lines) == 1, said
        assert "Traceback" not in said
        assert "internal error" not in said
        assert not list(tmp_path.glob("*out*")) + list(tmp_path.glob(".*"))
        return lines[0]

    return run
