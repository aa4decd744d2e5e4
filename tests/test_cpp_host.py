"""The host in C++, with the host library, gives the reference's answers on an accelerator whose registers and DDR are memory."""

import re
import shutil
import subprocess
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import virtual
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cnna import InferenceSession
from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.sim.emulator.memory import DDR_BASE
from cnna.spec import cpu_ops
from cnna.spec.artifact import Artifact, save
from cnna.spec.config import preset
from cnna.spec.regmap import PLACES, QUEUE_MINOR, REGISTERS, VERSION, offset

BATCH, SECONDS, BUILD_SECONDS = 2, 60, 600
SHAPE = (3, 20, 24)


@pytest.fixture(scope="module")
def digits() -> Artifact:
    """The digits network in batches of two. Its input is folded, and its answer has a change of shape behind it."""
    images = data.load().calibration.images
    return compile_model(quantise(load_model(data.NETWORK), {"image": images})[0], preset("tiny"), batch=BATCH)


@pytest.fixture(scope="module", params=["g++", pytest.param("aarch64-linux-gnu-g++", marks=pytest.mark.aarch64)])
def host(request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of the program, built as the guide says, without a warning of the compiler."""
    made = str(tmp_path_factory.mktemp("cpp") / "host")
    assert shutil.which(request.param), f"{request.param} is missing: apt install g++-aarch64-linux-gnu qemu-user"
    build(root, made, f"{request.param} -static -DCNNA_NO_ONNXRUNTIME")
    return [made] if request.param == "g++" else ["qemu-aarch64", "-cpu", "cortex-a53", made]


def build(root: Path, made: str, compiler: str, level: str = "-O3") -> None:
    """Builds the program by the guide's line, with another compiler, more options or another level, and without a warning."""
    (line,) = re.findall(r"^ +(g\+\+ .*host\.cpp.*)$", (root / "docs" / "howto" / "bare-metal.md").read_text(), re.M)
    strict = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
    line = line.replace("g++", f"{compiler} {strict}", 1).replace("build/host", made).replace("-O3", level)
    subprocess.run(["bash", "-c", line], cwd=root, check=True, timeout=BUILD_SECONDS)


@pytest.fixture
def board(tmp_path: Path) -> virtual.Virtual:
    """Registers and DDR of an accelerator that has not run."""
    return virtual.Virtual(tmp_path, preset("tiny"))


def play(
    host: list[str], model: Path, x: NDArray[Any] | bytes, board: virtual.Virtual, *more: str, **other: str
) -> tuple[bytes, str]:
    """Standard output and error of the host, while the board answers. other: words in the place of those that are right."""
    right = {"registers": str(board.registers.filename), "ddr": str(board.ddr.filename), "address": hex(DDR_BASE)}
    files = [str(model), *(right | other).values(), *more]
    (model.parent / "x.f32").write_bytes(x if isinstance(x, bytes) else x.tobytes())
    until = time.monotonic() + SECONDS
    with (
        (model.parent / "x.f32").open() as given,
        (model.parent / "y.f32").open("wb") as taken,
        subprocess.Popen([*host, *files], stdin=given, stdout=taken, stderr=subprocess.PIPE, text=True) as process,
    ):
        while process.poll() is None:
            if time.monotonic() > until:
                process.kill()
            board.look()
        assert process.stderr is not None
        said = process.stderr.read()
    return (model.parent / "y.f32").read_bytes(), said


def unpacked(artifact: Artifact, folder: Path) -> Path:
    """The folder of a model as `unzip` makes it."""
    save(artifact, folder / "m.cnna")
    with zipfile.ZipFile(folder / "m.cnna") as members:
        members.extractall(folder / "model")
    return folder / "model"


def test_its_answers_are_the_references(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """A field, an offset, the fold of the input or a rounding would differ. The second call finds an accelerator that has run."""
    model, x = unpacked(digits, tmp_path), data.load().test.images[: 3 * BATCH].astype(np.float32)
    with InferenceSession(digits, "reference") as session:
        (wanted,) = session.run(None, {"image": x})
    places = cpu_ops.top_k(wanted, 3)[1]
    for _ in range(2):
        answer, said = play(host, model, x, board, "3")
        assert said.count("a batch is answered; this accelerator counts no clocks, as an emulator does\n") == 3
        assert "0 clocks" not in said
        np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(wanted.shape), wanted)
        told = re.findall(r"^greatest: (\d+) \(.*?\) (\d+) \(.*?\) (\d+) ", said, re.M)
        np.testing.assert_array_equal(np.array(told, np.int64), places)


def test_batches_wait_in_the_queue(host: list[str], digits: Artifact, tmp_path: Path) -> None:
    """The accelerator would wait for the host between batches; or an answer would be another batch's, in one of three places."""
    board = virtual.Virtual(tmp_path, preset("tiny"), pause_seconds=0.2)
    model, x = unpacked(digits, tmp_path), data.load().test.images[: 8 * BATCH].astype(np.float32)
    with InferenceSession(digits, "reference") as session:
        (wanted,) = session.run(None, {"image": x})
    answer, _ = play(host, model, x, board)
    np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(wanted.shape), wanted)
    assert board.most_waiting == 1 + PLACES
    assert int(board.registers[offset("FINISHED") // 4]) == 8


def test_a_map_before_the_queue_is_driven_as_before(
    host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path
) -> None:
    """Its CTRL has no bit that queues: nothing would ever run."""
    board.registers[offset("VERSION") // 4] = REGISTERS["VERSION"].pack(major=VERSION[0], minor=QUEUE_MINOR - 1)
    board.registers[offset("QUEUE") // 4] = 0xFFFFFFFF  # whatever lies there
    x = data.load().test.images[: 3 * BATCH].astype(np.float32)
    with InferenceSession(digits, "reference") as session:
        (wanted,) = session.run(None, {"image": x})
    answer, _ = play(host, unpacked(digits, tmp_path), x, board)
    np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(wanted.shape), wanted)
    assert not board.most_waiting


def test_an_answer_does_not_wait_for_the_next_batch(
    host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path
) -> None:
    """Whoever sends a picture when the answer to the one before has come would wait for ever."""
    x = data.load().test.images[: 3 * BATCH].astype(np.float32)
    files = [str(unpacked(digits, tmp_path)), str(board.registers.filename), str(board.ddr.filename), hex(DDR_BASE)]
    with (
        subprocess.Popen([*host, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        ThreadPoolExecutor(1) as other,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for first in range(0, len(x), BATCH):
            process.stdin.write(x[first : first + BATCH].tobytes())
            process.stdin.flush()
            answer = other.submit(process.stdout.read, BATCH * 10 * 4)
            until = time.monotonic() + SECONDS
            while not answer.done():
                if time.monotonic() > until:
                    process.kill()
                board.look()
            assert len(answer.result()) == BATCH * 10 * 4
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def test_a_picture_folded_both_ways_and_values_between_two_integers(
    host: list[str], board: virtual.Virtual, tmp_path: Path
) -> None:
    """The digits are folded along a row alone, and no pixel of theirs lies half way: a wrong row or rounding would pass."""
    rng = np.random.default_rng(3)
    model = halved()
    artifact = compile_model(
        quantise(model, {"x": rng.normal(0, 1, (8, *SHAPE)).astype(np.float32)})[0], preset("tiny"), batch=BATCH
    )
    (port,) = artifact.program.manifest["inputs"]
    fold = port.get("fold")
    assert fold is not None
    assert min(*fold["step"], *fold["before"]) > 0
    steps = rng.integers(-140, 140, (BATCH, *SHAPE)) + rng.choice([0, 0.5], (BATCH, *SHAPE))
    x = (steps * np.float32(port["scale"])).astype(np.float32)
    with InferenceSession(artifact, "reference") as session:
        (wanted,) = session.run(None, {"x": x})
    answer, _ = play(host, unpacked(artifact, tmp_path), x, board)
    np.testing.assert_array_equal(np.frombuffer(answer, np.float32).reshape(wanted.shape), wanted)


def halved() -> onnx.ModelProto:
    """A convolution of stride 2 with padding on all sides, whose input the compiler folds both ways; its map is the answer."""
    weights = np.random.default_rng(2).normal(0, 0.3, (8, SHAPE[0], 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    sizes: dict[str, list[str | int]] = {"x": ["n", *SHAPE], "y": ["n", 8, SHAPE[1] // 2, SHAPE[2] // 2]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    graph = helper.make_graph([node], "halved", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_it_names_what_it_cannot_run(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """It would wait for ever, or write a program for another array."""
    model, x = unpacked(digits, tmp_path), np.zeros((0, 1, 16, 16), np.float32)
    manifest = (model / "manifest.json").read_text()
    for before, after, reason in (
        ('"op":"Reshape"', '"op":"Sin"', "piece 1 (Sin) runs on the CPU and needs onnxruntime: this program was built without it"),
        ('"pix":2', '"pix":8', "compiled for another accelerator, tiny"),
        ('"schema":5', '"schema":4', "another schema than 5"),
    ):
        assert before in manifest
        (model / "manifest.json").write_text(manifest.replace(before, after))
        assert reason in play(host, model, x, board)[1]


def test_it_refuses_what_has_no_answer(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """NaN would become a number that nobody chose; more of the greatest than there are would be read from beyond the answer."""
    model, x = unpacked(digits, tmp_path), data.load().test.images[:BATCH].astype(np.float32)
    assert play(host, model, x, board, "11") == (b"", "host: K is more than a sample of the answer has values\n")
    x[1, 0, 3, 5] = np.nan
    assert play(host, model, x, board) == (b"", "host: the input holds NaN, for which int8 has no value\n")


def test_an_input_that_ends_within_a_batch_is_no_success(
    host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path
) -> None:
    """The last samples would be missing from the answer, and nobody be told."""
    x = data.load().test.images[: BATCH + 1].astype(np.float32)
    answer, said = play(host, unpacked(digits, tmp_path), x, board)
    assert "host: the input ends after 1024 of the 2048 bytes of a batch" in said
    assert len(answer) == BATCH * 10 * 4


def test_an_empty_input_is_no_success(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """A script whose input went elsewhere would end well, with an empty answer."""
    answer, said = play(host, unpacked(digits, tmp_path), np.zeros((0, 1, 16, 16), np.float32), board)
    assert (answer, said) == (b"", "host: the input is empty: give batches of 2048 bytes of float32\n")


def test_a_folder_that_is_no_whole_artifact_is_refused(
    host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path
) -> None:
    """The last weights would be zeros, or the input be written in front of its segment, and the answers wrong without a word."""
    model, x = unpacked(digits, tmp_path), data.load().test.images[:BATCH].astype(np.float32)
    for name in ("piece0.constants.bin", "piece0.program.bin"):
        whole = (model / name).read_bytes()
        (model / name).write_bytes(whole[:-5])
        told = f"host: {model / name} has {len(whole) - 5} bytes, but {len(whole)} by the manifest: unpack the .cnna again\n"
        assert play(host, model, x, board) == (b"", told)
        (model / name).write_bytes(whole)
    assert play(host, tmp_path, x, board) == (b"", f"host: {tmp_path / 'manifest.json'} cannot be read\n")
    (tmp_path / "manifest.json").mkdir()
    assert play(host, tmp_path, x, board) == (b"", f"host: {tmp_path / 'manifest.json'} cannot be read\n")
    manifest = (model / "manifest.json").read_text()
    assert '"offset":0' in manifest
    (model / "manifest.json").write_text(manifest.replace('"offset":0', '"offset":-4096'))
    assert play(host, model, x, board) == (b"", "host: port image of the manifest lies outside of its segment\n")


def test_places_that_cannot_be_right_are_refused(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """It would die of a signal, or the accelerator stop without a hint at the word that is wrong."""
    model, x = unpacked(digits, tmp_path), np.zeros((0, 1, 16, 16), np.float32)
    (tmp_path / "empty").touch()
    for word, value, reason in (
        ("registers", str(tmp_path / "empty"), f"{tmp_path / 'empty'} has 0 bytes; 4096 are needed at least"),
        ("ddr", str(tmp_path / "empty"), f"{tmp_path / 'empty'} has 0 bytes; 4096 are needed at least"),
        ("address", "0x800000010", "DDR_ADDRESS 0x800000010 is no multiple of 4096, as the accelerator's segments need"),
        ("address", "-4096", "DDR_ADDRESS -4096 is no number"),
        ("address", " -4096", "DDR_ADDRESS  -4096 is no number"),
        ("address", "0x10000000000000000", "DDR_ADDRESS 0x10000000000000000 is too great"),
    ):
        assert play(host, model, x, board, **{word: value}) == (b"", f"host: {reason}\n")


def test_it_says_why_the_accelerator_stopped(host: list[str], digits: Artifact, board: virtual.Virtual, tmp_path: Path) -> None:
    """A host would poll for ever, or take what lies in memory for an answer."""
    model, x = unpacked(digits, tmp_path), data.load().test.images[:BATCH].astype(np.float32)
    program = model / "piece0.program.bin"
    program.write_bytes(b"\xfc\x0f\0\0\0\0\0\0" + program.read_bytes()[8:])  # a write to a register that is not there
    answer, said = play(host, model, x, board)
    assert not answer
    assert "the accelerator stopped: cause" in said
