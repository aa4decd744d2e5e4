"""The tools of docs/accuracy.md: what `cnna eval` gives by their functions, beside what the arrays say."""

from pathlib import Path

import measured_files
import near_float
import numpy as np
import pytest

from cnna.host.model.divergence import Divergence

from ..evaluate import made

CLASSES = 5


def test_the_table_has_what_the_command_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A figure of the page that comes from elsewhere could not be measured again by its reader."""
    x = np.random.default_rng(3).normal(size=(30, CLASSES)).astype(np.float32)
    made.echo(tmp_path / "model.onnx", CLASSES)
    made.negated(tmp_path / "q.onnx", CLASSES)
    made.arrays(tmp_path / measured_files.DATA, x=x)
    options = (*measured_files.judged_by("classes"), "--truth", "model.onnx")
    found = measured_files.evaluated(["q.onnx", "model.onnx"], tmp_path, *options)
    assert capsys.readouterr().out.startswith("$ cnna eval q.onnx model.onnx --data test.npz --metric ")
    metrics = measured_files.figures_of(found, "q.onnx")
    assert metrics["same"]["value"] == np.mean(x.argmax(1) == x.argmin(1))
    noise = Divergence("y")
    noise.extend(-x, x)
    assert near_float.decibels(metrics) == [pytest.approx(noise.decibels)]
    assert near_float.decibels(measured_files.figures_of(found, "model.onnx")) == [float("inf")]
