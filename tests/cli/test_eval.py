"""`cnna eval`: a .cnna beside its float and its quantised model, from the options to the table, the JSON and the page."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.cli.main import INTERRUPTED, main

from ..browser import drawn, needs_browser

SAMPLES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, q.onnx and m.cnna (in batches of four), and the samples d.npz."""
    made = tmp_path_factory.mktemp("eval")
    for call in (
        "models digits -o digits.onnx --calib calib.npz --test test.npz",
        "quantize digits.onnx --calib calib.npz -o q.onnx",
        "compile q.onnx --config tiny --batch 4 -o m.cnna",
    ):
        assert main([str(made / word) if "." in word else word for word in call.split()]) == 0
    with np.load(made / "test.npz") as data:
        np.savez(made / "d.npz", x=data["x"][:SAMPLES], y=data["y"][:SAMPLES])
    return made


def call(folder: Path, *words: str, code: int = 0) -> int:
    """Runs `cnna eval` with files of the folder."""
    named = [str(folder / word) if re.fullmatch(r"[\w-]+\.(cnna|onnx|npz|json|html|jsonl|txt)", word) else word for word in words]
    assert main(["eval", *named, "--cache", str(folder / "cache")]) == code
    return code


@pytest.fixture(scope="module")
def figures(folder: Path) -> dict[str, Any]:
    """The JSON of all three models."""
    call(folder, "m.cnna", "digits.onnx", "q.onnx", "--data", "d.npz", "--json", "e.json", "--html", "e.html")
    found: dict[str, Any] = json.loads((folder / "e.json").read_text())
    return found


def test_the_json_has_each_model_beside_the_float_one(figures: dict[str, Any]) -> None:
    """Programs read these names; the .cnna computes what the quantised model does, so both must have the same classes here."""
    assert (figures["kind"], figures["task"], figures["main"]) == ("evaluation", "classification", "top1")
    assert [(one["name"], one["kind"], one["device"]) for one in figures["models"]] == [
        ("m.cnna", "cnna", "emulator"),
        ("digits.onnx", "float", "onnxruntime"),
        ("q.onnx", "quantised", "onnxruntime"),
    ]
    assert figures["compared_with"] == "digits.onnx"
    assert [one["model"] for one in figures["differences"]] == ["m.cnna", "q.onnx"]
    assert len(figures["samples"]) == figures["data"]["samples"] == SAMPLES
    for place, model in enumerate(figures["models"]):
        right = [one["right"] == one["models"][place]["answer"] for one in figures["samples"]]
        assert model["metrics"]["top1"]["value"] == pytest.approx(np.mean(right))
        assert [one["models"][place]["values"]["top1"] for one in figures["samples"]] == list(map(float, right))
    answers = [[model["answer"] for model in one["models"]] for one in figures["samples"]]
    assert np.mean([first == third for first, _, third in answers]) > 0.95


def test_the_table_says_what_was_measured(folder: Path, figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A figure without its samples, error and base says nothing."""
    call(folder, "m.cnna", "digits.onnx", "--data", "d.npz", "--limit", "20", "--seed", "5", "--device", "reference")
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("d.npz: 20 samples (20 of 60, drawn with seed 5; arrays), classification")
    assert re.fullmatch(r"m\.cnna +reference +[\d.]+% ± [\d.]+ +[\d.]+% ± [\d.]+", said[2])
    assert said[4].startswith("m.cnna beside digits.onnx: top-1 ")


@needs_browser
def test_the_page_draws_every_picture(folder: Path, figures: dict[str, Any]) -> None:
    """A page of empty frames, or one that asks the network for something, would not show what changed."""
    text = (folder / "e.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    script = (
        "<script>addEventListener('load', () => {const all = [...document.querySelectorAll('img')];"
        "document.body.dataset.drawn = all.filter((one) => one.naturalWidth > 0).length;"
        "document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;})</script>"
    )
    page = folder / "seen.html"
    page.write_text(text.replace("</body>", f"{script}</body>"))
    body = drawn(page.as_uri(), 5000, "--window-size=500,900")
    cards = text.count('<div class="card">')
    assert cards > 0
    assert f'data-drawn="{cards}"' in body
    assert 'data-wide="false"' in body


def test_wrong_options_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback, or work that ends with nothing."""
    for words, said in (
        (("m.cnna", "--data", "d.npz", "--columns", "a"), "--columns a: name two columns"),
        (("m.cnna", "--data", "d.npz", "--device", "pynq"), "--overlay names what --device pynq loads"),
        (("m.cnna", "--data", "d.npz", "--metric", "top1"), "a function is named as FILE.py:NAME"),
        (("m.cnna", "--data", "e.txt"), "e.txt: no such file or folder"),
    ):
        call(folder, *words, code=2)
        shown = capsys.readouterr().err
        assert said in shown
        assert shown.count("\n") == 1


def test_ctrl_c_says_what_is_kept(folder: Path, tmp_path: Path) -> None:
    """A user would not know that the hours so far are not lost, nor how to go on."""
    own = tmp_path / "own.py"
    own.write_text(
        "import os, signal\n\ndef stop(answers, target):\n    if os.path.exists(__file__ + '.on') and target == 7:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n    return 1.0\n"
    )
    journal = tmp_path / "j.jsonl"
    line = [sys.executable, "-m", "cnna", "eval", folder / "digits.onnx", "--data", folder / "d.npz", "--metric", f"{own}:stop"]
    line += ["--journal", journal, "--batch", "1"]
    (tmp_path / "own.py.on").touch()
    ended = subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == INTERRUPTED
    kept = re.search(r"cnna: (\d+) samples of 60 are kept in (\S+); the same command goes on from there\n", ended.stderr)
    assert kept is not None, ended.stderr
    assert int(kept[1]) > 0
    (tmp_path / "own.py.on").unlink()
    again = subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert f"cnna: {kept[1]} samples of 60 are in {journal}; going on from there" in again.stderr
