"""`cnna quantize --report`: pages and figures that stand alone, results with labels, and one line for what a user gets wrong."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cnna.cli.arrays import write_arrays
from cnna.cli.main import main

SAMPLES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, few.npz with labels, wrong.npz with one label too few, words.txt."""
    made = tmp_path_factory.mktemp("examined")
    assert main(["models", "digits", "-o", str(made / "digits.onnx"), "--calib", str(made / "calib.npz")]) == 0
    with np.load(made / "calib.npz") as calib:
        x, y = calib["x"][:SAMPLES], calib["y"][:SAMPLES]
    write_arrays(made / "few.npz", {"x": x, "y": y})
    write_arrays(made / "wrong.npz", {"x": x, "y": y[1:]})
    (made / "words.txt").write_text("cat\ndog\n")
    (made / "other.txt").write_text("\n".join(str((label + (number < 6)) % 10) for number, label in enumerate(y)))
    (made / "beyond.txt").write_text("10\n" * SAMPLES)
    return made


def quantize(folder: Path, line: str) -> int:
    """The exit code; words with a dot are files of the folder."""
    words = f"quantize digits.onnx -o q.onnx {line}".split()
    return main([str(folder / word) if "." in word and not word[0].isdigit() else word for word in words])


def test_a_page_and_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Users mail the page: it fetches nothing, and has a bar and a row for each layer. The model is the one without a report."""
    assert quantize(folder, "--calib few.npz") == 0
    before = (folder / "q.onnx").read_bytes()
    capsys.readouterr()
    assert quantize(folder, "--calib few.npz --report r.html --report r.json") == 0
    said = capsys.readouterr()
    assert (folder / "q.onnx").read_bytes() == before
    assert "measured on 24 calibration samples: agreement with float 100.00%; top-1" in said.out
    assert said.err == f"wrote {folder / 'r.html'}, {folder / 'r.json'}\n"
    figures = json.loads((folder / "r.json").read_text())
    assert figures["float_top1"] == figures["int8_top1"] == 1
    names = [layer["name"] for layer in figures["layers"]]
    assert {"image", "stem", "block1.conv1", "block1.add", "fc"} <= {*names}
    costs = {layer["name"]: layer["cost"] for layer in figures["layers"]}
    assert [costs[name] for name in figures["worst"]] == sorted(filter(None, costs.values()), reverse=True)
    page = (folder / "r.html").read_text()
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    drawing = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    titles = [element.text or "" for element in drawing.iter("title")]
    assert [title.split()[1] for title in titles] == names
    assert page.count("<tr>") == 3 + 2 + len(names) + len(figures["worst"])


def test_labels_in_a_file_take_the_place_of_those_beside_the_samples(folder: Path) -> None:
    """A folder of pictures has none beside it."""
    assert quantize(folder, "--calib few.npz --labels other.txt --report r.json") == 0
    assert json.loads((folder / "r.json").read_text())["float_top1"] == 0.75


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--calib few.npz --report r.pdf", "r.pdf: its name must end in .html or .json"),
        ("--calib few.npz --report r.json --report r.json", "both --report and --report (2) would write this file"),
        ("--calib few.npz --report digits.onnx", "would write over this input"),
        ("--calib few.npz --labels few.npz", "labels are for the report; give --report F"),
        ("--calib wrong.npz --report r.json", "wrong.npz: array y: there are 23 labels for 24 samples"),
        ("--calib few.npz --labels words.txt --report r.json", "words.txt: not labels: .npy, .npz, or text with one class number"),
        ("--calib few.npz --labels beyond.txt --report r.json", "beyond.txt: label 10 is none of the model's 10 classes, 0..9"),
        ("--calib few.npz --labels none.txt --report r.json", "none.txt: no such file"),
    ],
)
def test_mistakes_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """A report on other labels, or over the user's model, would be worse than none."""
    (folder / "q.onnx").unlink(missing_ok=True)
    assert quantize(folder, line) == 2
    found = capsys.readouterr().err
    assert said in found
    assert len(found.splitlines()) == 1
    assert not (folder / "q.onnx").exists()
