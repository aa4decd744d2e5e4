"""`session.buffer`: memory that a camera fills, on a board and elsewhere."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.buffers import InputBuffer
from cnna.host.model.session import InferenceSession
from cnna.host.native.loop import Arrays, Loop
from cnna.spec.errors import DataError, RunError

from ..cached_board import CachedBoard
from ..hand_made import SHAPE, requantised_copy, samples
from ..mapped_board import MappedBoard

BATCH = 2
PICTURES = {"scale": 1.0, "mean": [100.0], "std": [4.0]}
PICTURE = (*SHAPE[1:], SHAPE[0])
KINDS = pytest.mark.parametrize("preprocess", [None, PICTURES], ids=["float", "uint8"])


@pytest.fixture
def board() -> Iterator[MappedBoard]:
    """A mapped board, on which nothing is left."""
    made = MappedBoard()
    yield made
    made.shut()
    assert not made.buffers


def fill(buffer: NDArray[Any], seed: int) -> None:
    """What a camera, or a program that reads one, writes into a buffer."""
    random = np.random.default_rng(seed)
    buffer[...] = random.integers(0, 256, buffer.shape) if buffer.dtype == np.uint8 else random.normal(0, 20, buffer.shape)


def address(buffer: NDArray[Any]) -> int:
    """Where a camera's DMA writes."""
    assert isinstance(buffer, InputBuffer)
    return buffer.physical_address


def answers(preprocess: Any, x: NDArray[Any]) -> NDArray[np.float32]:
    """What the model answers to an array that is no buffer."""
    with InferenceSession(requantised_copy(batch=BATCH, preprocess=preprocess)) as session:
        y: NDArray[np.float32] = session.run(None, {"x": np.array(x)})[0]
        return y


@KINDS
def test_elsewhere_it_is_a_plain_array(preprocess: Any) -> None:
    """A program for a board must run on a PC as it is."""
    with InferenceSession(requantised_copy(batch=BATCH, preprocess=preprocess)) as session:
        x = session.buffer("x")
        assert type(x) is np.ndarray
        assert (x.shape, x.dtype) == (((BATCH, *PICTURE), np.uint8) if preprocess else ((BATCH, *SHAPE), np.float32))
        fill(x, 1)
        assert np.array_equal(session.run(None, {"x": x})[0], answers(preprocess, x))


def _noting(packed: list[int], way: Any) -> Any:
    """A way to hand a job over that notes where its inputs are."""

    def noting(self: Loop, program: int, arrays: Arrays, kept: Any) -> Any:
        packed.extend(int(tensor.data) for tensor in arrays.tensors)
        return way(self, program, arrays, kept)

    return noting


@KINDS
def test_a_board_packs_where_the_camera_wrote(board: MappedBoard, preprocess: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of each picture would cost as much as packing it."""
    packed: list[int] = []
    for name in ("submit_arrays", "run_arrays"):
        monkeypatch.setattr(Loop, name, _noting(packed, getattr(Loop, name)))
    with InferenceSession(requantised_copy(batch=BATCH, preprocess=preprocess), board) as session:
        x = session.buffer("x")
        assert isinstance(x, InputBuffer)
        assert (x.shape, x.dtype) == (((BATCH, *PICTURE), np.uint8) if preprocess else ((BATCH, *SHAPE), np.float32))
        assert not x.any()
        for seed, given in enumerate((x, x[:1], x[1:])):
            fill(x, seed)
            assert np.array_equal(session.run(None, {"x": given})[0], answers(preprocess, given))
            assert packed.pop() == given.ctypes.data
            assert address(given) == address(x) + given.ctypes.data - x.ctypes.data
        y = np.concatenate([y for (y,) in session.stream(None, ({"x": x[n : n + 1]} for n in range(BATCH)))])
        assert np.array_equal(y, answers(preprocess, x))
        assert np.array_equal(session.run_async(None, {"x": x}).result()[0], y)


def test_each_call_gives_another_and_all_are_freed(board: MappedBoard) -> None:
    """A stream needs several; a program that opens and closes sessions would run out of contiguous memory."""
    with InferenceSession(requantised_copy(), board) as session:
        one, other = (address(session.buffer("x")) for _ in range(2))
        assert one != other
        gc.collect()
        assert one not in board.freed, "a camera's DMA may still write there"
    gc.collect()
    assert {one, other} <= set(board.freed)


def test_a_use_after_the_end_is_one_line(board: MappedBoard) -> None:
    """The process would end with a signal, or a model would answer to the bytes of somebody else."""
    with InferenceSession(requantised_copy(), board) as session:
        x = session.buffer("x")
        place, part, bare = address(x), x[1:], np.asarray(x)
    said = "this buffer of input x belongs to a session that is closed"
    uses: list[Callable[[], object]] = [partial(x.__getitem__, 0), *(partial(fill, y, 1) for y in (x, part)), partial(address, x)]
    while uses:
        with pytest.raises(RunError, match=said):
            uses.pop()()
    with pytest.raises(RunError, match="copy is closed"):
        session.buffer("x")
    with InferenceSession(requantised_copy(), board) as session, pytest.raises(RunError, match=said):
        session.run(None, {"x": part})
    del x, part
    gc.collect()
    assert place not in board.freed, "an array still shows it"
    bare[:] = 1
    del bare
    gc.collect()
    assert board.freed.count(place) == 1


def test_names_and_sizes_that_do_not_fit_are_said(board: MappedBoard) -> None:
    """A traceback would not tell which inputs there are."""
    loose = requantised_copy(model_inputs=[{"name": "x", "shape": [6, None, 4], "dtype": "float32"}])
    with InferenceSession(requantised_copy(), board) as session, pytest.raises(DataError, match="copy has inputs x; unknown: z"):
        session.buffer("z")
    with InferenceSession(loose, board) as session, pytest.raises(DataError, match="input x of copy has no fixed size"):
        session.buffer("x")


def test_memory_that_is_not_there_is_said(board: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session must go on without its last buffer."""
    with InferenceSession(requantised_copy(), board) as session:
        with monkeypatch.context() as patch:
            patch.setattr(board, "_allocate", lambda size: 1 / 0)
            with pytest.raises(RunError, match="bytes of contiguous memory left"):
                session.buffer("x")
        assert np.array_equal(session.run(None, {"x": samples(1)})[0], answers(None, samples(1)))


@KINDS
def test_what_a_dma_writes_past_the_cache_is_seen(tmp_path: Path, preprocess: Any) -> None:
    """The processor has read the picture before, and would pack that from its cache; what it wrote itself must not be lost."""
    board = CachedBoard(tmp_path)
    with InferenceSession(requantised_copy(batch=BATCH, preprocess=preprocess), board) as session:
        x = session.buffer("x")
        region = board.model.regions[-1]
        for seed in range(4):  # the first picture comes into the zeros of a new buffer
            picture = np.empty_like(np.asarray(x))
            fill(picture, 100 + seed)
            region.device[: picture.nbytes] = picture.view(np.uint8).reshape(-1)  # by a camera's DMA
            assert np.array_equal(session.run(None, {"x": x})[0], answers(preprocess, picture))
            fill(x, seed)  # by the processor
            assert np.array_equal(session.run(None, {"x": x})[0], answers(preprocess, x))
    board.shut()
