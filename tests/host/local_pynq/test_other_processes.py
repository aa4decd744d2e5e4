"""What other processes, signals and ends do to a board that the native run loop drives, through pynq's local classes."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.spec import artifact
from cnna.spec.config import preset
from cnna.spec.regmap import offset

from ...sim.board import stock
from ...waiting import until
from ..hand_made import expected, requantised_copy, samples
from ..mapped_board import Page
from .local_board import LocalBoard

X, ROUNDS = samples(3, seed=3), 3
OPENED = """
import json
from cnna.spec.errors import RunError
bit, model, x = sys.argv[2], sys.argv[3], np.load(sys.argv[4])
overlay = pynq.Overlay(bit, download=False)
session = cnna.InferenceSession(model, overlay, turn_seconds={turn}, retries=0)
feeds = [{{"x": x[i : i + 1]}} for i in range(3)]
threads = lambda: len(os.listdir("/proc/self/task"))
def report(*said):
    os.write(1, (json.dumps(said) + "\\n").encode())  # at once, beside what a fork reports
def tried(call):
    try:
        return call()[0].tolist()
    except RunError as error:
        return str(error)
"""
WAITS = OPENED.format(turn=60) + 'before = threads()\nsession.run(None, {"x": x[:1]})\n'
STREAM = 'report("runs")\nsys.stdin.readline()\nlist(session.stream(None, feeds))'
RUN = 'report(session.run(None, {"x": x})[0].tolist(), len(loops))\nsession.close()'
CHILDS = [
    "the runs belong to the process that this one was forked from: open the session here again",
    "model copy belongs to the process that this one was forked from: open it here again",
]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[LocalBoard]:
    """A board with an image, which must have no memory taken at the end."""
    made = LocalBoard(tmp_path)
    made.program(preset("tiny"))
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An overlay, an artifact and samples."""
    artifact.save(requantised_copy(batch=1), tmp_path / "copy.cnna")
    np.save(tmp_path / "x.npy", X)
    return stock.images(tmp_path), tmp_path / "copy.cnna", tmp_path / "x.npy"


def answers(board: LocalBoard, files: tuple[Path, Path, Path]) -> bool:
    """Whether a new process gets the right answer, by the native loop."""
    y, loops = board.run(OPENED.format(turn=60) + RUN, *files)
    return loops == 1 and np.array_equal(np.asarray(y), expected(X))


def line(process: "subprocess.Popen[str]") -> list[Any]:
    """The next line that a process reports."""
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, process.communicate(timeout=60)[1]
    found = json.loads(said)
    assert isinstance(found, list)
    return found


def go_on(process: "subprocess.Popen[str]") -> None:
    """Lets a process go on that waits for a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_processes_take_turns(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """The second would set registers under the first one's run. It must name the holder, or wait until it has ended."""
    holds = """
stream = session.stream(None, feeds)
y = [next(stream)[0].tolist()]
report(os.getpid())
sys.stdin.readline()
report(y + [answer[0].tolist() for answer in stream])
session.close()
"""
    asks = """
report("opened")
sys.stdin.readline()
report(tried(lambda: session.run(None, {"x": x})))
session.close()
"""
    with (
        board.start(OPENED.format(turn=60) + asks, *files) as patient,
        board.start(OPENED.format(turn=0.3) + asks, *files) as hasty,
    ):
        for process in (patient, hasty):  # to open a session takes a turn too
            assert line(process) == ["opened"]
        with board.start(OPENED.format(turn=60) + holds, *files) as holder:
            (number,) = line(holder)
            go_on(patient)
            go_on(hasty)
            (refused,) = line(hasty)
            assert isinstance(refused, str)
            assert refused.startswith(f"the accelerator was busy for 0.3 s: process {number} on "), refused
            go_on(holder)
            assert np.array_equal(np.concatenate(np.asarray(line(holder)[0])), expected(X))
        assert np.array_equal(np.asarray(line(patient)[0]), expected(X))


def test_an_image_is_loaded_between_turns(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """Loading an image under a run of another process ends that run, or gives it another accelerator's answers."""
    holds = """
stream = session.stream(None, feeds)
y = [next(stream)[0].tolist()]
report("runs")
sys.stdin.readline()
report(y + [answer[0].tolist() for answer in stream])
session.close()
"""
    loads = """
import json
from cnna.host.board import overlay
from cnna.spec.errors import RunError
overlay.BUSY_SECONDS, said = 0.2, ""
def answered():
    with cnna.InferenceSession(sys.argv[3], sys.argv[2]) as session:
        return session.run(None, {"x": np.load(sys.argv[4])})[0].tolist()
try:
    answered()
except RunError as error:
    said = str(error)
os.write(1, (json.dumps([said]) + "\\n").encode())
sys.stdin.readline()
overlay.BUSY_SECONDS = 60
os.write(1, (json.dumps([answered()]) + "\\n").encode())
"""
    image = loaded(board)
    with board.start(OPENED.format(turn=60) + holds, *files) as holder:
        assert line(holder) == ["runs"]
        with board.start(loads, *files) as other:
            (said,) = line(other)
            assert said.startswith(f"the accelerator was busy for 0.2 s: process {holder.pid} on "), said
            assert loaded(board) is image
            go_on(other)
            go_on(holder)
            assert np.array_equal(np.concatenate(np.asarray(line(holder)[0])), expected(X))
            assert np.array_equal(np.asarray(line(other)[0]), expected(X))
    assert loaded(board) is not image


def test_a_process_that_is_killed_leaves_a_board_that_answers(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """The next process would take the end of the dead one's run for its own, or wait for ever for its turn."""
    with board.start(WAITS + STREAM, *files) as process:
        begun(process, board)
        process.send_signal(signal.SIGKILL)
    loaded(board).stuck = False
    resets = loaded(board).resets
    assert answers(board, files)
    assert loaded(board).resets > resets


@pytest.mark.parametrize("waits", ['session.run(None, {"x": x})', "list(session.stream(None, iter(feeds)))"])
def test_ctrl_c_ends_a_native_wait_at_once(board: LocalBoard, files: tuple[Path, Path, Path], waits: str) -> None:
    """The user would have to kill the process, whose thread goes on writing to an accelerator that is another's by then."""
    code = f"""
for _ in range({ROUNDS}):
    report("runs")
    sys.stdin.readline()
    try:
        {waits}
    except KeyboardInterrupt:
        report(threads() - before, session.device.read({offset("STATUS")}))
session.close()
"""
    seconds = []
    with board.start(WAITS + code, *files) as process:
        for _ in range(ROUNDS):
            begun(process, board)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert line(process) == [0, 0], "threads that are left, and STATUS"
            seconds.append(time.monotonic() - began)
            loaded(board).stuck = False
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert min(seconds) < 1, "of several, since the machine may be busy"
    assert answers(board, files)


@pytest.mark.parametrize("end", ["raise SystemExit(7)", "session.close()\nraise SystemExit(7)"])
def test_the_interpreter_ends_with_an_open_stream(board: LocalBoard, files: tuple[Path, Path, Path], end: str) -> None:
    """It would wait for its own thread, print what nobody understands, or leave the accelerator running."""
    code = f"""
stream = session.stream(None, feeds)
next(stream)
report("runs")
sys.stdin.readline()
{end}
"""
    with board.start(WAITS + code, *files) as process:
        assert line(process) == ["runs"]
        said = process.communicate("\n", timeout=60)
    assert (process.returncode, *said) == (7, "", "")
    assert not loaded(board).read(offset("STATUS"))
    assert answers(board, files)


def test_a_fork_leaves_its_parents_runs_alone(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """A data loader forks. The child would reset the accelerator under its parent, wait for ever, or keep its turn locked."""
    code = """
ended, end = os.pipe()
stream = session.stream(None, feeds)
y = [next(stream)[0].tolist()]
if not (child := os.fork()):
    said = [tried(lambda: next(stream)), tried(lambda: session.run(None, {"x": x}))]
    stream.close()
    session.close()
    report(said)
    os.close(end)
    os.read(ended, 1)  # until the parent has closed its end
    sys.exit(5)
y += [answer[0].tolist() for answer in stream]
report(y)
report(session.run(None, {"x": x})[0].tolist())
os.close(end)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
report(session.run(None, {"x": x})[0].tolist(), code)
session.close()
"""
    with board.start(WAITS + code, *files) as process:
        said, failed = process.communicate(timeout=60)
    found = [json.loads(line) for line in said.splitlines()]
    assert [one for one in found if isinstance(one[0][0], str)] == [[CHILDS]]
    assert [code for _, *more in found for code in more] == [5]
    answered = [np.asarray(one[0]).reshape(X.shape) for one in found if one[0] != CHILDS]
    assert [np.array_equal(y, expected(X)) for y in answered] == [True] * 3
    assert failed == ""


def test_another_image_under_an_open_session_is_said_in_a_line(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """Its program would run on an array of another size, or be written into a design that is none of ours."""
    code = """
for _ in range(4):
    report(tried(lambda: session.run(None, {"x": x})))
    sys.stdin.readline()
session.close()
"""
    with board.start(WAITS + code, *files) as process:
        assert np.array_equal(np.asarray(line(process)[0]), expected(X))
        page = loaded(board)
        page.close()
        for word, now in ((0x1234, "the device is no cnna accelerator (its ID register is 0x00001234)"), (0, "")):
            page.array[:] = 0
            page.array[offset("ID") // 4] = word
            if not word:
                board.program(preset("zcu104"))
                now = "it is zcu104 now"
            go_on(process)
            assert line(process) == [
                f"another image has been loaded since tiny was opened ({now}): close the session, then open it again"
            ]
        board.program(preset("tiny"))
        go_on(process)
        assert np.array_equal(np.asarray(line(process)[0]), expected(X)), "the same image again"
        go_on(process)


def test_another_image_under_a_run_is_said_and_left_alone(board: LocalBoard, files: tuple[Path, Path, Path]) -> None:
    """The run has no end. It must not be tried again, nor anything be reset, since the registers are another design's."""
    code = """
short = cnna.InferenceSession(model, overlay, timeout_seconds=0.5)
report("runs")
sys.stdin.readline()
report(tried(lambda: short.run(None, {"x": x})))
short.close()
session.close()
"""
    with board.start(WAITS + code, *files) as process:
        begun(process, board)
        board.program(preset("zcu104"))
        (said,) = line(process)
        assert said.startswith("another image has been loaded since tiny was opened (it is zcu104 now): close the session")
        assert process.communicate(timeout=60)[1] == ""
    assert (loaded(board).starts, loaded(board).resets) == (0, 0)


def begun(process: "subprocess.Popen[str]", board: LocalBoard) -> None:
    """Lets a process go on to runs that do not end: one, and those that it queues behind it, which come a moment later."""
    assert line(process) == ["runs"]
    loaded(board).stuck, starts = True, loaded(board).starts
    go_on(process)
    until(lambda: loaded(board).starts == starts + ROUNDS, "not all runs were started")


def loaded(board: LocalBoard) -> Page:
    """The registers of a board with an image."""
    assert board.page is not None
    return board.page
