"""Turns at the accelerator: one holder at a time, on one machine and over a board's files; a dead holder is passed over."""

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from cnna.host.board import remote_turn, turn
from cnna.host.board.remote_turn import RemoteTurn
from cnna.host.board.turn import LocalTurn, Turns
from cnna.spec.errors import RunError

from ...waiting import until
from ..simulated_time import Process, Simulation

FORKS = """
import os, sys, time
from pathlib import Path
from cnna.host.board.turn import LocalTurn
turn = LocalTurn(Path(sys.argv[1]))
turn.take("the one before") and turn.give()  # which leaves the file open
fork = os.fork()
if not fork:
    os.write(1, b"fork %d\\n" % os.getpid())  # it has begun, and has closed its copy of the file
    time.sleep(100)
turn.take("the parent")
os.write(1, b"parent %d\\n" % os.getpid())
time.sleep(100)
"""


class Files:
    """A board's files, as pynq's remote device offers them."""

    def __init__(self):
        self.content, self.accesses = {}, 0

    def exists_file(self, path):
        self.accesses += 1
        return SimpleNamespace(exists=path in self.content)

    def read_file(self, path):
        self.accesses += 1
        return self.content[path]

    def write_file(self, path, data):
        assert data, "an empty file cannot be sent"
        self.accesses += 1
        self.content[path] = data


@pytest.fixture(params=["local", "remote"])
def pair(request, tmp_path):
    """Two processes' views of one turn."""
    if request.param == "local":
        return LocalTurn(tmp_path / "turn"), LocalTurn(tmp_path / "turn")
    files = Files()
    return RemoteTurn(files, "/tmp/turn"), RemoteTurn(files, "/tmp/turn")


def test_one_at_a_time(pair):
    """Two holders would overwrite each other's registers between setting and starting."""
    one, two = pair
    assert one.take("the first")
    assert not two.take("the second")
    assert two.holder() == "the first"
    one.give()
    assert two.take("the second")
    assert not one.take("the first")
    two.give()


def test_who_comes_again_is_told_whether_another_was_there(pair):
    """What a process left in the PL's DDR4 is still there, or must be restored."""
    one, two = pair

    def passed(turn):
        assert turn.take("somebody")
        turn.give()
        return turn.passed

    assert passed(one), "nobody knows what was there before"
    assert not passed(one)
    assert passed(two)
    assert passed(one)
    assert not passed(one)
    told = []
    turns = Turns(one)
    turns.taken = told.append
    with turns.mine("a test"):
        assert told == [False]


def test_a_file_that_is_removed_gives_no_second_turn(tmp_path, monkeypatch):
    """Whoever has the file open that a cleaner of /tmp removed would lock it beside the one that another process makes."""
    monkeypatch.setattr(turn, "LOOK_AT_FILE_SECONDS", 0.0)
    one, two = LocalTurn(tmp_path / "turn"), LocalTurn(tmp_path / "turn")
    assert one.take("the first")
    one.give()
    (tmp_path / "turn").unlink()
    assert two.take("the second")
    assert not one.take("the first")
    two.give()
    assert one.take("the first")
    one.give()


def test_a_file_that_is_moved_away_gives_no_second_turn(tmp_path, monkeypatch):
    """It has a name still, but whoever comes next makes another of the old name, and would have the turn too."""
    monkeypatch.setattr(turn, "LOOK_AT_FILE_SECONDS", 0.0)
    one, two = LocalTurn(tmp_path / "turn"), LocalTurn(tmp_path / "turn")
    assert one.take("the first")
    one.give()
    (tmp_path / "turn").rename(tmp_path / "kept")
    assert two.take("the second")
    assert not one.take("the first")
    two.give()


def test_who_waits_for_a_file_that_is_removed_is_told_for_whom(tmp_path):
    """The holder's name is in the file that both have open; to look for it by its path would end in a traceback."""
    one, two = (Turns(LocalTurn(tmp_path / "turn"), wait_seconds=0.1) for _ in range(2))
    with two.mine("b"):
        pass
    with one.mine("model a"):
        (tmp_path / "turn").unlink()
        with pytest.raises(RunError, match="model a has it"), two.mine("b"):
            pass


def test_a_turn_that_was_interrupted_while_it_began_is_free(pair):
    """Ctrl-C between the lock and the turn's first step: other processes would wait until this one ends."""
    one, two = pair

    def interrupted(passed):
        raise KeyboardInterrupt

    turns = Turns(one)
    turns.taken = interrupted
    with pytest.raises(KeyboardInterrupt), turns.mine("a test"):
        pass
    assert turns.free
    assert two.take("the next")
    two.give()


def test_a_turn_waits_no_longer_than_it_may(tmp_path, monkeypatch):
    """Who waits for a thread of its own process, and then for another process, would wait twice as long as `turn_seconds`."""
    other, lock = LocalTurn(tmp_path / "turn"), threading.Lock()
    assert other.take("another process")
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def sleep(seconds):
        clock.now += seconds

    def acquire(blocking=True, timeout=-1):
        if not blocking:
            return False
        clock.now += 9.0
        return lock.acquire()

    clock.sleep = sleep
    taken_after_nine = SimpleNamespace(acquire=acquire, release=lock.release, locked=lock.locked)
    monkeypatch.setattr(turn, "time", clock)
    monkeypatch.setattr(turn, "threading", SimpleNamespace(Lock=lambda: taken_after_nine, get_ident=threading.get_ident))
    mine = Turns(LocalTurn(tmp_path / "turn"))
    with pytest.raises(RunError, match="busy for 10 s: another process has it"), mine.mine("a test", 10.0):
        pass
    assert 10.0 <= clock.now <= 10.5
    assert mine.free


def test_a_fork_does_not_keep_its_parents_turn(tmp_path):
    """The lock belongs to an open file. A fork that has it too would hold the board once its parent is killed."""
    parent = subprocess.Popen([sys.executable, "-c", FORKS, str(tmp_path / "turn")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    begun = dict(parent.stdout.readline().split() for _ in range(2))  # in any order
    fork = int(begun["fork"])
    try:
        own = LocalTurn(tmp_path / "turn")
        assert not own.take("the next"), "the parent has no turn"
        parent.kill()
        parent.wait()
        assert own.take("the next")
        own.give()
    finally:
        os.kill(fork, signal.SIGKILL)
        parent.stdout.close()


def test_many_threads_never_meet(tmp_path):
    """Under contention two threads would hold the turn, with the slower of the two kinds."""
    files, inside, most, working = Files(), [], [], [0, 1, 2]

    def work(number):
        turns = Turns(RemoteTurn(files, "/tmp/turn"))
        for _ in range(3):
            with turns.mine("a test"):
                inside.append(1)
                most.append(len(inside))
                seen = files.accesses
                until(lambda seen=seen: files.accesses > seen + 1 or working == [number], "no other thread asks for the turn")
                inside.pop()
        working.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in working]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 9


def test_who_waits_too_long_is_told_for_whom(pair):
    """The message must name the holder, and an exception inside must give the turn back."""
    one, two = (Turns(each, wait_seconds=0.1) for each in pair)
    with one.mine("model a"), pytest.raises(RunError, match=r"busy for 0.1 s: process \d+ on .*, model a has it"), two.mine("b"):
        pass
    with pytest.raises(ValueError, match="inside"), one.mine("model a"):
        raise ValueError("inside")
    with two.mine("model b"):
        pass


def test_a_dead_holder_is_passed_over(monkeypatch):
    """A killed notebook would keep the board for ever, or a living one would lose it."""
    simulation, files, alive, said = Simulation(), Files(), Process(), []
    for module in (remote_turn, turn):
        monkeypatch.setattr(module, "time", simulation.time)
    monkeypatch.setattr(remote_turn, "threading", simulation.threading)

    def hold():
        assert RemoteTurn(files, "/tmp/turn").take("alive")
        simulation.sleep(20 * remote_turn.BEAT_SECONDS)
        said.append("killed")
        alive.killed = True

    def follow():
        simulation.sleep(remote_turn.SETTLE_SECONDS * 2)
        other = RemoteTurn(files, "/tmp/turn")
        with Turns(other, wait_seconds=100).mine("next"):
            said.append(other.holder())

    simulation.spawn(hold, alive)
    simulation.spawn(follow, Process())
    simulation.run(lambda: len(said) == 2, limit_seconds=100)
    assert said[0] == "killed"
    assert "next" in said[1]


def test_a_board_that_cannot_be_reached_is_said_in_a_line():
    """gRPC's own error has many lines, and none of them says what to do."""

    class Gone:
        def exists_file(self, path):
            raise ConnectionError("failed to connect")

    with pytest.raises(RunError, match="the board cannot be reached: failed to connect"), Turns(RemoteTurn(Gone(), "/x")).mine("a"):
        pass


def test_a_turn_that_another_user_keeps_is_said_in_a_line(tmp_path):
    """The folder for the turn's file may be missing, or the file may belong to root."""
    with (
        pytest.raises(RunError, match=r"cannot be taken: .*none.*No such file"),
        Turns(LocalTurn(tmp_path / "none" / "x")).mine("a"),
    ):
        pass
