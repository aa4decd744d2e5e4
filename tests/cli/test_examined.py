"""`cnna quantize --report`: pages and figures that stand alone, results with labels, and one line for what a user gets wrong."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.host.samples.arrays import write_arrays
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import NATIVELY, rates

from ..compiler.written import written

SAMPLES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, few.npz with labels, wrong.npz with one label too few, words.txt."""
    made = tmp_path_factory.mktemp("examined")
    written = ["-o", str(made / "digits.onnx"), "--calib", str(made / "few.npz"), "--count", str(SAMPLES)]
    assert main(["models", "digits", *written]) == 0
    with np.load(made / "few.npz") as few:
        x, y = few["x"], few["y"]
    write_arrays(made / "wrong.npz", {"x": x, "y": y[1:]})
    for name, times in (("bright.npz", 40), ("dazzling.npz", 200)):
        bright = x.copy()
        bright[::3] *= times  # their range leaves the other pictures few steps
        write_arrays(made / name, {"x": bright})
    write_arrays(made / "two.npz", {"x": x[:2]})
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
    assert "measured on 24 calibration samples: agreement with float 100.00% (the greatest class of logits); top-1" in said.out
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


def test_the_report_judges_outputs_by_what_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Agreement of classes would be said of what has none; what the user asks for would be ignored."""
    assert quantize(folder, "--calib few.npz --report r.json --report r.html --metric cosine") == 0
    found = json.loads((folder / "r.json").read_text())
    assert found["agreement"] is None
    (output,) = found["outputs"]
    assert (output["name"], output["metric"], output["verdict"]) == ("logits", "cosine", "good")
    said = f"{output['said']}"
    assert f"output logits: {said} on 8 of them, good (--metric asks for it)" in capsys.readouterr().out
    assert f"{said} on 8 of the samples: good (--metric asks for it)" in (folder / "r.html").read_text()


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
        ("--calib few.npz --metric top1", "--metric top1: it says how outputs are judged; give --report F"),
        ("--calib few.npz --report r.json --metric best", "--metric best: 'best' is unknown; there are top1, noise"),
        ("--calib few.npz --report r.json --metric no:top1", "there is no output 'no'; there are logits"),
        ("--calib few.npz --labels few.npz", "labels are for --report F and --search LOSS; give one of them"),
        ("--calib wrong.npz --report r.json", "wrong.npz: array y: there are 23 labels for 24 samples"),
        ("--calib few.npz --labels words.txt --report r.json", "words.txt: not labels: .npy, .npz, or text with one class number"),
        ("--calib few.npz --labels beyond.txt --report r.json", "beyond.txt: label 10 is none of the model's 10 classes, 0..9"),
        ("--calib few.npz --labels none.txt --report r.json", "none.txt: no such file"),
        ("--calib few.npz --search -1", "--search: '-1' is no number of points, 0 to 100"),
        ("--calib few.npz --search nan", "--search: 'nan' is no number of points, 0 to 100"),
        ("--calib few.npz --search much", "--search: 'much' is no number of points, 0 to 100"),
        ("--calib two.npz --search 1", "two.npz: --search holds a third of the samples out and needs at least 3; there are 2"),
        ("--calib few.npz --config tiny", "--config tiny: only --search predicts a speed"),
        ("--calib few.npz --search 1 --config huge", "--config: "),
    ],
)
def test_mistakes_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """A report on other labels, or over the user's model, would be worse than none."""
    (folder / "q.onnx").unlink(missing_ok=True)
    try:
        code = quantize(folder, line)
    except SystemExit as ended:  # of argparse
        code = int(ended.code or 0)
    assert code == 2
    found = capsys.readouterr().err
    assert said in found
    assert len(found.splitlines()) == 1
    assert not (folder / "q.onnx").exists()


def test_a_search_says_what_it_keeps_and_what_that_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The price in speed is what the user decides by; a limit that int8 meets costs nothing, and leaves the network as it is."""
    capsys.readouterr()
    assert quantize(folder, "--calib few.npz --search 100 --json all.json") == 0
    said = capsys.readouterr().err
    assert "cnna: --search 100 is met with all layers in int8: the loss is " in said
    assert "on 8 samples held out, of which each counts 12" in said
    assert "images a second" not in said
    assert quantize(folder, "--calib bright.npz --search 0 --config tiny --report s.html --report s.json") == 0
    said = capsys.readouterr().err
    found = json.loads((folder / "s.json").read_text())
    assert found["held_out"]
    assert (found["samples"], found["calibration_samples"]) == (8, 16)
    assert found["search"]["loss"] == 0 < found["search"]["loss_in_int8"]
    assert found["agreement"] == 1
    kept = {layer["name"] for layer in found["layers"] if not layer["int8"]}
    names = found["search"]["kept"]
    assert names[0] == "stem"  # it reads the pictures, whose range is at fault
    assert len(names) < 3
    assert f"{len(names)} of 7 layers in float on the CPU ({', '.join(names)})" in said
    assert kept == {"image", *names}
    assert found["search"]["fps"] < found["search"]["fps_in_int8"]
    assert found["search"]["fps_to_answer"] == found["search"]["fps"], "elsewhere fps is of the accelerator alone"
    slow, quick = found["search"]["fps"]
    assert f"cnna: on tiny {rates(Range(quick, slow))} images a second are modelled from picture to answer, {NATIVELY}" in said
    assert "--search 0 is met with" in (folder / "s.html").read_text()


def test_a_search_in_a_model_without_weights_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is in int8, so a line about `all layers in int8` would be false."""
    (folder / "bare.onnx").write_bytes(written("g (float[N,3] x) => (float[N,3] y) { y = Tanh (x) }").SerializeToString())
    write_arrays(folder / "rows.npz", {"x": np.eye(3, dtype=np.float32)})
    words = ["--calib", str(folder / "rows.npz"), "-o", str(folder / "q.onnx"), "--search", "1"]
    assert main(["quantize", str(folder / "bare.onnx"), *words]) == 0
    said = capsys.readouterr().err
    assert "cnna: --search 1 is met: no layer of the model has weights that can be int8" in said
    assert "all layers in int8" not in said


def test_a_search_that_fails_ends_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script must not go on as if the limit were met; the nearest network is there to look at."""
    (folder / "q.onnx").unlink(missing_ok=True)
    assert quantize(folder, "--calib dazzling.npz --search 0 --config tiny --json d.json") == 1
    assert "cnna: --search 0 cannot be met: the nearest network, with " in capsys.readouterr().err
    found = json.loads((folder / "d.json").read_text())["search"]
    assert found["loss"] == min(one["loss"] for one in found["tried"]) > 0
    assert (folder / "q.onnx").is_file()
