"""`cnna.quantize`: what it gives equals what the command writes and prints, from any form of the samples."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import cnna
from cnna.cli.main import main
from cnna.spec.samples.preprocess import Preprocess

from .conftest import samples


@pytest.fixture
def folder(in_float: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.onnx, x.npz, and pictures with more of them in a folder beside; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(in_float, "m.onnx")
    np.savez("x.npz", x=samples(9), more=np.zeros((2, 2)))
    Path("photos").mkdir()
    Path("photos", "dogs").mkdir()
    for number in range(3):
        picture = np.random.default_rng(number).integers(0, 256, (10 + number, 12, 3), np.uint8)
        Image.fromarray(picture).save(f"photos/{number}.png")
        Image.fromarray(picture).save(f"photos/dogs/{number}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("data", "words", "options"),
    [
        ("x.npz", "", {}),
        ("x.npz", "--effort 1 --method mse", {"effort": 1, "method": "mse"}),
        ("photos", "--scale 1/255 --mean 0.5", {"preprocess": {"scale": 1 / 255, "mean": 0.5}}),
        ("x.npz", "--search 99 --metric noise --report r.json", {"search": 99, "metrics": "noise", "examine": True}),
    ],
)
def test_it_gives_what_the_command_writes(
    folder: Path, capsys: pytest.CaptureFixture[str], data: str, words: str, options: dict[str, Any]
) -> None:
    """A notebook and a script would have two answers to one question, or a note would be printed into a program's output."""
    assert main(f"quantize m.onnx --calib {data} -o q.onnx --json f.json {words}".split()) == 0
    said = capsys.readouterr()
    told: list[str] = []
    found = cnna.quantize("m.onnx", data, output="p.onnx", warn=told.append, **options)
    assert capsys.readouterr() == ("", "")
    written = json.loads(Path("f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == {**written, "output": "p.onnx"}
    assert list(found.figures()) == list(written)
    assert f"{found}\n".replace("p.onnx", "q.onnx") == said.out
    assert Path("p.onnx").read_bytes() == Path("q.onnx").read_bytes()
    assert found.notes == (*told,)
    notes = [line for line in said.err.splitlines() if line.startswith("note: ")]
    assert [line for line in told if line.startswith("note: ")] == notes != []
    if Path("r.json").exists():
        assert json.loads(found.save_report("s.json").read_text()) == json.loads(Path("r.json").read_text())
        assert found.page() == found.save_report("s.html").read_text()
        assert all(f"cnna: {line}" in said.err for line in found.on_search)


def batches(x: np.ndarray) -> Iterator[np.ndarray]:
    """Batches of several sizes."""
    yield x[:4]
    yield x[4:]


def test_every_form_of_the_samples_gives_one_model(folder: Path) -> None:
    """Samples of a program would have to be written to a file first, or be calibrated with in part."""
    x = samples(9)
    np.save("x.npy", x)
    wanted = cnna.quantize("m.onnx", "x.npy").proto
    pairs = [{"x": x[:2]}, {"x": x[2:]}]
    for data in (Path("x.npy"), x, {"x": x}, {"other": x}, batches(x), pairs, [*x[:, None]], x.astype(np.float64)):
        assert cnna.quantize("m.onnx", data).proto == wanted
    assert cnna.quantize(onnx.load("m.onnx"), x).proto.graph.node == wanted.graph.node


def test_uint8_arrays_need_a_table_and_take_any_form_of_it(folder: Path) -> None:
    """Pixels would be calibrated with as numbers of 0 to 255."""
    x = np.random.default_rng(1).integers(0, 256, (5, 3, 8, 8), np.uint8)
    with pytest.raises(cnna.DataError, match="the samples: input x is uint8, but nothing says how it becomes floats"):
        cnna.quantize("m.onnx", x)
    first = cnna.quantize("m.onnx", x, preprocess={"scale": 1 / 255, "mean": [0.5, 0.5, 0.25]})
    assert cnna.quantize("m.onnx", x, preprocess=Preprocess(1 / 255, (0.5, 0.5, 0.25))).proto == first.proto


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ([], {}, "the samples: there is no batch"),
        ([{"x": samples(2)}, {"y": samples(2)}], {}, "batches name different inputs: x, y"),
        ([samples(2), samples(2)[:, :2]], {}, "batches cannot be put together"),
        (samples(2)[:, :2], {}, r"input x has shape \[2, 2, 8, 8\], but the model wants \[N, 3, 8, 8\]"),
        ({"a": samples(1), "b": samples(1)}, {}, r"has arrays a, b, but the model's input is x"),
        (samples(2)[:0], {}, "has no sample"),
        (samples(2), {"method": "best"}, "calibration method 'best' is unknown"),
        (samples(2), {"effort": 3}, "effort 3 is unknown"),
        (samples(2), {"fc_bits": 5}, "--fc-bits 5: must be one of 8, 4, auto"),
        (samples(2), {"search": 101}, "--search 101: is no number of points"),
        (samples(2), {"metrics": "noise"}, "--metric noise: it says how outputs are judged"),
        (samples(2), {"labels": np.zeros(2, int)}, "--labels: labels are for"),
        (samples(2), {"examine": True, "labels": np.zeros(3, int)}, "labels: there are 3 labels for 2 samples"),
        (samples(2), {"preprocess": {"scal": 1}}, "--scal: there is no 'scal'"),
        (samples(2), {"preprocess": {"std": 0}}, "--std"),
        ("none.npz", {}, "none.npz: no such file"),
        (samples(2), {"output": "none/q.onnx"}, "the folder none does not exist"),
    ],
)
def test_what_does_not_fit_is_one_line(folder: Path, data: Any, options: dict[str, Any], said: str) -> None:
    """A program would end in numpy's error, which names neither the input nor what it should be."""
    with pytest.raises(cnna.UserError, match=said) as raised:
        cnna.quantize("m.onnx", data, **options)
    assert "\n" not in str(raised.value)
    assert not Path("q.onnx").exists()


def test_ctrl_c_leaves_nothing_behind(folder: Path) -> None:
    """Half a model would be taken for a whole one."""

    def interrupted(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cnna.quantize("m.onnx", samples(), output="q.onnx", progress=interrupted)
    assert not Path("q.onnx").exists()
    assert not list(folder.glob(".*"))


def test_what_is_quantised_is_a_model(folder: Path) -> None:
    """It would have to be written and read again between the steps."""
    found = cnna.quantize("m.onnx", samples())
    onnx.save(found.proto, "q.onnx")
    assert cnna.compile(found, "tiny").artifact.program.program == cnna.compile("q.onnx", "tiny").artifact.program.program
    assert not cnna.explain(found, "tiny").assumed_ranges
    with pytest.raises(cnna.UserError, match="nothing was measured"):
        found.page()


def test_convert_gives_what_the_command_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook and a script would have two answers to one question."""
    assert (
        main(["convert", "m.onnx", "--calib", "x.npz", "--config", "tiny", "-o", "m.cnna", "--limit", "3", "--json", "f.json"]) == 0
    )
    said = capsys.readouterr().out
    found = cnna.convert("m.onnx", "x.npz", "tiny", limit=3, output="n.cnna")
    assert capsys.readouterr() == ("", "")
    written = json.loads(Path("f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == {**written, "output": "n.cnna"}
    assert list(found.figures()) == list(written)
    assert f"{found}\n".replace("n.cnna", "m.cnna") == said
    assert Path("n.cnna").read_bytes() == Path("m.cnna").read_bytes()
    assert (found.agreement, found.against.samples) == ("good", 3)
