"""The host in C++ runs any artifact: pieces on the CPU in onnxruntime, and answers as Python does, to the bit."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import virtual
from numpy.typing import NDArray

from cnna import InferenceSession
from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset

from .compiler.test_integer_ends import MODELS, given, model_of
from .compiler.written import Shapes, images, written
from .host.model.test_answers import CONSTANTS as TAIL_CONSTANTS
from .host.model.test_answers import NAMED, TAILS, network
from .host.model.test_pieces import ALONE, CAPTURING, GATED, WEIGHTS
from .test_cpp_host import build, play, unpacked

BATCH = 2
LIBRARY = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
TOLD = re.compile(r"^output (.+): (\w+) \[([\d, ]*)\]$", re.M)
BEFORE = """g (float[N,3,8,8] x, float[N,8] k) => (float[N,8,8,8] y, float[N,8] z) {
    s = Sin (x) a = Conv <pads=[1,1,1,1]> (s, w) b = Relu (a) t = Cos (b) y = Conv (t, u)
    h = Exp (k) m = MatMul (h, v) z = Softmax (m) }"""
FIXED = """g (float[N,3,8,8] x, float[8,4] k) => (float[N,8,8,8] y, float[?,?] z) {
    a = Conv <pads=[1,1,1,1]> (x, w) y = Sin (a) z = Cos (k) }"""
CUT: dict[str, tuple[str, Shapes]] = {  # name: text, weights
    "three programs, two outputs": (GATED, WEIGHTS),
    "a graph inside": (CAPTURING, {"w": (8, 3, 3, 3), "u": (8, 8, 1, 1)}),
    "the CPU alone": (ALONE, {}),
    "two inputs, the CPU first": (BEFORE, {"w": (8, 3, 3, 3), "u": (8, 8, 1, 1), "v": (8, 8)}),
}
Feeds = dict[str, NDArray[np.generic]]


@pytest.fixture(scope="module")
def host(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program as the guide builds it, with the library of this installation."""
    made = str(tmp_path_factory.mktemp("cpp") / "host")
    build(root, made, "g++")
    return [made, "--onnxruntime", str(LIBRARY)]


@pytest.fixture
def board(tmp_path: Path) -> virtual.Virtual:
    """Registers and DDR of an accelerator that has not run."""
    return virtual.Virtual(tmp_path, preset("tiny"))


def batches(artifact: Artifact, x: Feeds) -> Iterator[Feeds]:
    """The whole batches of some samples."""
    size = artifact.manifest["batch"]
    for start in range(0, len(next(iter(x.values()))) // size * size, size):
        yield {name: values[start : start + size] for name, values in x.items()}


def compared(host: list[str], artifact: Artifact, x: Feeds, board: virtual.Virtual, folder: Path) -> str:
    """Compares the host's answers to all batches with Python's. Returns what the host said."""
    order = [entry["name"] for entry in artifact.manifest["model_inputs"]]
    raw = b"".join(batch[name].tobytes() for batch in batches(artifact, x) for name in order)
    answer, said = play(host, unpacked(artifact, folder), raw, board)
    told = [(name, kind, [int(size) for size in sizes.split(",") if size]) for name, kind, sizes in TOLD.findall(said)]
    at = 0
    with InferenceSession(artifact, "emulator") as session:
        names = [output.name for output in session.get_outputs()]
        for batch in batches(artifact, x):
            for name, wanted in zip(names, session.run(None, batch), strict=True):
                for number, one in enumerate(wanted if isinstance(wanted, list) else [wanted]):
                    if told:
                        apart = f"{name}.{number}" if isinstance(wanted, list) else name
                        assert told.pop(0) == (apart, one.dtype.name, list(one.shape))
                    found = np.frombuffer(answer[at : at + one.nbytes], one.dtype).reshape(one.shape)
                    np.testing.assert_array_equal(found, one, err_msg=name)
                    at += one.nbytes
    assert (at, told) == (len(answer), []), said
    return said


def some(cases: Iterable[str]) -> list[Any]:
    """Every third case in `make test`, the others in `make test-all`: each takes seconds, since its model is compiled."""
    return [pytest.param(case, marks=pytest.mark.slow if number % 3 else ()) for number, case in enumerate(cases)]


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("name", CUT)
def test_pieces_before_between_and_behind_the_accelerator(
    host: list[str], board: virtual.Virtual, tmp_path: Path, name: str, batch: int
) -> None:
    """A tensor between two pieces would be another sample's, or one would be rounded twice or never."""
    text, weights = CUT[name]
    model = written(text, weights)
    artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=batch)
    kinds = [piece.manifest["kind"] for piece in artifact.pieces]
    assert "cpu" in kinds
    said = compared(host, artifact, images(model, 2 * batch, seed=5), board, tmp_path)
    assert said.count("counts no clocks, as an emulator does" if "accelerator" in kinds else "by the CPU alone") == 2


def test_names_beyond_ascii(host: list[str], board: virtual.Virtual, tmp_path: Path) -> None:
    """onnxruntime would not find a tensor whose name the manifest escapes."""
    model = written(GATED, WEIGHTS)
    ends = [*model.graph.input, *model.graph.output]
    lists = [part for node in model.graph.node for part in (node.input, node.output)]
    for old in ("x", "a", "d", "y"):
        new = f'{old}/größe\U0001f600"\\'
        for value in ends:
            value.name = new if value.name == old else value.name
        for names in lists:
            names[:] = [new if name == old else name for name in names]
    artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH)
    compared(host, artifact, images(model, 2 * BATCH), board, tmp_path)


def test_an_input_without_a_batch_axis_is_given_for_each_sample(host: list[str], board: virtual.Virtual, tmp_path: Path) -> None:
    """The host would read the samples of one input as those of another."""
    model = written(FIXED, {"w": (8, 3, 3, 3)})
    rng = np.random.default_rng(1)
    x = {name: rng.normal(size=(2 * BATCH, *shape)).astype(np.float32) for name, shape in (("x", (3, 8, 8)), ("k", (8, 4)))}
    artifact = compile_model(quantise(model, x)[0], preset("tiny"), batch=BATCH)
    assert [entry["shape"] for entry in artifact.manifest["model_inputs"]] == [[3, 8, 8], [8, 4]]
    compared(host, artifact, {**x}, board, tmp_path)


@pytest.mark.parametrize("case", some(TAILS))
def test_answers_are_joined_along_the_batch(host: list[str], board: virtual.Virtual, tmp_path: Path, case: str) -> None:
    """Samples would follow each other along another axis, or an answer have another type or shape than Python's."""
    kind, _, tail = TAILS[case]
    model = network(kind, tail)
    compared(host, compile_model(model, preset("tiny"), batch=BATCH), images(model, BATCH), board, tmp_path)


@pytest.mark.parametrize("name", some(MODELS))
def test_inputs_and_outputs_of_integers(host: list[str], board: virtual.Virtual, tmp_path: Path, name: str) -> None:
    """uint8 would be taken for a picture of floats, or be off by 128."""
    model = model_of(name)
    compared(host, compile_model(model, preset("tiny"), batch=BATCH), {"x": given(model, BATCH)}, board, tmp_path)


def test_sizes_that_depend_on_the_data_are_told(host: list[str], board: virtual.Virtual, tmp_path: Path) -> None:
    """Nobody could tell where one sample's answer ends."""
    constants: Shapes = {name: TAIL_CONSTANTS[name] for name in ("w", "half", "open_4")}  # type: ignore[misc]
    model = written(NAMED, constants)
    artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH)
    said = compared(host, artifact, images(model, 2 * BATCH), board, tmp_path)
    assert len(re.findall(r"^output places\.[01]: int64 \[4, \d+\]$", said, re.M)) == 2 * BATCH


def test_without_onnxruntime_one_line_names_piece_and_remedy(host: list[str], board: virtual.Virtual, tmp_path: Path) -> None:
    """A user would see an answer that lacks what the CPU computes, or not learn what to install."""
    text, weights = CUT["three programs, two outputs"]
    model = written(text, weights)
    artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH)
    folder = unpacked(artifact, tmp_path)
    cpu = artifact.manifest["pieces"][1]
    assert cpu["kind"] == "cpu"
    operators = ", ".join(sorted({entry["op"] for entry in cpu["operators"]}))
    remedy = "; install it, or name its library with --onnxruntime LIBONNXRUNTIME.SO\n"
    for options, why in (([], "libonnxruntime.so is not found"), (["--onnxruntime", "/nowhere.so"], "/nowhere.so: cannot open")):
        answer, said = play([host[0], *options], folder, b"", board)
        assert not answer
        assert said.startswith(f"host: piece 1 ({operators}) runs on the CPU and needs onnxruntime: {why}")
        assert said.endswith(remedy)
        assert said.count("\n") == 1
    assert "has no C interface" in play([host[0], "--onnxruntime", "libm.so.6"], folder, b"", board)[1]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda text: text[: len(text) // 2], "the manifest"),
        (lambda text: text.replace('"kind":"cpu"', '"kind":"cpu\\'), "the manifest"),
        (lambda text: text.replace('"batch":2', '"batch":0'), "the manifest has an impossible batch"),
        (lambda text: text.replace('"image_bytes":', '"image_bytes":9'), "lies outside of its segment"),
        (lambda text: text.replace('"workspace":', '"workspace":-'), "a segment of an impossible size"),
        (lambda text: text.replace('"pieces":', '"parts":'), "the manifest has no entry pieces"),
        (lambda text: "[" * 100_000, "the manifest is too deep"),
        (lambda text: "t", "the manifest is no JSON"),
        (lambda text: '"\\u12', "the manifest is no JSON"),
    ],
    ids=["cut", "open string", "no batch", "port outside", "negative", "no pieces", "deep", "word", "escape"],
)
def test_a_damaged_manifest_is_one_line(host: list[str], board: virtual.Virtual, tmp_path: Path, change, wanted: str) -> None:
    """The program would crash, or write beyond the memory that it has mapped."""
    text, weights = CUT["three programs, two outputs"]
    model = written(text, weights)
    folder = unpacked(compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH), tmp_path)
    manifest = (folder / "manifest.json").read_text()
    damaged = change(manifest)
    assert damaged != manifest
    (folder / "manifest.json").write_text(damaged)
    answer, said = play(host, folder, images(model, BATCH)["x"].tobytes(), board)
    assert not answer
    assert said.startswith("host: ")
    assert wanted in said
    assert said.count("\n") == 1


def test_damaged_pieces_and_words_are_one_line(host: list[str], board: virtual.Virtual, tmp_path: Path) -> None:
    """A user would look for the fault in the model, or in this program."""
    text, weights = CUT["three programs, two outputs"]
    model = written(text, weights)
    folder = unpacked(compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH), tmp_path)
    assert "K needs a model with one output of float32" in play(host, folder, images(model, BATCH)["x"].tobytes(), board, "1")[1]
    assert play(host, folder, b"", board, "many") == (b"", "host: K many is no number\n")
    assert play(host, folder, b"", board, "1", "2")[1].startswith("host: usage: host [--onnxruntime LIB] MODEL")
    (folder / "piece1.onnx").write_bytes(bytes((folder / "piece1.onnx").stat().st_size))
    said = play(host, folder, b"", board)[1]
    assert re.fullmatch(r"host: piece 1 \(.+\): onnxruntime: .+\n", said)
    (folder / "piece1.onnx").unlink()
    assert "piece1.onnx cannot be read" in play(host, folder, b"", board)[1]


@pytest.mark.slow
def test_sanitizers_find_nothing(root: Path, board: virtual.Virtual, tmp_path: Path) -> None:
    """An access beyond an array, or an undefined shift, would show only on another machine."""
    made = str(tmp_path / "host")
    build(root, made, "g++ -g -fsanitize=address,undefined -fno-sanitize-recover=all", "-O1")
    host = [made, "--onnxruntime", str(LIBRARY)]
    for number, (text, weights) in enumerate(CUT.values()):
        model = written(text, weights)
        artifact = compile_model(quantise(model, images(model, 8))[0], preset("tiny"), batch=BATCH)
        folder = tmp_path / str(number)
        folder.mkdir()
        compared(host, artifact, images(model, 2 * BATCH, seed=5), board, folder)
    assert subprocess.run([made], capture_output=True, check=False).returncode == 1
