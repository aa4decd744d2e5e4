"""`cnna.InferenceSession`: the shape of onnxruntime's class, on simulated devices and an emulated board."""

import copy
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import cnna
from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.answers import NodeArg, listed, node_arg, outputs_of
from cnna.host.model.model import open_device
from cnna.host.model.session import InferenceSession, Pending
from cnna.spec.artifact import Artifact, save
from cnna.spec.config import preset
from cnna.spec.errors import ArtifactError, DataError, RunError
from cnna.spec.manifest import ModelOutput

from ..emulated_board import EmulatedBoard
from ..hand_made import SHAPE, expected, requantised_copy, samples


def source_model() -> onnx.ModelProto:
    """Two outputs, one of them of whole numbers, for any number of samples."""
    weights = np.random.default_rng(1).normal(0, 0.5, (5, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["maps"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["maps"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
    ]
    ends = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 8, 8]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 5]),
        helper.make_tensor_value_info("best", TensorProto.INT64, ["N"]),
    ]
    graph = helper.make_graph(nodes, "two", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def quantised() -> onnx.ModelProto:
    """The model with Q and DQ."""
    x = np.random.default_rng(2).normal(0, 1, (4, 3, 8, 8)).astype(np.float32)
    return quantise(source_model(), {"image": x})[0]


@pytest.fixture(scope="module")
def artifact(quantised: onnx.ModelProto) -> Artifact:
    """The same for `tiny`, two samples at once."""
    return compile_model(quantised, preset("tiny"), batch=2)


def test_a_program_for_onnxruntime_runs_unchanged(quantised: onnx.ModelProto, artifact: Artifact) -> None:
    """Whoever knows onnxruntime would have to learn other names, orders, shapes or types."""
    x = np.random.default_rng(3).normal(0, 1, (3, 3, 8, 8)).astype(np.float32)
    theirs = onnxruntime.InferenceSession(quantised.SerializeToString(), providers=["CPUExecutionProvider"])
    with cnna.InferenceSession(artifact) as ours:
        for asked in (None, [], ["best"], ["best", "scores", "best"]):
            found, wanted = ours.run(asked, {"image": x}, None), theirs.run(asked, {"image": x})
            assert [(y.shape, y.dtype) for y in found] == [(y.shape, y.dtype) for y in wanted]
            assert np.array_equal(found[-1].argmax(-1), wanted[-1].argmax(-1))
        for mine, other in ((ours.get_inputs(), theirs.get_inputs()), (ours.get_outputs(), theirs.get_outputs())):
            assert [(a.name, list(a.shape or ()), a.type) for a in mine] == [(a.name, a.shape, a.type) for a in other]


@pytest.mark.parametrize("device", ["emulator", pytest.param("rtl", marks=pytest.mark.cosim), "board"])
def test_one_class_for_every_device(device: str, request: pytest.FixtureRequest) -> None:
    """A device would answer otherwise, or lack a method that the others have."""
    board: Any = EmulatedBoard() if device == "board" else device
    board = request.getfixturevalue("rtl")(preset("tiny")) if device == "rtl" else board
    artifact, x = requantised_copy(batch=2), samples(5)
    with InferenceSession(artifact, board) as session:
        assert np.array_equal(session.run(["y"], {"x": x})[0], expected(x))
        pending = [session.run_async(None, {"x": samples(3, seed)}) for seed in range(3)]
        assert all(isinstance(run, Future) for run in pending)
        for seed, run in enumerate(pending):
            assert np.array_equal(run.result(60)[0], expected(samples(3, seed)))
        answers = list(session.stream(None, ({"x": x[start : start + 2]} for start in (0, 2, 4))))
        assert np.array_equal(np.concatenate([y for (y,) in answers]), expected(x))
        name = {"board": "pynq"}.get(device, device)
        assert repr(session) == f"<cnna.InferenceSession 'copy' for tiny, batch 2, on {name}>"
        assert session.last["device"] == name
        assert bool(session.memory) == (device == "board")
    assert repr(session).endswith(", closed>")


def test_the_reference_has_inner_tensors_and_a_check_says_what_is_equal(artifact: Artifact) -> None:
    """Whoever looks into a layer would have to use classes that lie under the session."""
    x = np.random.default_rng(3).normal(0, 1, (2, 3, 8, 8)).astype(np.float32)
    with InferenceSession(artifact, "reference") as reference, InferenceSession(artifact, check=True) as checked:
        wanted = reference.run(None, {"image": x})
        assert all(np.array_equal(a, b) for a, b in zip(checked.run(None, {"image": x}), wanted, strict=True))
        assert reference.tensors()["maps"].shape == (2, 5, 8, 8)
        assert "equal" in str(checked.agreement) or "==" in str(checked.agreement)
        assert reference.device is None
    with pytest.raises(DataError, match="a board shows no inner tensors"):
        InferenceSession(artifact, EmulatedBoard(), check=True)


def call(change: dict[str, Any]) -> Any:
    """One mistake in a call of `run`."""
    given = {"output_names": None, "input_feed": {"x": samples(1)}, **change}
    with InferenceSession(requantised_copy()) as session:
        return session.run(**given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"output_names": ["z"]}, "copy has outputs y; unknown: z"),
        ({"output_names": ["y", 3]}, "copy has outputs y; unknown: 3"),
        ({"output_names": "y"}, r"output_names is a list, such as \['y'\]"),
        ({"output_names": b"y"}, r"output_names is a list, such as \[b'y'\]"),
        ({"output_names": 3}, "copy: output_names is a list of names or None, not int"),
        ({"output_names": [["y"]]}, r"copy has outputs y; unknown: \['y'\]"),
        ({"output_names": np.array(["y", "z"])}, "copy has outputs y; unknown: z"),
        ({"input_feed": {"z": samples(1)}}, "copy has inputs x; missing: x; unknown: z"),
        ({"input_feed": {}}, "copy has inputs x; missing: x$"),
        ({"input_feed": {"x": samples(1), "z": samples(1)}}, "copy has inputs x; unknown: z$"),
        ({"input_feed": samples(1)}, "input_feed is a dict of arrays by input name, not ndarray"),
        ({"input_feed": {"x": samples(1)[0]}}, r"input x has shape \[6, 3, 4\], but the model wants \['N', 6, 3, 4\]"),
        ({"input_feed": {"x": samples(1)[:, :5]}}, r"input x has shape \[1, 5, 3, 4\]"),
        ({"input_feed": {"x": samples(1).astype(int)}}, "input x is int64, but the model wants float32"),
        ({"input_feed": {"x": [["a"]]}}, "input x is <U1"),
    ],
)
def test_a_mistake_in_a_run_is_one_line(change: dict[str, Any], said: str) -> None:
    """The user would read a traceback of numpy instead of the name and what fits."""
    with pytest.raises(DataError, match=said) as caught:
        call(change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", ["fpga", "", None, 3, b"rtl"])
def test_an_unknown_device_is_named_with_those_there_are(device: Any) -> None:
    """A typing error would end as a missing module."""
    with pytest.raises(DataError, match=r"there is no device .*; there are emulator, rtl, reference, a cnna.bit and"):
        InferenceSession(requantised_copy(), device)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nope.cnna", "nope.cnna: no such file; `cnna compile` makes one"),
        (b"nope", r"the given bytes: not a .cnna file \(no zip archive\)"),
        (None, "a model is the path of a .cnna file, or its bytes, not NoneType"),
        (3, "a model is the path of a .cnna file, or its bytes, not int"),
    ],
)
def test_what_is_no_model_is_one_line(source: Any, said: str) -> None:
    """The error would be of `pathlib`, and name no model."""
    with pytest.raises(ArtifactError, match=said):
        InferenceSession(source)


def test_a_model_may_be_given_as_its_bytes(tmp_path: Path) -> None:
    """Programs that hand onnxruntime a model that they have read, from a database or over a network, would need a file."""
    save(requantised_copy(), tmp_path / "m.cnna")
    with InferenceSession((tmp_path / "m.cnna").read_bytes()) as session:
        assert np.array_equal(session.run(None, {"x": samples(2)})[0], expected(samples(2)))


def test_a_session_is_neither_copied_nor_pickled() -> None:
    """A copy would close the device of the first, and `multiprocessing` would speak of a lock."""
    with InferenceSession(requantised_copy()) as session:
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="model copy: a session cannot be copied or pickled; let each process"):
                use(session)


def test_a_closed_session_says_so() -> None:
    """It would run on a device that is gone, or hang."""
    session = InferenceSession(requantised_copy())
    stream = session.stream(None, ({"x": samples(1)} for _ in range(3)))
    next(stream)
    session.close()
    session.close()
    feed = {"x": samples(1)}
    for use in (
        lambda: session.run(None, feed),
        lambda: session.run_async(None, feed),
        lambda: session.stream(None, [feed]),
        session.__enter__,
    ):
        with pytest.raises(RunError, match="model copy is closed"):
            use()
    assert not list(stream)


def test_errors_of_the_background_come_with_the_result() -> None:
    """A run that failed in its thread would be lost, or its mistake in names be found late."""
    with InferenceSession(requantised_copy()) as session:
        with pytest.raises(DataError, match="has outputs y"):
            session.run_async(["z"], {"x": samples(1)})
        with pytest.raises(DataError, match="has shape"):
            session.run_async(None, {"x": samples(1)[0]}).result(30)


def test_runs_of_several_threads_do_not_mix() -> None:
    """Two threads on one simulated accelerator would read each other's answers or figures."""
    found: dict[int, list[Any]] = {}
    with InferenceSession(requantised_copy(batch=1)) as session:

        def work(seed: int) -> None:
            found[seed] = [session.run(None, {"x": samples(4, seed)})[0] for _ in range(3)]

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(np.array_equal(y, expected(samples(4, seed))) for seed in range(4) for y in found[seed])


def test_outputs_of_other_shapes_are_described(tmp_path: Path) -> None:
    """'N' in the wrong place would make a user cut an answer at the wrong axis."""
    outputs: list[ModelOutput] = [
        {"name": "y", "shape": [1, *SHAPE], "dtype": "float32", "batch_axis": 0},
        {"name": "rows", "shape": [4, 7], "dtype": "int64", "batch_axis": 0},
        {"name": "apart", "shape": [7], "dtype": "bool", "batch_axis": None},
        {"name": "boxes", "shape": [None, 4], "dtype": "float32", "batch_axis": None},
    ]
    assert [node_arg(output) for output in outputs_of({**requantised_copy().manifest, "model_outputs": outputs, "schema": 5})] == [
        NodeArg("y", ["N", *SHAPE], "tensor(float)"),
        NodeArg("rows", ["4*N", 7], "tensor(int64)"),
        NodeArg("apart", [7], "tensor(bool)"),
        NodeArg("boxes", [None, 4], "tensor(float)"),
    ]
    answers = {"y": np.zeros(1), "boxes.0": np.ones(1), "boxes.1": np.full(1, 2)}
    assert listed(["boxes", "y"], answers) == [[answers["boxes.0"], answers["boxes.1"]], answers["y"]]


def test_importing_cnna_imports_nothing(tmp_path: Path) -> None:
    """`import cnna` would take as long as numpy and all of the host, in each command and each script."""
    save(requantised_copy(), tmp_path / "m.cnna")
    code = """
import sys, cnna
assert not [name for name in sys.modules if name.startswith("cnna.") or name == "numpy"], sys.modules
print(cnna.InferenceSession(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m.cnna"], capture_output=True, text=True, check=True)
    assert done.stdout == "<cnna.InferenceSession 'copy' for tiny, batch 2, on emulator>\n"
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = cnna.no_such_thing  # type: ignore[attr-defined]


def test_a_callback_may_close_the_session_and_the_callers_dict_may_change() -> None:
    """The device would stay open after a thread tried to wait for itself, or a run take what the caller has put in its place."""
    feed, session = {"x": samples(1)}, InferenceSession(requantised_copy())
    later = session.run_async(None, feed)
    feed.clear()
    assert len(later.result(30)) == 1
    failed: list[BaseException] = []

    def close(_: Any) -> None:
        try:
            session.close()
        except BaseException as error:
            failed.append(error)

    ended = session.run_async(None, {"x": samples(1)})
    ended.add_done_callback(close)
    ended.result(30)
    session.close()
    assert not failed
    assert repr(session).endswith("closed>")


def test_an_unknown_option_of_a_device_is_named_with_those_there_are() -> None:
    """Habits of onnxruntime, such as `providers`, would end as a TypeError about a function that nobody has called."""
    with pytest.raises(DataError, match="device emulator has no option providers; it has memory_bytes"):
        InferenceSession(requantised_copy(), providers=["CPUExecutionProvider"])
    with pytest.raises(DataError, match=r"device rtl has no option casche; it has .*cache"):
        InferenceSession(requantised_copy(), "rtl", casche="x")
    with pytest.raises(DataError, match="device reference has no option trace; it has none"):
        InferenceSession(requantised_copy(), "reference", trace="x.fst")
    with pytest.raises(DataError, match="device pynq has no option trace; it has retries, timeout"):
        InferenceSession(requantised_copy(), EmulatedBoard(), trace="x.fst")
    with pytest.raises(DataError, match="device emulator has no option trace"):
        InferenceSession(requantised_copy(), open_device("emulator", preset("tiny")), trace="x.fst")


@pytest.mark.parametrize("threads", [0, -1, "2", 1.5, True])
def test_a_number_of_threads_is_checked_before_a_piece_needs_it(threads: Any) -> None:
    """onnxruntime would take a negative number as "all", or end in an error of its own in the models that use it."""
    with pytest.raises(DataError, match=r"cpu_threads is .*: it must be a whole number within 1..1024"):
        InferenceSession(requantised_copy(), cpu_threads=threads)


def test_a_time_out_is_pythons_own() -> None:
    """On a board's Python 3.10 the one of `concurrent.futures` is another class, and `except TimeoutError` misses it."""
    with pytest.raises(TimeoutError) as caught:
        Pending("m", lambda: False, lambda: "; it waits", lambda: None).result(0.01)
    assert type(caught.value) is TimeoutError
    assert str(caught.value) == "model m has no answer after 0.01 s; it waits"
    with pytest.raises(TimeoutError, match=r"has no answer after 0\.01 s"):
        Pending("m", lambda: False, lambda: "", lambda: None).exception(0.01)


def test_a_closed_session_says_so_to_those_who_wait() -> None:
    """`exception()` would raise an error without a word, where `result()` says that the session is closed."""
    pending = Pending("m", lambda: True, lambda: "", lambda: None)
    pending.cancel()  # as `close` does with runs that have not begun
    assert isinstance(pending.exception(1), RunError)
    with pytest.raises(RunError, match="model m was closed before this run began"):
        pending.result(1)
