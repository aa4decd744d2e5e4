"""The native library under sanitizers, and as aarch64 code under qemu: a program without Python calls it as recorded here."""

import ctypes
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.native.detect import by_numpy, wanted
from cnna.host.native.detect import described as described_grids
from cnna.host.native.library import FLOAT32, INT8, CRows, CTensor
from cnna.host.native.tensors import TYPES, described
from cnna.spec import cpu_ops
from cnna.spec.detection.heads import AREAS, KINDS, TABLES
from cnna.spec.detection.rows import BOX, model_rows, outputs_of_rows
from cnna.spec.detection.suppression import kept
from cnna.spec.samples import pack, resampling
from cnna.spec.samples.resampling import FILTERS

from .cases import drawn_port, pack_cases, pictures, score_rows
from .detector_cases import cases, laid
from .programs import ADDRESS, ARM, NATIVE, SECONDS, program
from .test_detect_rows import drawn

CALLS = 200_000


def record(name: str, *arguments: Any) -> bytes:
    """One call, as replay.cpp reads it."""
    parts = [name.encode(), *(_bytes(argument) for argument in arguments)]
    return b"".join(struct.pack("<Q", len(part)) + part for part in parts)


def _bytes(argument: Any) -> bytes:
    if isinstance(argument, int):
        return struct.pack("<q", argument)
    return argument.tobytes() if isinstance(argument, np.ndarray) else bytes(argument)


def records(count: int) -> Iterator[bytes]:
    """Calls of every function, with what numpy gives."""
    for case in pack_cases(count, seed=11):
        base, first = _memory(case.x)
        tensor = CTensor(None, TYPES[case.x.dtype.name], case.x.shape, case.x.strides)
        table = case.table if case.x.dtype == np.uint8 else b""
        yield record("pack", described(case.port, case.ci), tensor, base, table, first, case.images, case.wanted)
    rng = np.random.default_rng(12)
    for number in range(count):
        ci, shape = int(rng.choice([1, 3, 4, 8, 16, 24, 32])), (int(rng.integers(1, 70)), *map(int, rng.integers(1, 40, 2)))
        port = drawn_port(rng, ci, shape, folds=0)
        memory = rng.integers(0, 256, 2 * port["image_bytes"], np.uint8)
        q = pack.unpack(port, memory, ci)
        real = pack.dequantise(q, port["scale"], port["zero"])
        yield record("unpack", described(port, ci), memory, 2, *((FLOAT32, real) if number % 2 else (INT8, q)))
    for x in score_rows(count, seed=13):
        yield record("softmax", x, *x.shape, _one_nan(cpu_ops.softmax(x)))
        k = min(x.shape[1], int(rng.integers(64)))
        yield record("top_k", x, *x.shape, k, cpu_ops.top_k(x, k)[1])
    yield from _detections(count, rng)
    yield from _rows()
    for picture, size in pictures(count, seed=14):
        for number, kind in enumerate(FILTERS):
            how = np.array([*picture.shape, number, *size], np.int64)
            yield record("resize", picture, how, resampling.resize(picture, size, kind))


def _detections(count: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Calls for detectors."""
    for heads, tensors, settings in cases(count, seed=15):
        sizes = np.array([(channels, rows * columns) for channels, rows, columns in heads.shapes], np.int64).T
        scores = KINDS.index(heads.scores)
        counts = np.array(
            [heads.entry["labels"], heads.entry["form"] == "centre", scores, len(tensors), len(heads.tables), *heads.edges],
            np.int64,
        )
        few = [
            np.where(rng.random(q.shape[1:]) < 0.03, q, np.int8(-128))
            for q in tensors
            # cells that pass, as few as in a picture
        ]
        for given, in_words in ((tensors, False), (tensors, True), (few, True)):
            if in_words and heads.scores not in (TABLES, AREAS):
                continue
            found = by_numpy(heads, given, settings)
            words, memory = laid(rng, given) if in_words else (np.array([[1] * len(given), sizes[1]], np.int64), given)
            wants = found.boxes.tobytes() + found.scores.tobytes() + found.classes.tobytes()
            what = (described_grids(heads.entry["grids"]), words, b"".join(one.tobytes() for one in memory), wanted(settings))
            yield record("detect", counts, sizes[0].copy(), sizes[1].copy(), heads.tables, *what, wants)
        low = rng.integers(0, 20, (tensors[0].size % 99, 2))
        boxes = np.concatenate([low, low + rng.integers(-1, 9, low.shape)], axis=1).astype(np.float32)
        yield record("suppress", boxes, np.array([0.25], np.float32), kept(boxes, 0.25))


def _rows() -> Iterator[bytes]:
    """Calls for the own outputs of detectors that have one."""
    for heads, tensors, shapes in drawn():
        if len(shapes) > 1:
            continue
        how, sizes = heads.entry["rows"], np.array([(len(q), q[0].size) for q in tensors], np.int64).T
        y = next(iter(outputs_of_rows(heads, model_rows(heads, tensors), shapes).values()))
        steps = (1, heads.boxes) if how["turned"] else (y.size // heads.boxes, 1)
        begin = BOX * steps[1]
        place = (None, None, *steps, y.size, *steps, y.size - begin, heads.boxes, how["centred"], tuple(how["order"]))
        counts = (heads.entry["labels"], heads.entry["form"] == "centre", 0, len(tensors), len(heads.tables), begin)
        what = (heads.tables, described_grids(heads.entry["grids"]), b"".join(q.tobytes() for q in tensors))
        rows = CRows(*place, tuple(how["scale"]))
        yield record("model_rows", np.array(counts, np.int64), sizes[0].copy(), sizes[1].copy(), *what, rows, y)


def _memory(x: NDArray[np.generic]) -> tuple[bytes, int]:
    """The bytes from the first to the last of a view, at an address as odd as theirs, and where its first element lies in them."""
    low = sum(min(0, stride * (size - 1)) for stride, size in zip(x.strides, x.shape, strict=True))
    high = sum(max(0, stride * (size - 1)) for stride, size in zip(x.strides, x.shape, strict=True)) + x.itemsize
    odd = (x.ctypes.data + low) % x.itemsize
    return bytes(odd) + ctypes.string_at(x.ctypes.data + low, high - low), odd - low


def _one_nan(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of the many bit patterns of NaN that one which C's NAN has."""
    return np.where(np.isnan(x), np.float32(np.nan), x)


def replayed(folder: Path, count: int, compiler: str, flags: Sequence[str], runner: Sequence[str] = ()) -> str:
    """Builds replay.cpp with the library's sources, and runs it on the records. Returns what it prints."""
    file = folder / "records"
    file.write_bytes(b"".join(records(count)))
    done = subprocess.run(
        [*runner, str(program("replay.cpp", compiler, flags)), str(file)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout


def test_no_access_is_out_of_bounds(tmp_path: Path):
    """A byte read or written beyond an array shows only by chance; the sanitizers find each, and what C++ leaves undefined."""
    assert "records equal" in replayed(tmp_path, 150, NATIVE, ADDRESS)


def test_a_number_that_makes_no_sense_is_refused(seed: int) -> None:
    """A program in C would get an access out of bounds where it made a mistake, or a number that overflowed into a sound one."""
    fuzz = str(program("door_fuzz.cpp", NATIVE, ADDRESS))
    done = subprocess.run([fuzz, str(CALLS), str(seed)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert not done.returncode, done.stderr[-2000:]
    counts = [list(map(int, re.findall(r"\d+", line))) for line in done.stdout.splitlines()]
    assert len(counts) == 6
    assert all(min(found) > sum(found) / 30 for found in counts), "the numbers drawn are all of one kind"


@pytest.mark.aarch64
def test_aarch64_gives_numpys_bits(tmp_path: Path):
    """The vector code of a board has never run otherwise: its bits must be those of the scalar form."""
    for tool, package in ((ARM, "g++-aarch64-linux-gnu"), ("qemu-aarch64", "qemu-user")):
        assert shutil.which(tool), f"{tool} is missing: apt install {package}"
    runner = ("qemu-aarch64", "-cpu", "cortex-a53")
    assert "records equal" in replayed(tmp_path, 200, ARM, ["-static", "-Werror"], runner)
