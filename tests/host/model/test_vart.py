"""`cnna.Overlay` and its runner, with which DPU users begin."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cnna
from cnna.host.model.answers import NodeArg
from cnna.host.model.vart import Runner, Tensor, _tensor
from cnna.spec.errors import DataError

from ..emulated_board import EmulatedBoard
from ..hand_made import SHAPE, expected, requantised_copy, samples


def test_a_program_for_a_dpu_runs() -> None:
    """The few lines of VART that everyone has copied would need changes beyond the names of the files."""
    board = EmulatedBoard()
    with cnna.Overlay(board) as overlay:
        runner = overlay.load_model(requantised_copy(batch=2))
        assert runner is overlay.runner
        assert runner.get_input_tensors() == [Tensor("x", (2, *SHAPE), "float32")]
        (tensor,) = runner.get_output_tensors()
        assert tensor.get_data_size() == tensor.get_element_num() == 2 * np.prod(SHAPE)
        assert repr(overlay).endswith(", 'copy' loaded>")
        assert "'copy' for tiny" in repr(runner)
        outputs = [[np.empty(tensor.dims, tensor.dtype) for tensor in runner.get_output_tensors()] for _ in range(2)]
        jobs = [runner.execute_async([samples(2, seed)], outputs[seed]) for seed in range(2)]
        assert [runner.wait(job) for job in reversed(jobs)] == [0, 0]
        for seed in range(2):
            assert np.array_equal(outputs[seed][0], expected(samples(2, seed)))
        first = runner
        assert overlay.load_model(requantised_copy(batch=1)) is not first
        assert repr(first.session).endswith("closed>")
    assert overlay.runner is None
    assert not board.buffers


def test_an_overlay_has_what_pynqs_has() -> None:
    """`overlay.ip_dict` and the other IP of a design would be out of reach."""
    overlay = cnna.Overlay(SimpleNamespace(ip_dict={"a": 1}))
    assert overlay.ip_dict == {"a": 1}
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = overlay.no_such_thing


def test_arrays_that_do_not_fit_are_refused_before_the_run() -> None:
    """An answer would be cut or cast in silence, or an error come out of a thread."""
    with cnna.Overlay("emulator") as overlay:
        runner = overlay.load_model(requantised_copy(batch=2))
        x, y = samples(2), np.empty((2, *SHAPE), np.float32)
        wrong: tuple[tuple[Any, Any, str], ...] = (
            ([], [y], r"0 inputs are given, but it has 1: x"),
            ([x], [y, y], r"2 outputs are given, but it has 1: y"),
            ([x], [y[:1]], r"output y is float32 \[1, 6, 3, 4\], but the model gives float32 \[2, 6, 3, 4\]"),
            ([x], [y.astype(np.float64)], r"output y is float64"),
            ([x], [y.tolist()], "output y needs a numpy array that can be written"),
            ([x], [np.broadcast_to(y, y.shape)], "output y needs a numpy array that can be written"),
            ({"x": x}, [y], "copy: inputs is a list of arrays, not dict"),
            ([x], None, "copy: outputs is a list of arrays, not NoneType"),
            ([x[:1]], [y], r"input x has shape \[1, 6, 3, 4\], but the model wants \[2, 6, 3, 4\]"),
        )
        for inputs, outputs, said in wrong:
            with pytest.raises(DataError, match=said):
                runner.execute_async(inputs, outputs)
        job = runner.execute_async([x], [y])
        runner.wait(job)
        numbers: tuple[Any, ...] = (job, None, [job])
        for number in numbers:
            with pytest.raises(DataError, match=r"there is no run .*, or it was waited for already"):
                runner.wait(number)
        failed = runner.execute_async([x.astype(int)], [y])
        with pytest.raises(DataError, match="input x is int64"):
            runner.wait(failed)
        with pytest.raises(DataError, match="it was waited for already"):
            runner.wait(failed)


def test_an_output_without_a_size_has_no_runner() -> None:
    """The caller could not allocate it, and numpy would say so in words of its own."""
    entry = {"name": "y", "shape": [None, 4], "dtype": "float32", "batch_axis": None}
    with (
        cnna.InferenceSession(requantised_copy(model_outputs=[entry])) as session,
        pytest.raises(DataError, match="y has a size that depends on the data"),
    ):
        Runner(session)


def test_outputs_without_a_batch_axis_and_scalars_can_be_allocated() -> None:
    """Stacked answers would not fit the array that the runner asks for; a number alone would be taken for an unknown size."""
    cases: tuple[tuple[list[int | str | None], int, tuple[int, ...]], ...] = (
        ([1, 4], 4, (4, 1, 4)), ([1, 4], 1, (1, 4)), ([], 1, ()), ([], 2, (2,)), (["2*N", 4], 3, (6, 4)),
    )  # fmt: skip
    for shape, batch, dims in cases:
        assert _tensor(NodeArg("y", shape, "tensor(float)"), batch).dims == dims
    with pytest.raises(DataError, match="depends on the data"):
        _tensor(NodeArg("y", None, "tensor(float)"), 1)
