"""What needs no Ray: hosts that begin, join, come later, leave and fail; stand-ins take the place of Ray's process."""

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from cnna.serve.ray.__main__ import main
from cnna.serve.ray.host_boards import BOARD, host_name
from cnna.serve.ray.host_process import STARTED, HostProcess, check_place, run_host
from cnna.serve.ray.ray_app import cause_in, start_command
from cnna.serve.ray.scaling import LOOK_SECONDS, replicas_wanted
from cnna.spec.errors import RunError, UserError


def node(name: str, identity: str, boards: int, alive: bool = True) -> dict[str, Any]:
    """As `ray.nodes` lists one."""
    return {"NodeName": name, "NodeID": identity, "Alive": alive, "Resources": {BOARD: float(boards)} if boards else {}}


class Context:
    """Of Ray's controller: what the policy has returned the last time."""

    def __init__(self) -> None:
        self.policy_state: dict[str, Any] = {}

    def wanted(self, nodes: list[dict[str, Any]], now: float) -> int:
        """Asks the policy once."""
        count, self.policy_state = replicas_wanted(self, lambda: nodes, lambda: now)
        return count


def test_replicas_follow_the_hosts() -> None:
    context = Context()
    one, two = node("one", "a", 2), node("two", "b", 3)
    head = node("head", "c", 0)
    assert context.wanted([head, one], 0.0) == 2
    assert context.wanted([head, one, two], LOOK_SECONDS / 2) == 2  # it does not look all the time
    assert context.wanted([head, one, two], LOOK_SECONDS) == 5  # a host has joined
    assert context.wanted([head, {**one, "Alive": False}, two], 2 * LOOK_SECONDS) == 3  # one has left
    assert context.wanted([head], 3 * LOOK_SECONDS) == 1  # Ray Serve keeps one, which waits for a board


def test_hosts_of_one_name_are_told_apart() -> None:
    nodes = [node("vm", "a" * 40, 2), node("vm", "b" * 40, 2), node("other", "c" * 40, 1)]
    assert [host_name(nodes, one["NodeID"]) for one in nodes] == ["vm-aaaaaa", "vm-bbbbbb", "other"]
    gone = [node("vm", "a" * 40, 2, alive=False), nodes[1]]
    assert host_name(gone, "b" * 40) == "vm"


def test_the_name_reaches_ray() -> None:
    command = start_command(["left=emulator"], "10.0.0.1:6379", None, "one")
    assert "--node-name=one" in command
    assert "--port=6379" in command


@pytest.fixture
def listening() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def free() -> str:
    """A place where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_head_begins_where_nothing_is(listening: str) -> None:
    check_place(free(), None)
    with pytest.raises(UserError, match="give --join"):
        check_place(listening, None)


def test_a_host_waits_for_the_head(listening: str) -> None:
    said: list[str] = []
    check_place(None, listening, say=said.append)
    assert not said
    with pytest.raises(UserError, match="no cluster answers there after 0 s; start the first host with --head"):
        check_place(None, free(), seconds=0.0, say=said.append)
    assert len(said) <= 1


def fake(*lines: str, then: str = "") -> list[str]:
    """A command that prints these lines as Ray does."""
    shown = [f"2026-11-28 12:45:52,495\tINFO scripts.py:1084 -- \x1b[32m{line}\x1b[39m" for line in lines]
    return [sys.executable, "-c", f"print({chr(10).join(shown)!r}, flush=True)\n{then}"]


def test_a_host_ends_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    process = HostProcess(fake(STARTED, then="import time; time.sleep(600)"))
    assert process.wait(process.stop) is None
    with pytest.raises(RunError, match=r"the host has left the cluster: out of memory \(exit code 1; .*logs"):
        run_host(fake(STARTED, "out of memory", then="import time; time.sleep(1); raise SystemExit(1)"), "ready")
    assert capsys.readouterr().out == "ready\n"


def test_ray_is_started_again() -> None:
    said: list[str] = []
    with pytest.raises(RunError, match="Ray did not start: no room"):
        run_host(fake("no room", then="raise SystemExit(1)"), "ready", tries=2, say=said.append)
    assert len(said) == 1
    assert "started again: no room" in said[0]


def test_a_host_that_does_not_end_is_ended() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    process = HostProcess([sys.executable, "-c", f"{deaf}; print({STARTED!r}, flush=True); time.sleep(600)"])
    assert process.wait(process.stop, seconds=0.1) is None


def test_a_signal_ends_a_host() -> None:
    command = fake(STARTED, then="import time; time.sleep(600)")
    code = f"from cnna.serve.ray.host_process import run_host; raise SystemExit(run_host({command!r}, 'ready'))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_the_cause_is_the_last_error() -> None:
    text = "Failed to update:\nTraceback (most recent call last):\n  File x\ncnna.spec.errors.BusyError: all taken\n\nretrying"
    assert cause_in(text) == "cnna.spec.errors.BusyError: all taken"
    assert cause_in("one\ntwo") == "two"


@pytest.mark.parametrize(
    "words",
    [
        ["host", "--board", "left=emulator", "--head", "10.0.0.1:99999"],
        ["host", "--boards", "left=emulator"],
        ["serve"],
        ["end"],
    ],
)
def test_a_mistake_in_the_options_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: Any = main(words)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(("cnna: ", "python -m cnna.serve.ray"))
