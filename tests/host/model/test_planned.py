"""Planned batches answer as unplanned ones do, to the bit and with the same words; a plan takes only what it can do alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.alternate import BoardBatch, alternate
from cnna.host.model.board_model import BoardModel
from cnna.host.model.flight import Flight
from cnna.host.model.planned import PlannedFlight
from cnna.host.model.session import InferenceSession
from cnna.host.native.loop import Loop
from cnna.spec.artifact import Artifact
from cnna.spec.errors import DataError, RunError

from ..hand_made import SHAPE, failing, requantised_copy, samples, with_cpu
from ..mapped_board import MappedBoard

STORED = {"scale": 0.5, "mean": [float(n) for n in range(6)], "std": [1.0 + n for n in range(6)]}
VALUES = int(np.prod(SHAPE))
WAIT = Loop.wait
FLAT = {"op": "Flatten", "name": "flat", "attributes": {"axis": 1}, "inputs": ["y"], "outputs": ["flat"], "constants": {}}
SOFTMAX = {"op": "Softmax", "name": "s", "attributes": {"axis": -1}, "inputs": ["flat"], "outputs": ["s"], "constants": {}}
AGAIN = {**SOFTMAX, "inputs": ["s"], "outputs": ["t"]}
ACROSS = {**SOFTMAX, "attributes": {"axis": 1}, "inputs": ["y"], "outputs": ["t"]}  # its values do not follow each other
OUTPUT = {"name": "s", "shape": [1, VALUES], "dtype": "float32", "batch_axis": 0}
Feed = Mapping[str, NDArray[Any]]


def classifier(batch: int, *operators: Any, **changes: Any) -> Artifact:
    """The copy with operators behind it, a softmax of all values by default, whose output is `s`."""
    made = requantised_copy(batch=batch, **{"model_outputs": [OUTPUT], "preprocess": STORED, **changes})
    return with_cpu(made, b"", *(operators or (FLAT, SOFTMAX)))


def pictures(count: int, seed: int, last: bool = False) -> NDArray[np.uint8]:
    shape = (count, *SHAPE[1:], SHAPE[0]) if last else (count, *SHAPE)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def feeds(batch: int) -> list[Feed]:
    """Every type and layout that a plan may know, and some that it may not, of full and of smaller batches."""
    found: list[NDArray[Any]] = []
    for count in {1, batch}:
        for seed in range(3):
            found += [pictures(count, seed), pictures(count, seed, last=True), samples(count, seed)]
        found += [pictures(count, 9, last=True)[:, ::-1], samples(count, 9).astype(np.float64), samples(count, 8)[..., ::-1]]
        (unwritable := pictures(count, 7)).flags.writeable = False
        found += [unwritable, samples(count, 6).astype(">f4")]
    return [{"x": x} for x in found]


def unplanned(artifact: Artifact, mapped: MappedBoard) -> InferenceSession:
    """A session that has no plan."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("cnna.host.model.board_model.Plan.of", lambda *given: None)
        return InferenceSession(artifact, mapped)


def test_the_plan_has_what_it_is_for(mapped: MappedBoard) -> None:
    """Every other test here would compare the general way with itself."""
    with BoardModel(classifier(2), mapped) as model:
        for feed in (pictures(2, 0), pictures(1, 0, last=True), samples(2)):
            assert isinstance(model.flight({"x": feed}), PlannedFlight)
        assert isinstance(model.flight({"x": samples(2)[..., ::-1]}), Flight), "its elements do not follow each other"
    for operators, shape in (((FLAT, SOFTMAX, AGAIN), [1, VALUES]), ((ACROSS,), [1, *SHAPE])):
        with BoardModel(classifier(2, *operators, model_outputs=[{**OUTPUT, "name": "t", "shape": shape}]), mapped) as model:
            assert isinstance(model.flight({"x": samples(2)}), Flight), "the run loop has one softmax, along what lies together"


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("make", [classifier, requantised_copy])
def test_answers_are_those_of_the_general_way(mapped: MappedBoard, make: Any, batch: int) -> None:
    """A type, a layout, a count of samples or an axis that the plan takes for another would change some bit."""
    artifact = make(batch=batch, preprocess=STORED)
    with InferenceSession(artifact, mapped) as session, unplanned(artifact, mapped) as other:
        given = feeds(batch)
        streams = [list(session.stream(None, given)) for _ in range(2)]  # the second time, the plan knows all of them
        singles = [session.run(None, feed) for feed in given]
        for feed, *found in zip(given, *streams, singles, strict=True):
            (wanted,) = other.run(None, feed)
            for (answer,) in found:
                assert answer.dtype == wanted.dtype
                assert answer.tobytes() == wanted.tobytes()
                assert answer.shape == wanted.shape


def test_several_outputs_keep_their_names_and_their_order(mapped: MappedBoard) -> None:
    """Ports are in the program's order, outputs in the user's: one would get the other's values."""
    artifact = requantised_copy(batch=2)
    (port,) = artifact.programs[0].manifest["outputs"]
    outputs = [{**OUTPUT, "name": name, "shape": [1, *SHAPE]} for name in ("z", "y")]
    made = requantised_copy(batch=2, outputs=[port, {**port, "name": "z", "tensor": "x"}], model_outputs=outputs)
    with BoardModel(made, mapped) as model:
        assert isinstance(model.flight({"x": samples(2)}), PlannedFlight)
    with InferenceSession(made, mapped) as session, unplanned(made, mapped) as other:
        for names, x in ((None, samples(2)), (["y"], samples(1))):
            found, wanted = session.run(names, {"x": x}), other.run(names, {"x": x})
            assert len(found) == len(wanted)
            assert all(np.array_equal(y, z) for y, z in zip(found, wanted, strict=True))


@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_of_the_accelerator_are_planned_too(mapped: MappedBoard, batch: int) -> None:
    """A detector, which reads int8, would take the slow way; or its bytes be those of real numbers, or its last batch too long."""
    (port,) = requantised_copy(batch=batch).programs[0].manifest["outputs"]
    kinds = {"z": "int8", "y": "float32"}
    outputs = [{**OUTPUT, "name": name, "shape": [1, *SHAPE], "dtype": kind} for name, kind in kinds.items()]
    made = requantised_copy(
        batch=batch, outputs=[port, {**port, "name": "z", "tensor": "x"}], model_outputs=outputs, preprocess=STORED
    )
    with BoardModel(made, mapped) as model:
        assert isinstance(model.flight({"x": samples(1)}), PlannedFlight)
    with InferenceSession(made, mapped) as session, unplanned(made, mapped) as other:
        given = feeds(batch)
        streams = [list(session.stream(None, given)) for _ in range(2)]
        singles = [session.run(None, feed) for feed in given]
        for feed, *found in zip(given, *streams, singles, strict=True):
            wanted = other.run(None, feed)
            assert [y.dtype.name for y in wanted] == [*kinds.values()]
            for answers in found:
                assert [(y.dtype, y.shape, y.tobytes()) for y in answers] == [(y.dtype, y.shape, y.tobytes()) for y in wanted]


@pytest.mark.parametrize(
    "feed",
    [
        {},
        {"y": samples(1)},
        {"x": samples(1), "y": samples(1)},
        {"x": samples(3)},
        {"x": samples(1)[:, 1:]},
        {"x": samples(1)[:0]},
        {"x": samples(1).astype(np.complex64)},
        {"x": "no array"},
        {"x": None},
        [samples(1)],
    ],
)
def test_errors_have_the_words_of_the_general_way(mapped: MappedBoard, feed: Any) -> None:
    """A feed that does not fit would be run as something else, or end in a traceback of the plan's own."""
    with InferenceSession(classifier(2), mapped) as session, unplanned(classifier(2), mapped) as other:
        said = []
        for one in (session, other):
            list(one.stream(None, [{"x": samples(1)}, {"x": pictures(2, 0)}]))
            with pytest.raises(DataError) as caught:
                list(one.stream(None, [feed]))
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_a_nan_has_the_words_of_the_general_way(mapped: MappedBoard) -> None:
    """The run loop knows a code alone; the tensor's name must come from the batch that it belongs to."""
    bad = samples(1)
    bad[0, 1, 2, 1] = np.nan
    with InferenceSession(classifier(1), mapped) as session:
        stream = session.stream(None, [{"x": samples(1)}, {"x": bad}])
        next(stream)
        with pytest.raises(DataError, match="tensor x holds NaN"):
            next(stream)
        session.run(None, {"x": samples(1)})


def test_an_error_is_tried_again_and_then_told(mapped: MappedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planned batch must be packed and run again as another is, and its error say the place."""
    with InferenceSession(classifier(1), mapped, retries=1) as session:
        (wanted,) = session.run(None, {"x": samples(1)})
        failures = failing(monkeypatch, type(mapped.emulator))
        assert np.array_equal(session.run(None, {"x": samples(1)})[0], wanted)
        failures[0] = 99
        with pytest.raises(RunError, match=r"stopped: read_response SLVERR on port 0 at program write \d+ of \d+, layer copy"):
            session.run(None, {"x": samples(1)})
        failures[0] = 0


def test_no_answer_is_that_of_the_slot_before(mapped: MappedBoard) -> None:
    """Slots, counters and rooms for answers go round: with one too few, a batch would show what an older one has left there."""
    with InferenceSession(classifier(1), mapped) as session, unplanned(classifier(1), mapped) as other:
        given = [pictures(1, seed) for seed in range(40)]
        kept = [answer for (answer,) in session.stream(None, ({"x": x} for x in given))]
        assert len({answer.tobytes() for answer in kept}) == len(given)
        for x, answer in zip(given, kept, strict=True):
            assert np.array_equal(answer, other.run(None, {"x": x})[0])


def test_floats_may_change_once_the_stream_has_taken_them(mapped: MappedBoard) -> None:
    """A caller that fills one array again and again would get one answer for several pictures; a picture costs too much to copy."""
    with BoardModel(classifier(1), mapped) as model:
        for x, copied in ((samples(1), True), (pictures(1, 0), False)):
            for _ in range(2):  # the second time, the plan knows it
                flight = model.flight({"x": x})
                assert isinstance(flight, PlannedFlight)
                assert np.shares_memory(flight.given[0], x) != copied


def test_figures_of_a_planned_run_are_those_of_the_general_way(mapped: MappedBoard) -> None:
    """Counters are kept in a ring of rows: another run's would be figures of nothing that ran."""
    with InferenceSession(requantised_copy(batch=1), mapped) as session, unplanned(requantised_copy(batch=1), mapped) as other:
        session.run(None, {"x": samples(1)})
        planned = session.last
        list(session.stream(None, [{"x": samples(1, seed)} for seed in range(3)]))
        assert session.last is planned, "figures are those of the last `run`"
        other.run(None, {"x": samples(1)})
        timed = {"wall_seconds": 0, "fps_end_to_end": 0}
        assert other.last | timed == planned | timed


def test_a_run_alone_wakes_no_thread(mapped: MappedBoard) -> None:
    """Whoever runs one picture would wait until a thread wakes; but one that takes long must be the thread's after all."""
    mapped.threads = 2
    found: list[float] = []
    with unplanned(classifier(1), mapped) as other:
        wanted = [other.run(None, {"x": pictures(1, seed)})[0] for seed in range(5)]
    for seconds in (0.0, 60.0):  # for which the caller does the work
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr("cnna.host.native.loop.FOREVER_SECONDS", seconds)
            changed.setattr(Loop, "wait", _noting(found, seconds))
            with InferenceSession(classifier(1), mapped) as session:
                for seed in range(5):
                    assert np.array_equal(session.run(None, {"x": pictures(1, seed)})[0], wanted[seed])
    assert set(found) == {0.0}, "the thread was waited for where the caller did the work, or not where it did not"


def _noting(found: list[float], seconds: float) -> Any:
    """`Loop.wait`, which notes that it was called."""

    def wait(running: Loop, limit: float = 0.1) -> int:
        found.append(seconds)
        return WAIT(running, limit)

    return wait


def test_models_with_and_without_a_plan_alternate(mapped: MappedBoard) -> None:
    """A planned job has the number of its program among all that take turns, not that of its own model."""
    with BoardModel(requantised_copy(batch=1), mapped) as one, BoardModel(classifier(2), mapped) as two:
        given = [(number % 2, samples(1 + number % 2, seed=number)) for number in range(8)]
        batches = [BoardBatch.of((one, two), model, {"x": x}, tag=(model, x)) for model, x in given]
        assert all(isinstance(batch.flight, PlannedFlight) for batch in batches)
        found = [(batch.tag, answers) for batch, answers in alternate((one, two), batches)]
        assert len(found) == len(given)
        for (model, x), answers in found:
            wanted = (one, two)[model].run({"x": x})
            assert all(np.array_equal(answers[name], wanted[name]) for name in wanted)
