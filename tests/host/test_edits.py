"""A `.cnna` that somebody has edited, with right digests again: every reader answers, or refuses it in a line, soon."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.report import report
from cnna.compiler.report.html import html
from cnna.compiler.report.table import table
from cnna.compiler.report.trace import trace
from cnna.host.model.board_model import BoardModel
from cnna.host.model.model import Model
from cnna.spec.artifact import load
from cnna.spec.config import preset
from cnna.spec.errors import ArtifactError, CnnaError
from cnna.spec.program.commands import commands
from cnna.spec.regmap import REGISTERS
from tests import qdq_networks

from .edits import changed, edit, with_files, write
from .emulated_board import EmulatedBoard

MOST_TIMES = 2  # of the clocks of work before the edit: readers take as long as they have work
EDITS = 60
NETWORK = 0  # all five engines, and a Reshape on the CPU


@pytest.fixture(scope="module")
def compiled():
    return compile_model(qdq_networks.model(NETWORK), preset("tiny"), batch=2)


@pytest.fixture(scope="module")
def samples():
    return qdq_networks.images(qdq_networks.model(NETWORK), 1, 0)


def _report(artifact, x):
    figures = report.figures(artifact)
    table(figures), html(figures, "").encode(), json.dumps(trace(artifact))


def _work(artifact):
    """Clocks that all engines together work on a program at least."""
    played = (command for program in artifact.programs for command in commands(program.program))
    return sum(command.least_clocks(artifact.config) for command in played)


def _on(device, **options):
    def run(artifact, x):
        with Model(artifact, device=device, **options) as model:
            model.run(x)

    return run


def _board(artifact, x):
    with BoardModel(artifact, EmulatedBoard(), retries=0, timeout_seconds=1.0) as model:
        model.run(x)


READERS = {
    "report": _report,
    "emulator": _on("emulator", check=True),
    "reference": _on("reference"),
    "board": _board,
}


def test_whatever_is_edited_no_reader_ends_in_a_traceback_or_hangs(compiled, samples, tmp_path, seed):
    """Each edit that is not refused at reading goes through every reader: only errors of `spec/errors.py` may come.

    An edit that gives readers endless work must be refused when the file is read.
    """
    loaded = 0
    for number in range(EDITS):
        what, artifact = edit(compiled, np.random.default_rng([seed, number]))
        write(tmp_path / "m.cnna", artifact)
        try:
            artifact = load(tmp_path / "m.cnna")
        except ArtifactError as error:
            assert "\n" not in str(error), what  # noqa: PT017 - either outcome is right, a traceback is not
            continue
        loaded += 1
        assert _work(artifact) <= MOST_TIMES * _work(compiled), what
        for name, read in READERS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    read(artifact, samples)
            except CnnaError:
                pass
            except Exception as error:
                raise AssertionError(f"{name}, after {what}") from error
    assert loaded > EDITS // 10


@pytest.mark.parametrize(
    ("way", "new", "words"),
    [
        (("pieces", 0, "inputs", 0, "image_bytes"), 0, "bytes of port"),
        (("pieces", 0, "inputs", 0, "row_bytes"), 0, "bytes of port"),
        (("pieces", 0, "outputs", 0, "shape", 0), 1, "another shape than its tensor"),
        (("pieces", 0, "inputs", 0, "shape"), [1, 1, 1], "another shape than its tensor"),
        (("model_inputs", 0, "shape", 1), 99, "another size than the model's input"),
        (("model_inputs",), [], "no model_inputs"),
        (("model_outputs", 0, "name"), "nowhere", "nothing makes the model's output nowhere"),
        (("batch",), 1, "writes outside its tensor"),
        (("pieces", 0, "commands", 0, "engine"), "array", "is one of"),
        (("name",), "\ud800", "no text"),
        (("preprocess",), {"scale": 1.0, "mean": [0.0] * 7, "std": [1.0]}, "7 numbers as mean"),
        (("preprocess",), {"scale": 1.0, "mean": [0.0], "std": [1e-300]}, "float32 cannot use"),
    ],
)
def test_an_edited_manifest_is_refused(compiled, tmp_path, way, new, words):
    """Values of the right kinds may contradict each other: a reader would meet an index or a shape that does not fit."""
    edited = changed(dict(compiled.manifest), way, new)
    write(tmp_path / "m.cnna", replace(compiled, manifest=edited))
    with pytest.raises(ArtifactError, match=words):
        load(tmp_path / "m.cnna")


@pytest.mark.parametrize(
    ("register", "value", "words"),
    [
        ("WEIGHT_BEATS", 0x2000016, "beyond the end of its segment"),
        ("WEIGHT_BEATS", 0, "not within"),
        ("WEIGHT_REPEAT", 0xFFFFF, "no conv command takes"),
        ("CONV_KERNEL", 0xFFFF, "weight ring|nothing before it brings"),
        ("CONV_CHUNKS", 0xFFF, "nothing is written"),
        ("CONV_DST", 0xFFFFF, "outside feature memory"),
        ("CONV_OUT", 0x3FFFFFF, "words of feature memory"),
        ("CONV_SRC", 0x7FFFF, "outside feature memory"),
        ("CONV_WAIT_LOAD", 1 << 25 | 0xFFFF, "waits for units of load"),
        ("LOAD_RUNS", 0xFFFF, "words of feature memory"),
        ("STORE_DDR", 0xFFFFFFF0, "beyond the end of its segment"),
        ("STORE_DDR", 8, "multiple of 16"),
        ("STATUS", 1, "no program may write"),
        ("END", 1, "END"),
    ],
)
def test_a_program_that_nothing_could_carry_out_is_refused(compiled, tmp_path, register, value, words):
    """The emulator would run it for minutes or crash; the accelerator would write where it may not, or wait for ever."""
    writes = np.frombuffer(compiled.program.program, "<u4").reshape(-1, 2).copy()
    known = np.flatnonzero(writes[:, 0] == REGISTERS[register].offset)
    at = int(known[0]) if known.size and register != "END" else 0
    writes[at] = REGISTERS[register].offset, value
    write(tmp_path / "m.cnna", with_files(compiled, 0, program=writes.tobytes()))
    with pytest.raises(ArtifactError, match=words):
        load(tmp_path / "m.cnna")


def test_a_register_that_was_never_set_is_refused(compiled, tmp_path):
    """After a reset the register holds 0, which may be illegal: the engine would get a convolution of no block."""
    writes = np.frombuffer(compiled.program.program, "<u4").reshape(-1, 2)
    kept = writes[writes[:, 0] != REGISTERS["CONV_BLOCKS"].offset]
    manifest = changed(dict(compiled.manifest), ("pieces", 0, "program_writes"), len(kept))
    write(tmp_path / "m.cnna", with_files(replace(compiled, manifest=manifest), 0, program=kept.tobytes()))
    with pytest.raises(ArtifactError, match="before any write to CONV_BLOCKS"):
        load(tmp_path / "m.cnna")


@pytest.mark.parametrize("damage", [lambda part: part[:-9], lambda part: b"", lambda part: b"\x08" + part])
def test_a_damaged_part_for_the_cpu_is_refused_when_it_is_opened(compiled, tmp_path, damage):
    """onnxruntime's own errors have no common class that would blame the file."""
    by_onnxruntime = replace(compiled, manifest=changed(dict(compiled.manifest), ("pieces", 1, "numpy"), False))
    whole = compiled.pieces[1].model
    write(tmp_path / "m.cnna", with_files(by_onnxruntime, 1, model=whole))
    with Model(tmp_path / "m.cnna"):
        pass
    write(tmp_path / "m.cnna", with_files(by_onnxruntime, 1, model=damage(whole)))
    with pytest.raises(ArtifactError, match=r"its piece 1 on the CPU cannot be run"), Model(tmp_path / "m.cnna"):
        pass


def test_another_model_than_was_compiled_is_refused_by_the_reference(compiled, samples, tmp_path):
    """Its layers would be compared with tensors of other shapes."""
    other = qdq_networks.model(NETWORK + 1).SerializeToString()
    write(tmp_path / "m.cnna", replace(compiled, model=other))
    with pytest.raises(ArtifactError, match=r"model\.onnx is not the model"), Model(tmp_path / "m.cnna", device="reference"):
        pass
