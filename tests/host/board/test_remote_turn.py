"""The turn over the network: never two holders at once, however long accesses take and whoever stands still or is killed."""

import random
import time
from functools import partial
from types import SimpleNamespace

import pytest

from cnna.host.board import remote_turn
from cnna.host.board.remote_turn import LEASE_SECONDS, PASS_SECONDS, RemoteTurn
from cnna.spec.errors import RunError, TurnLostError

from ...waiting import until
from ..simulated_time import Process, Simulation

PROCESSES, TURNS = 3, 3


class SlowFiles:
    """A board's files as a stock server has them: emptied when a write begins, full when it ends. Any access may take long."""

    def __init__(self, simulation: Simulation, dice: random.Random, content: dict[str, bytes]) -> None:
        self.simulation, self.dice, self.content = simulation, dice, content
        self.interrupts: object = None  # the task that Ctrl-C interrupts

    def _delay(self) -> None:
        low, high = self.dice.choices([(0.001, 0.005), (0.02, 0.5), (1.0, 10.0)], [90, 8, 2])[0]
        self.simulation.sleep(self.dice.uniform(low, high))

    def exists_file(self, path: str) -> SimpleNamespace:
        self._delay()
        answer = SimpleNamespace(exists=path in self.content)
        self._delay()
        return answer

    def read_file(self, path: str) -> bytes:
        self._delay()
        answer = self.content[path]
        self._delay()
        return answer

    def write_file(self, path: str, data: bytes) -> None:
        if self.simulation.task is self.interrupts and self.dice.random() < 0.01:  # Ctrl-C: the write goes on without its caller
            self.simulation.spawn(lambda: self._write(path, data), Process())
            raise KeyboardInterrupt
        self._write(path, data)
        if self.simulation.task is self.interrupts and self.dice.random() < 0.01:
            raise KeyboardInterrupt

    def _write(self, path: str, data: bytes) -> None:
        self._delay()
        self.content[path] = b""
        self._delay()
        self.content[path] = data
        self._delay()


class Board:
    """The record of what holders did to the board: for each act, the claim under which it was done."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.lost = self.overtaken = 0

    def act(self, turn: RemoteTurn) -> None:
        """Checks that nobody acts under an older claim than the last, and that whoever is told that nobody was there is told the
        truth.
        """
        claim = turn.claim
        if claim not in self.acts:
            before = self.acts[-1].partition(".")[0] if self.acts else ""
            assert turn.passed or before == claim.partition(".")[0], "somebody was there in between"
        else:
            assert self.acts[-1] == claim, f"two at once: {claim} after {self.acts[-1]}"
        self.acts.append(claim)


def _take(turn: RemoteTurn, files: SlowFiles) -> bool:
    files.interrupts = files.simulation.task
    try:
        return turn.take("somebody")
    except KeyboardInterrupt:
        return False
    finally:
        files.interrupts = None


def _live(simulation: Simulation, dice: random.Random, board: Board, files: SlowFiles, process: Process, done: list[int]) -> None:
    """A process that takes turns, acts, stands still at times, and may be killed."""
    turn = RemoteTurn(files, "/tmp/turn")
    for _ in range(TURNS):
        while not _take(turn, files):
            simulation.sleep(dice.uniform(0.01, 0.1))
        try:
            for _ in range(dice.randint(1, 6)):
                turn.check(sure=dice.random() < 0.2)
                if dice.random() < 0.1:  # an access that takes as long as it may
                    simulation.sleep(dice.uniform(0, PASS_SECONDS - LEASE_SECONDS - 0.01))
                board.act(turn)
                if dice.random() < 0.1:
                    process.frozen_until = simulation.now + dice.uniform(1, 30)
                if dice.random() < 0.02 and len(done) < PROCESSES - 1:
                    process.killed = True
                    done.append(1)
                simulation.sleep(dice.choice([0.001, 0.01, 0.1, 1.5]))
            turn.give()
        except RunError:  # the turn is lost, or the network is so slow that nobody knows
            board.lost += 1
    done.append(1)


def _play(seed: int, monkeypatch: pytest.MonkeyPatch) -> Board:
    simulation, dice, board, done = Simulation(), random.Random(seed), Board(), list[int]()
    monkeypatch.setattr(remote_turn, "time", simulation.time)
    monkeypatch.setattr(remote_turn, "threading", simulation.threading)
    content: dict[str, bytes] = {}
    for _ in range(PROCESSES):
        process, files = Process(), SlowFiles(simulation, dice, content)
        simulation.spawn(partial(_live, simulation, dice, board, files, process, done), process)
    simulation.run(lambda: len(done) == PROCESSES, limit_seconds=5000)
    return board


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 400), marks=pytest.mark.slow)], ids=["some", "many"])
def test_never_two_at_once(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """Late writes, processes that stand still or are killed, and files that are read during a write would lead to two holders."""
    boards = [_play(seed, monkeypatch) for seed in seeds]
    assert sum(board.lost for board in boards) >= len(seeds) / 4, "the rest proves nothing if nobody is ever overtaken"
    assert sum(len(set(board.acts)) for board in boards) >= len(seeds) * 4


class Files:
    """A board's files that answer at once."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def exists_file(self, path: str) -> SimpleNamespace:
        return SimpleNamespace(exists=path in self.content)

    def read_file(self, path: str) -> bytes:
        return self.content[path]

    def write_file(self, path: str, data: bytes) -> None:
        self.content[path] = data


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[RemoteTurn, RemoteTurn]:
    """Two processes' views of one turn, with a tenth of the usual patience."""
    for name in ("BEAT", "DEAD", "LEASE", "PASS", "WRITING"):
        monkeypatch.setattr(remote_turn, f"{name}_SECONDS", getattr(remote_turn, f"{name}_SECONDS") / 10)
    files = Files()
    return RemoteTurn(files, "/tmp/turn"), RemoteTurn(files, "/tmp/turn")


def _take_at_last(turn: RemoteTurn, who: str) -> None:
    until(lambda: turn.take(who), "it never gets the turn")


def test_a_holder_that_stood_still_keeps_what_nobody_wanted(pair: tuple[RemoteTurn, RemoteTurn]) -> None:
    """A breakpoint in a notebook must cost nothing if nobody else is there."""
    one, _ = pair
    assert one.take("the first")
    one.given.set()  # the process's other thread stands still too
    until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > one.until, "its lease does not end")
    one.check()
    assert time.clock_gettime(time.CLOCK_BOOTTIME) < one.until


def test_a_holder_that_stood_still_for_too_long_is_told(pair: tuple[RemoteTurn, RemoteTurn]) -> None:
    """The message must say who has the turn now and why; and the late process must neither take it nor give it away."""
    one, two = pair
    assert one.take("the first")
    one.given.set()
    _take_at_last(two, "process 7 on pc, model b")
    assert two.passed
    for sure in (False, True):
        with pytest.raises(TurnLostError, match=r"lost to process 7 on pc, model b: this process stood still for more than 0.2 s"):
            one.check(sure)
    one.give()
    assert not one.take("the first again")
    two.check(sure=True)
    two.give()
    assert one.take("the first again")
    assert one.passed
    one.give()


@pytest.mark.parametrize("at", ["sleep", "read", "write"])
def test_ctrl_c_while_the_turn_is_taken_keeps_nobody(
    pair: tuple[RemoteTurn, RemoteTurn], monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The next process would wait for a claim that nobody stands behind."""
    one, two = pair
    assert one.take("the first")
    one.give()

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    after = one.files.content["/tmp/turn"]
    if at == "sleep":
        monkeypatch.setattr(remote_turn, "SETTLE_SECONDS", None)
        monkeypatch.setattr(remote_turn.time, "sleep", interrupted)
    elif at == "read":
        monkeypatch.setattr(
            one.files,
            "read_file",
            lambda path: one.files.content[path] if one.files.content["/tmp/turn"] == after else interrupted(),
        )
    else:
        monkeypatch.setattr(one, "_beat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.take("the first")
    assert one.files.content["/tmp/turn"] != after, "it had claimed the turn"
    assert two.take("the second")
    assert two.passed
    two.give()


def test_a_dead_writer_of_a_file_keeps_nobody(pair: tuple[RemoteTurn, RemoteTurn]) -> None:
    """A writer may be killed between emptying the file and filling it, or leave something else in it."""
    one, two = pair
    for rest in (b"", b"no JSON", b"[]"):
        one.files.content["/tmp/turn"] = rest
        _take_at_last(two, "the second")
        two.give()


def test_names_of_any_length_fill_a_record_of_one(pair: tuple[RemoteTurn, RemoteTurn]) -> None:
    """With records of different lengths, two writes at once would leave the end of the longer one."""
    one, _ = pair
    assert one.take("ü\U0001f600" * 300)
    one.give()
    assert {len(data) for data in one.files.content.values()} == {remote_turn.RECORD_BYTES}
