"""Folders of pictures through quantize, compile and run: what decides how a picture becomes an input, and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from cnna.cli.main import main
from cnna.spec.artifact import load

SIZE, COUNT = 16, 6
FULL = {"size": 32, "scale": 1 / 128, "mean": [1, 1, 1], "std": [2.0]}


def network(path: Path, layout: str = "nchw", kind: int = TensorProto.FLOAT, channels: int = 3) -> Path:
    """A convolution and the mean of its map, which tells colours and brightness apart."""
    rng = np.random.default_rng(7)
    weights = numpy_helper.from_array(rng.normal(0, 0.3, (4, channels, 3, 3)).astype(np.float32), "w")
    shape = [channels, SIZE, SIZE] if layout == "nchw" else [SIZE, SIZE, channels]
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["f"], ["t"], perm=[0, 1, 2, 3] if layout == "nchw" else [0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", kind, ["N", *shape])
    graph = helper.make_graph(nodes, "net", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """m.onnx, and pictures of 32 x 32 pixels in a folder: uniform, so that scaling and cutting change nothing."""
    network(tmp_path / "m.onnx")
    (tmp_path / "pictures").mkdir()
    for number in range(COUNT):
        colour = np.random.default_rng(number).integers(0, 256, 3).astype(np.uint8)
        Image.fromarray(np.broadcast_to(colour, (32, 32, 3)).copy()).save(tmp_path / "pictures" / f"{number}.png")
    return tmp_path


def pixels(folder: Path) -> np.ndarray:
    """The pixels of the pictures, uint8 [N, H, W, C]."""
    colours = [np.asarray(Image.open(file))[0, 0] for file in sorted((folder / "pictures").iterdir())]
    return np.broadcast_to(np.stack(colours)[:, None, None], (COUNT, SIZE, SIZE, 3)).copy()


def quantized(folder: Path, *options: object) -> dict[str, Any]:
    """What `cnna quantize --calib pictures` and compile store."""
    words = ["quantize", folder / "m.onnx", "--calib", folder / "pictures", "-o", folder / "q.onnx", *options]
    assert main([str(word) for word in words]) == 0
    assert main(["compile", str(folder / "q.onnx"), "--config", "tiny", "-o", str(folder / "m.cnna")]) == 0
    preprocess = load(folder / "m.cnna").manifest["preprocess"]
    return dict(preprocess or {})


def answer(folder: Path, x: Path, *options: object) -> np.ndarray:
    words = ["run", folder / "m.cnna", "--input", x, "--device", "emulator", "-o", folder / "y.npz", *options]
    assert main([str(word) for word in words]) == 0
    with np.load(folder / "y.npz") as found:
        return np.asarray(found["y"])


def test_options_beat_the_file_and_the_file_beats_the_metadata(folder: Path) -> None:
    """Key by key: a user who changes one of them would lose the others, or get an older one."""
    model = onnx.load(folder / "m.onnx")
    model.metadata_props.add(key="cnna.preprocess", value=json.dumps({**FULL, "colour": "bgr"}))
    onnx.save(model, folder / "m.onnx")
    assert quantized(folder) == {**FULL, "size": [32], "mean": [1.0, 1.0, 1.0], "colour": "bgr"}
    (folder / "preprocess.json").write_text(json.dumps({"scale": 0.25, "mean": [3, 2, 1]}))
    assert quantized(folder) == {**FULL, "size": [32], "scale": 0.25, "mean": [3.0, 2.0, 1.0], "colour": "bgr"}
    found = quantized(folder, "--scale", "1/4", "--mean", 9, "--colour", "rgb", "--size", "20,24")
    assert found == {"scale": 0.25, "mean": [9.0], "std": [2.0], "size": [20, 24]}


def test_a_run_needs_no_option(folder: Path) -> None:
    """The artifact has what quantize used: the folder must give the same answers as arrays made by hand."""
    quantized(folder, "--scale", "1/64", "--mean", 1, 2, 3, "--colour", "bgr")
    floats = (pixels(folder)[..., ::-1].astype(np.float32) / 64 - np.array([1, 2, 3], np.float32)).transpose(0, 3, 1, 2)
    np.save(folder / "x.npy", floats)
    by_hand = answer(folder, folder / "x.npy")
    assert np.array_equal(answer(folder, folder / "pictures"), by_hand)
    assert np.array_equal(answer(folder, folder / "pictures", "--limit", 2), by_hand[:2])
    assert np.array_equal(answer(folder, folder / "pictures" / "3.png"), by_hand[3:4])
    swapped = answer(folder, folder / "pictures", "--colour", "rgb", "--mean", 3, 2, 1)
    np.save(folder / "x.npy", np.ascontiguousarray(floats[:, ::-1]))
    assert np.array_equal(swapped, answer(folder, folder / "x.npy"))
    assert not np.array_equal(swapped, by_hand)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UINT8])
def test_channels_last(folder: Path, kind: int) -> None:
    """As TensorFlow exports; a model that takes uint8 must get pictures as they are, without any option."""
    network(folder / "m.onnx", "nhwc", kind)
    floats = kind == TensorProto.FLOAT
    stored = quantized(folder, "--layout", "nhwc", *(["--scale", "1/64", "--std", 1, 2, 4] if floats else []))
    assert stored["layout"] == "nhwc"
    x = pixels(folder)
    np.save(folder / "x.npy", (x.astype(np.float32) / 64 / np.array([1, 2, 4], np.float32)).astype(np.float32) if floats else x)
    by_hand = answer(folder, folder / "x.npy")
    assert np.array_equal(answer(folder, folder / "pictures"), by_hand)
    assert len(np.unique(by_hand, axis=0)) > 1


def test_grey_models_take_coloured_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model must get as many channels as it has, in both directions."""
    network(folder / "m.onnx", channels=1)
    assert quantized(folder, "--scale", "1/255") == {"scale": 1 / 255, "mean": [0.0], "std": [1.0]}
    assert capsys.readouterr().out.splitlines()[0].endswith("; x * 0.00392157, mean 0, std 1, grey")
    Image.new("RGBA", (40, 20), (9, 9, 9, 3)).save(folder / "pictures" / "alpha.png")
    assert len(answer(folder, folder / "pictures")) == COUNT + 1


def test_what_is_done_to_pictures_is_said_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong size or mean gives answers that look like right ones: each command must say what it used, once, and as figures."""
    Image.new("RGB", (SIZE, SIZE), (9, 9, 9)).save(folder / "pictures" / "9.png")
    assert quantized(folder, "--scale", "1/255", "--colour", "bgr", "--json", folder / "q.json")
    said = (
        f"{folder / 'pictures'}: 7 pictures: 1 of 16 x 16 already stay as they are; of 6 the shorter side is scaled to 256/224 of "
        "what is cut out, the middle 16 x 16 is cut out; x * 0.00392157, mean 0, std 1, bgr, channels first"
    )
    assert capsys.readouterr().out.splitlines().count(said) == 1
    figures = {"size": None, "crop": [16, 16], "scale": 1 / 255, "mean": [0.0], "std": [1.0], "layout": "nchw", "colour": "bgr"}
    assert json.loads((folder / "q.json").read_text())["pictures"] == {"count": 7, "as_they_are": 1, **figures}

    answer(folder, folder / "pictures", "--json", folder / "r.json")
    assert capsys.readouterr().out.splitlines().count(said) == 1
    assert json.loads((folder / "r.json").read_text())["pictures"] == {"count": 7, "as_they_are": 1, **figures}
    answer(folder, folder / "pictures", "--limit", 2, "--size", 32, "--mean", 1, 2, 3, "--json", folder / "r.json")
    line = "2 pictures: the shorter side is scaled to 32, the middle 16 x 16 is cut out; x * 0.00392157, mean 1 2 3, std 1, bgr"
    assert line in capsys.readouterr().out
    told = json.loads((folder / "r.json").read_text())["pictures"]
    assert told == {**figures, "count": 2, "as_they_are": 0, "size": [32], "mean": [1.0, 2.0, 3.0]}

    answer(folder, folder / "pictures" / "9.png")
    assert "9.png: 1 picture: of 16 x 16 already: neither scaled nor cut; x *" in capsys.readouterr().out
    words = ["convert", folder / "m.onnx", "--calib", folder / "pictures", "--config", "tiny", "-o", folder / "c.cnna"]
    assert main([str(word) for word in [*words, "--scale", "1/255", "--colour", "bgr", "--json", folder / "c.json"]]) == 0
    assert capsys.readouterr().out.splitlines().count(said) == 1
    assert json.loads((folder / "c.json").read_text())["quantised"]["pictures"] == {"count": 7, "as_they_are": 1, **figures}
    np.save(folder / "x.npy", np.zeros((2, 3, SIZE, SIZE), np.uint8))
    answer(folder, folder / "x.npy")
    assert "picture" not in capsys.readouterr().out, "nothing is done to arrays"


def test_whole_numbers_stay_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that takes uint8 gets the pixels themselves: a line about a scale would be wrong."""
    network(folder / "m.onnx", "nhwc", TensorProto.UINT8)
    quantized(folder, "--layout", "nhwc", "--json", folder / "q.json")
    assert "cut out; numbers 0 to 255 as they are, rgb, channels last" in capsys.readouterr().out
    assert "scale" not in json.loads((folder / "q.json").read_text())["pictures"]


def _broken(folder: Path) -> None:
    (folder / "pictures" / "2.png").write_bytes(b"no picture")


def _emptied(folder: Path) -> None:
    for file in (folder / "pictures").iterdir():
        file.unlink()


def _others(folder: Path) -> None:
    _emptied(folder)
    for name, kind in (("a.webp", "WEBP"), ("b.GIF", "GIF")):
        Image.new("RGB", (SIZE, SIZE)).save(folder / "pictures" / name, kind)
    (folder / "pictures" / "labels.txt").write_text("0")


def _classes(folder: Path) -> None:
    for name in ("cats", "dogs"):
        (folder / "pictures" / name).mkdir()
        (folder / "pictures" / f"{name[0]}.png").write_bytes(b"")
        (folder / "pictures" / f"{name[0]}.png").rename(folder / "pictures" / name / "1.png")
    for file in (folder / "pictures").glob("*.png"):
        file.unlink()


def _table(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "preprocess.json").write_text(text)


NORM: list[object] = ["--scale", "1/255"]
MISTAKES: dict[str, tuple[Callable[[Path], object], list[object], str]] = {
    "a broken picture": (_broken, NORM, r"2\.png: not a picture that Pillow reads"),
    "an empty folder": (_emptied, NORM, r"pictures: no \.jpg, \.jpeg, \.png files"),
    "no normalisation": (lambda folder: None, [], r"pictures: nothing says how pictures become floats: give --scale"),
    "a crop that is not the model's": (
        lambda folder: None,
        [*NORM, "--crop", 8],
        r"pictures: .* cut to 8 x 8, but .* 16 x 16 .*--crop 16,16",
    ),
    "a size below what is cut": (
        lambda folder: None,
        [*NORM, "--size", "8,64"],
        r"0\.png: scaled to 8 rows and 64 columns.*; give a greater --size, as 16,16",
    ),
    "a layout that is not the model's": (
        lambda folder: None,
        [*NORM, "--layout", "nhwc"],
        r"pictures: .*nhwc has 16; with --layout nchw it has 3",
    ),
    "means of another number": (
        lambda folder: None,
        [*NORM, "--mean", 1, 2],
        "cnna: --mean 1 2: mean has 2 values, but the input has 3 channels",
    ),
    "means of another number in a file": (_table('{"mean": [1, 2]}'), NORM, r"m\.onnx: mean has 2 values"),
    "pictures of other kinds": (
        _others,
        NORM,
        r"pictures: no \.jpg, \.jpeg, \.png files; it has a\.webp, b\.GIF: save pictures as",
    ),
    "folders of classes": (_classes, NORM, r"pictures: no \.jpg, \.jpeg, \.png files; it has cats/, dogs/: .* all in one folder"),
    "a size of nothing": (lambda folder: None, [*NORM, "--size", 0], "--size: 'size' is .* within 1\\.\\."),
    "a size beyond all pictures": (_table('{"size": 100000}'), NORM, r"'size' is 100000; .* within 1\.\.32768"),
    "a file that is no JSON": (_table("{scale"), [], r"preprocess\.json: not JSON"),
    "a file that is no table": (_table("[1]"), [], r"preprocess\.json: not a JSON object"),
    "an unknown key": (_table('{"means": [1]}'), NORM, r"preprocess\.json: there is no 'means'; there are scale, mean"),
    "a value of another kind": (_table('{"scale": "1/255"}'), [], r"preprocess\.json: 'scale' is '1/255'; it must be a number"),
    "a deviation of 0": (_table('{"std": 0}'), [], r"preprocess\.json: preprocessing: .* std not 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_used_is_said_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """In a folder of a thousand pictures, nobody would find the broken one without its name."""
    spoil, options, said = MISTAKES[name]
    spoil(folder)
    words = ["quantize", folder / "m.onnx", "--calib", folder / "pictures", "-o", folder / "q.onnx", *options]
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
    assert not (folder / "q.onnx").exists()


def test_what_a_folder_has_beside_its_pictures_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a user's pictures would be left out silently; a folder of any name is none of them."""
    for name, kind in (("a.webp", "WEBP"), ("b.bmp", "BMP")):
        Image.new("RGB", (SIZE, SIZE)).save(folder / "pictures" / name, kind)
    for name in ("dogs", "x.png", "empty"):
        (folder / "pictures" / name).mkdir()
    for name in ("dogs", "x.png"):
        Image.new("RGB", (SIZE, SIZE)).save(folder / "pictures" / name / "1.png")
    (folder / "pictures" / "labels.txt").write_text("0")
    quantized(folder, *NORM)
    said = capsys.readouterr()
    assert f"{COUNT} pictures" in said.out
    (note,) = (line for line in said.err.splitlines() if line.startswith("note:"))
    assert note == (
        f"note: {folder / 'pictures'}: ignoring a.webp, b.bmp, dogs/, x.png/; pictures are .jpg, .jpeg, .png files in one folder"
    )


@pytest.mark.parametrize("name", ["a.webp", "a.BMP"])
def test_a_picture_of_another_kind_is_called_a_picture(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """It would be called no .npy, and nothing would say which pictures are read."""
    Image.new("RGB", (SIZE, SIZE)).save(folder / name)
    words = ["quantize", folder / "m.onnx", "--calib", folder / name, "-o", folder / "q.onnx", *NORM]
    assert main([str(word) for word in words]) == 2
    assert f"{folder / name}: a picture in another format than .jpg, .jpeg, .png; save it" in capsys.readouterr().err


def test_arrays_of_uint8_without_preprocessing_are_refused_with_what_to_type(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy would be the very command that was typed."""
    np.save(folder / "u8.npy", np.zeros((2, 3, SIZE, SIZE), np.uint8))
    words = ["quantize", folder / "m.onnx", "--calib", folder / "u8.npy", "-o", folder / "q.onnx"]
    assert main([str(word) for word in words]) == 2
    assert "give float32, or --scale, --mean and --std" in capsys.readouterr().err
    assert main([str(word) for word in [*words, *NORM]]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scale", "1/0"], "--scale: '1/0' is no number; 0.5 and 1/255 are"),
        (["--std", "a"], "--std: 'a' is no number"),
        (["--mean", "0.5,0.4,1/3"], "--mean: '0.5,0.4,1/3' is no number; write a space between numbers: 0.5 0.4 1/3"),
        (["--scale", "1/255,1/255"], "--scale: '1/255,1/255' is no number; 0.5 and 1/255 are"),
        (["--size", "8,a"], "--size: '8,a' is no size; 256 and 256,320"),
    ],
)
def test_what_is_no_number_is_said_in_words(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    """argparse itself would name the function that reads the option."""
    with pytest.raises(SystemExit):
        main(["quantize", "m.onnx", "--calib", "pictures", "-o", "q.onnx", *options])
    assert said in capsys.readouterr().err
