"""What a user can get wrong, each by itself: one line that names it, exit code 2, no traceback, no output file."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cnna.host.cli import main
from cnna.host.errors import UserError
from cnna.hw.config import preset

CHANNELS, SIZE, CLASSES, OPSET = 3, 6, 4, 13
Edit = Callable[[onnx.ModelProto], None]


def _model(channels: int = CHANNELS, size: int = SIZE, kernel: int = 3) -> onnx.ModelProto:
    """Convolution, ReLU, global average, CLASSES logits; weights from a seed."""
    rng = np.random.default_rng(3)
    weights = numpy_helper.from_array(rng.normal(size=(CLASSES, channels, kernel, kernel)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", kernel_shape=[kernel] * 2, pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("GlobalAveragePool", ["b"], ["c"], name="mean"),
        helper.make_node("Flatten", ["c"], ["y"], name="flat"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, size, size])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    return model


def _images(count: int = 8, channels: int = CHANNELS, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(count, channels, size, size)).astype(np.float32)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model all the way: m.onnx, calib.npy, q.onnx, m.cnna, labels.txt."""
    folder = tmp_path_factory.mktemp("good")
    onnx.save(_model(), folder / "m.onnx")
    np.save(folder / "calib.npy", _images())
    (folder / "labels.txt").write_text("".join(f"class {number}\n" for number in range(CLASSES)))
    m, q, calib = (str(folder / name) for name in ("m.onnx", "q.onnx", "calib.npy"))
    assert main(["quantize", m, "--calib", calib, "-o", q]) == 0
    assert main(["compile", q, "--config", "tiny", "-o", str(folder / "m.cnna")]) == 0
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must be refused; answers the line. `out` stands for an output that must not be left."""

    def run(*arguments: object) -> str:
        out = tmp_path / "out"
        capsys.readouterr()
        code = main([str(out) if argument == "out" else str(argument) for argument in arguments])
        said = capsys.readouterr().err
        lines = [line for line in said.splitlines() if not line.startswith("note: ")]
        assert code == 2, said
        assert len(lines) == 1, said
        assert "Traceback" not in said
        assert "internal error" not in said
        assert not list(tmp_path.glob("*out*")) + list(tmp_path.glob(".*"))
        return lines[0]

    return run


def _edited(folder: Path, edit: Edit, **sizes: int) -> Path:
    """The model with something wrong with it."""
    model = _model(**sizes)
    edit(model)
    path = folder / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# --- models ---


@pytest.mark.parametrize("content", [b"", b"hello\n", b"PK\x03\x04", bytes(range(256)) * 4])
@pytest.mark.parametrize("command", ["quantize", "compile"])
def test_not_an_onnx_file(good: Path, tmp_path: Path, refused: Callable[..., str], content: bytes, command: str) -> None:
    """Any file may be named by mistake."""
    (tmp_path / "bad.onnx").write_bytes(content)
    options = ["--calib", good / "calib.npy"] if command == "quantize" else ["--config", "tiny"]
    assert "bad.onnx" in refused(command, tmp_path / "bad.onnx", *options, "-o", "out")


def test_nan_weights(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A training run that diverged; its scales would be NaN too."""

    def edit(model: onnx.ModelProto) -> None:
        weights = numpy_helper.to_array(model.graph.initializer[0]).copy()
        weights[1, 2, 0, 1] = np.nan
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))

    line = refused("quantize", _edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "bad.onnx" in line
    assert "conv" in line
    assert "NaN" in line


def test_unknown_operator_in_the_middle(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """An operator that only the CPU has cannot stand between two layers of the accelerator."""
    line = refused("quantize", _edited(tmp_path, _tanh_in_the_middle), "--calib", good / "calib.npy", "-o", "out")
    assert "bad.onnx" in line
    assert "strange" in line
    assert "Tanh" in line


def _tanh_in_the_middle(model: onnx.ModelProto) -> None:
    """conv, Tanh, conv."""
    model.graph.node[1].CopyFrom(helper.make_node("Tanh", ["a"], ["t"], name="strange"))
    model.graph.node.insert(2, helper.make_node("Conv", ["t", "w2"], ["b"], name="conv2", kernel_shape=[1, 1]))
    weights = np.eye(CLASSES, dtype=np.float32)[:, :, None, None]
    model.graph.initializer.append(numpy_helper.from_array(weights, "w2"))


def test_operator_of_another_domain(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A custom operator is unknown to ONNX itself."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[1].CopyFrom(helper.make_node("Frobnicate", ["a"], ["b"], name="strange", domain="com.example"))
        model.opset_import.append(helper.make_opsetid("com.example", 1))

    line = refused("quantize", _edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "com.example" in line
    assert "Frobnicate" in line


def test_opset_from_the_future(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A newer exporter than this onnx knows."""

    def edit(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 999

    line = refused("quantize", _edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "999" in line
    assert "bad.onnx" in line


def test_input_without_a_size(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """Exported with every axis free."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"

    line = refused("quantize", _edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "'x'" in line
    assert "axis 2" in line


def test_float_model_given_to_compile(good: Path, refused: Callable[..., str]) -> None:
    """The step in between was left out: the line must say which."""
    line = refused("compile", good / "m.onnx", "--config", "tiny", "-o", "out")
    assert "m.onnx" in line
    assert "cnna quantize" in line


def test_memory_too_small_for_a_layer(tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """One output pixel needs a window that feature memory cannot hold: no tile is small enough."""
    config, kernel = preset("tiny"), 11
    channels = 2 * config.ci * config.feature_words // kernel**2
    onnx.save(_model(channels, kernel, kernel), tmp_path / "m.onnx")
    np.save(tmp_path / "calib.npy", _images(2, channels, kernel))
    assert main(["quantize", str(tmp_path / "m.onnx"), "--calib", str(tmp_path / "calib.npy"), "-o", str(tmp_path / "q.onnx")]) == 0
    line = refused("compile", tmp_path / "q.onnx", "--config", "tiny", "-o", "out")
    assert "q.onnx" in line
    assert "conv" in line
    assert "tiny" in line or str(config.feature_words) in line


@pytest.mark.parametrize(("option", "value"), [("--config", "huge"), ("--batch", "0"), ("--batch", "100000")])
def test_compile_options(good: Path, refused: Callable[..., str], option: str, value: str) -> None:
    """Values that no accelerator has."""
    options = {"--config": "tiny", option: value}
    assert value in refused("compile", good / "q.onnx", *[part for pair in options.items() for part in pair], "-o", "out")


# --- arrays ---


@pytest.mark.parametrize("images", [_images(0), _images(4, size=SIZE + 1), _images(4)[0], _images(4).astype(np.uint8)])
def test_calibration_that_does_not_fit(good: Path, tmp_path: Path, refused: Callable[..., str], images: np.ndarray) -> None:
    """None at all, of another size, without a batch axis, without preprocessing."""
    np.save(tmp_path / "calib.npy", images)
    assert "calib.npy" in refused("quantize", good / "m.onnx", "--calib", tmp_path / "calib.npy", "-o", "out")


def test_input_of_another_shape(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """NHWC instead of NCHW is the usual mistake."""
    np.save(tmp_path / "x.npy", _images(2).transpose(0, 2, 3, 1))
    line = refused("run", good / "m.cnna", "--input", tmp_path / "x.npy", "--device", "emulator", "-o", "out")
    assert "x.npy" in line
    assert f"[N, {CHANNELS}, {SIZE}, {SIZE}]" in line


def test_labels_of_another_model(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The names of 1,000 classes for a model of four would name them wrongly."""
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    run = ["run", good / "m.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out", "--labels"]
    line = refused(*run, tmp_path / "labels.txt")
    assert "labels.txt" in line
    assert f"{CLASSES} classes" in line
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in refused(*run, tmp_path / "labels.txt")


# --- artifacts ---


def _altered(source: Path, target: Path, change: Callable[[dict], None], resign: bool = True) -> Path:
    """The artifact with its manifest changed, and its digest made right again where `resign`."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    if resign:
        members["manifest.sha256"] = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


@pytest.mark.parametrize("command", [["report"], ["run", "--device", "emulator", "--input", "calib.npy"]])
def test_artifact_of_another_version(good: Path, tmp_path: Path, refused: Callable[..., str], command: list[str]) -> None:
    """A newer schema may mean anything: nothing of it may be believed."""
    bad = _altered(good / "m.cnna", tmp_path / "bad.cnna", lambda manifest: manifest.update(schema=99))
    line = refused(command[0], bad, *[good / part if part.endswith(".npy") else part for part in command[1:]])
    assert "bad.cnna" in line
    assert "99" in line


def test_altered_artifact(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A flipped bit in the weights would be a wrong answer, silently."""
    bad = _altered(good / "m.cnna", tmp_path / "bad.cnna", lambda manifest: manifest.update(macs=1), resign=False)
    assert "bad.cnna" in refused("run", bad, "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_truncated_artifact(good: Path, tmp_path: Path, refused: Callable[..., str], part: float) -> None:
    """A copy that was interrupted."""
    data = (good / "m.cnna").read_bytes()
    (tmp_path / "bad.cnna").write_bytes(data[: int(part * len(data))])
    assert "bad.cnna" in refused("run", tmp_path / "bad.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


@pytest.mark.parametrize("more", [b"\0", b"x" * 22, b"PK\x05\x06" + bytes(18)])
@pytest.mark.parametrize("at_end", [True, False])
def test_bytes_that_are_no_members(good: Path, tmp_path: Path, refused: Callable[..., str], more: bytes, at_end: bool) -> None:
    """No digest covers them: what else the file carries, nobody has checked."""
    data = (good / "m.cnna").read_bytes()
    (tmp_path / "bad.cnna").write_bytes(data + more if at_end else b"PK" + more + data)
    assert "bad.cnna" in refused("run", tmp_path / "bad.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


def test_onnx_given_to_run(good: Path, refused: Callable[..., str]) -> None:
    """The commonest mix-up."""
    assert "q.onnx" in refused("run", good / "q.onnx", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


# --- files ---

COMMANDS = {  # one whole command line each; {} is where the bad file goes
    "model of quantize": "quantize {} --calib calib.npy -o out",
    "calibration": "quantize m.onnx --calib {} -o out",
    "model of compile": "compile {} --config tiny -o out",
    "artifact of run": "run {} --device emulator --input calib.npy -o out",
    "input of run": "run m.cnna --device emulator --input {} -o out",
    "labels of run": "run m.cnna --device emulator --input calib.npy --labels {} -o out",
    "artifact of report": "report {}",
    "figures of report": "report m.cnna --measured {}",
}
OUTPUTS = {
    "quantize": "quantize m.onnx --calib calib.npy -o {}",
    "compile": "compile q.onnx --config tiny -o {}",
    "answers of run": "run m.cnna --device emulator --input calib.npy -o {}",
    "figures of run": "run m.cnna --device emulator --input calib.npy --json {}",
    "figures of doctor": "doctor --json {}",
    "models": "models digits -o {}",
    "page of report": "report m.cnna --html {}",
    "picture of report": "report m.cnna --png {}",
    "waveform": "run m.cnna --input calib.npy --trace {}",
}


def _words(line: str, good: Path, bad: Path) -> list[object]:
    """The command with `bad` for {} and good files for good names."""
    return [bad if word == "{}" else good / word if "." in word else word for word in line.split()]


@pytest.mark.parametrize("what", COMMANDS)
def test_a_file_that_is_missing(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """A misspelt name: the line must show it."""
    assert "nowhere" in refused(*_words(COMMANDS[what], good, tmp_path / "nowhere"))


@pytest.mark.parametrize("what", COMMANDS)
def test_a_folder_in_the_place_of_a_file(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """Tab completion stopped a name too early."""
    (tmp_path / "folder").mkdir()
    assert "folder" in refused(*_words(COMMANDS[what], good, tmp_path / "folder"))


@pytest.mark.parametrize("what", OUTPUTS)
def test_an_output_that_cannot_be_written(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """In a folder that is not there, or itself one; refused before the work, not after it."""
    (tmp_path / "folder").mkdir()
    for bad in (tmp_path / "folder", tmp_path / "nowhere" / "file"):
        assert str(bad) in refused(*_words(OUTPUTS[what], good, bad))


@pytest.mark.parametrize("command", ["compile q.onnx --config tiny -o out --dump {}", "rtl --config tiny --module ring -o {}"])
def test_a_file_in_the_place_of_a_folder(good: Path, tmp_path: Path, refused: Callable[..., str], command: str) -> None:
    """Refused with its name, and the file left as it is."""
    (tmp_path / "file").write_text("precious")
    assert str(tmp_path / "file") in refused(*_words(command, good, tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "precious"


def test_a_block_that_there_is_not(tmp_path: Path, refused: Callable[..., str]) -> None:
    """The line lists those there are, and no empty folder stays; without --config they are those of tiny."""
    line = refused("rtl", "--module", "flux", "-o", "out")
    assert "flux" in line
    assert "array" in line


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk(good: Path, refused: Callable[..., str]) -> None:
    """One line: the archive's own complaint about what it cannot finish does not follow."""
    assert "no space left" in refused(*_words(OUTPUTS["answers of run"], good, Path("/dev/full")))


def test_every_such_error_is_the_users() -> None:
    """The tree's own word for exit code 2; the tests above rely on it."""
    assert UserError("x").exit_code == 2


# --- outputs that would destroy something ---

SAME = {  # {} is a copy of the file named first; each command would write over it, or write it twice
    "model of quantize": ("m.onnx", "quantize {} --calib calib.npy -o {}"),
    "calibration": ("calib.npy", "quantize m.onnx --calib {} -o {}"),
    "model of compile": ("q.onnx", "compile {} --config tiny -o {}"),
    "figures of compile": ("q.onnx", "compile {} --config tiny -o out --json {}"),
    "input of run": ("calib.npy", "run m.cnna --device emulator --input {} -o {}"),
    "labels of run": ("labels.txt", "run m.cnna --device emulator --input calib.npy --labels {} -o {}"),
    "figures of run": ("m.cnna", "run {} --device emulator --input calib.npy --json {}"),
    "waveform": ("m.cnna", "run {} --input calib.npy --trace {}"),
    "page of report": ("m.cnna", "report {} --html {}"),
    "page and picture": ("labels.txt", "report m.cnna --html {} --png {}"),
    "page and figures": ("labels.txt", "report m.cnna --html {} --json {}"),
    "two sets of images": ("calib.npy", "models digits --calib {} --test {}"),
}


@pytest.mark.parametrize("what", SAME)
def test_one_file_for_two_things(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """A trained model written over cannot be had back; the line names the file and it stays as it was."""
    source, command = SAME[what]
    precious = tmp_path / source
    precious.write_bytes((good / source).read_bytes())
    line = refused(*_words(command, good, precious))
    assert str(precious) in line
    assert "another name" in line
    assert precious.read_bytes() == (good / source).read_bytes()


def test_one_file_by_two_names(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """By way of another folder, and through a link: the names differ, the file does not."""
    (tmp_path / "folder").mkdir()
    precious, link = tmp_path / "m.cnna", tmp_path / "link.cnna"
    precious.write_bytes((good / "m.cnna").read_bytes())
    link.symlink_to(precious)
    for other in (tmp_path / "folder" / ".." / "m.cnna", link):
        assert str(other) in refused("report", precious, "--html", other)
    assert precious.read_bytes() == (good / "m.cnna").read_bytes()


def test_outputs_not_there_yet_of_one_name(good: Path, refused: Callable[..., str]) -> None:
    """Nothing is lost then, but the second output would take the place of the first."""
    assert "--png" in refused("report", good / "m.cnna", "--html", "out", "--png", "out")


@pytest.mark.parametrize("what", ["quantize", "compile", "models"])
def test_figures_that_cannot_be_written(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """Refused before minutes of work, and no output stays from a command that failed."""
    (tmp_path / "folder").mkdir()
    for bad in (tmp_path / "folder", tmp_path / "nowhere" / "file"):
        words = _words(OUTPUTS[what], good, tmp_path / "out")
        assert str(bad) in refused(*words, "--json", bad)


# --- options ---


def test_a_cache_that_is_no_folder(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A file, and a folder that nobody can make."""
    (tmp_path / "file").write_text("precious")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        assert str(bad) in refused("run", good / "m.cnna", "--input", good / "calib.npy", "--cache", bad)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("models squeezenet -o out", "--seed -1"),
        ("quantize m.onnx --calib calib.npy -o out", "--std -1"),
        ("quantize m.onnx --calib calib.npy -o out", "--std 0"),
        ("quantize m.onnx --calib calib.npy -o out", "--std 1 nan 1"),
        ("run m.cnna --device emulator --input calib.npy -o out --labels labels.txt", "--top 0"),
        ("run m.cnna --device emulator --input calib.npy -o out --labels labels.txt", "--top -2"),
        ("run m.cnna --input calib.npy --trace out", "--from-cycle -5"),
        ("run m.cnna --input calib.npy --trace out", "--to-cycle -5"),
        ("run m.cnna --input calib.npy --trace out", "--to-cycle 50 --from-cycle 100"),
        ("run m.cnna --input calib.npy -o out", "--ddr-bytes-per-cycle 0"),
        ("run m.cnna --input calib.npy -o out", "--ddr-bytes-per-cycle 65"),
        ("run m.cnna --input calib.npy -o out", "--ddr-latency 0"),
        ("report m.cnna --html out", "--ddr-bytes-per-cycle -48"),
        ("explore q.onnx --png out", "--ddr-latency 10001"),
    ],
)
def test_numbers_out_of_range(good: Path, refused: Callable[..., str], command: str, options: str) -> None:
    """Each would be an answer to another question: a picture turned negative, the worst classes, an empty waveform."""
    assert options.split()[0] in refused(*_words(command, good, good), *options.split())


@pytest.mark.parametrize(
    "command",
    [
        "run m.cnna --device emulator --input calib.npy -o out --ddr-bytes-per-cycle 32",
        "explore q.onnx --layer conv --config tiny --png out --ddr-latency 99",
    ],
)
def test_a_memory_for_what_has_none(good: Path, refused: Callable[..., str], command: str) -> None:
    """The figures would be those of the planned memory, and look like the other's."""
    assert "--ddr-bytes-per-cycle" in refused(*_words(command, good, good))


def test_a_waveform_by_another_formats_name(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """An FST file called .vcd or .txt opens nowhere."""
    line = refused("run", good / "m.cnna", "--input", good / "calib.npy", "--trace", tmp_path / "w.txt")
    assert "w.txt" in line
    assert ".fst" in line


@pytest.mark.parametrize(
    "found",
    [
        *('{"layers": [], "ddr": 48}', '{"layers": [], "ddr": {"bytes_per_cycle": 0, "latency_cycles": 120}}'),
        *("{", "[]", "{}", '{"config": "zcu102", "batch": 1, "layers": [], "cycles": 1, "device": "rtl"}'),
        *(f'{{"layers": [], "unit_clocks": {clocks}}}' for clocks in ("3", "[1]", '{"conv": 1}', '{"conv": [2, 1]}')),
    ],
)
def test_figures_of_something_else(good: Path, tmp_path: Path, refused: Callable[..., str], found: str) -> None:
    """Not JSON, not figures, those of another model: the line names the file, of which a script has many."""
    (tmp_path / "r.json").write_text(found)
    assert str(tmp_path / "r.json") in refused("report", good / "m.cnna", "--measured", tmp_path / "r.json")
