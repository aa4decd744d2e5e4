"""Progress: a line on a terminal after some seconds, and nothing elsewhere."""

import argparse
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.cli import main, progress
from cnna.cli.explore import Early
from cnna.cli.progress import CLEAR, Progress, Steps, counter, line
from cnna.host.samples.rows import rows_of
from cnna.jobs.run import _watched
from cnna.jobs.stage_seconds import StageSeconds
from cnna.spec.errors import UserError


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes standard error a terminal, on which nobody has patience."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)


def test_what_is_left_follows_from_the_pace() -> None:
    """A user would be told a wrong time, or divide by zero at the start."""
    assert line("running", 0, 0, 3.2) == "running: 3 s"
    assert line("running", 0, 8, 3.2) == "running: 0 of 8, 3 s"
    assert line("running", 2000, 8000, 10) == "running: 2,000 of 8,000, 10 s, about 30 s left"
    assert line("running", 9, 8, 10) == "running: 9 of 8, 10 s"
    assert line("running a long name", 2, 8, 10, 44) == "running a...: 2 of 8, 10 s, about 30 s left", "what is left must be seen"


def test_a_terminal_has_one_line_that_goes_away(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines would pile up between the command's answers."""
    open_terminal(monkeypatch)
    with Progress("compiling") as shown:
        shown.paint()
        shown.count(1, 3, "running")
        shown.paint()
        shown.say("comparing")
        shown.paint()
    said = capsys.readouterr().err
    assert "\n" not in said
    assert [text for text in said.split(CLEAR) if text][:3] == [
        "compiling: 0 s",
        "running: 1 of 3, 0 s, about 0 s left",
        "comparing: 0 s",
    ]
    assert said.endswith(CLEAR)


def test_each_step_has_its_own_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the steps before would count for this one, whose end would seem far."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    shown = Progress("compiling")
    began = [shown.began]
    for done, total, what in (
        (1, 2, "planning"),
        (2, 2, "planning"),
        (1, 9, "predicting"),
        (2, 9, "predicting"),
        (1, 9, "predicting"),
    ):
        shown.step(done, total, what)
        began.append(shown.began)
    assert began == [0, 10, 10, 20, 20, 30]


def test_a_counter_ends_by_itself(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line would stand before the answers."""
    open_terminal(monkeypatch)
    count = counter("calibrating")
    assert count
    for done in range(1, 4):
        count(done, 3)
    said = capsys.readouterr().err
    assert said.startswith(f"{CLEAR}calibrating: 1 of 3")
    assert said.endswith(CLEAR)


@pytest.mark.parametrize("error", [UserError("no such class"), KeyboardInterrupt(), SystemExit(143)])
def test_a_counter_whose_work_fails_leaves_nothing(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error would stand behind the counted samples, on the same line."""
    open_terminal(monkeypatch)

    def fail(args: argparse.Namespace) -> None:
        count = counter("calibrating")
        assert count
        count(1, 3)
        raise error

    command = SimpleNamespace(configure=lambda parser: None, run=fail)
    monkeypatch.setattr(main, "importlib", SimpleNamespace(import_module=lambda name: command))
    with suppress(SystemExit):
        main.main(["doctor"])
    said = capsys.readouterr().err
    assert said.startswith(f"{CLEAR}calibrating: 1 of 3")
    assert said.rpartition(CLEAR)[2] in ("", "cnna: no such class\n", "cnna: interrupted\n")


def test_a_quick_step_and_a_file_get_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages in a file would fill with counted seconds; on a terminal a flash would distract."""
    with Progress("compiling") as shown:
        shown.paint()
    assert counter("calibrating") is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("compiling") as shown:
        shown.paint()
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("clocks", "seen"),
    [
        (0, [(done, 5, "running on rtl") for done in (0, 2, 4)]),
        (1000, [(done, 1000, "simulating clocks") for done in (0, 400, 800)]),
    ],
)
def test_samples_that_are_done_count_on_every_device(clocks: int, seen: list[tuple[int, int, str]]) -> None:
    """Many short runs of the RTL, which says nothing in its first second, would have no time left."""
    counted: list[tuple[int, int, str]] = []
    watched = _watched({"x": rows_of(np.arange(5.0))}, lambda *step: counted.append(step), "rtl", clocks, StageSeconds())["x"]
    for start in (0, 2, 4):
        assert watched[start : start + 2].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0][start : start + 2]
    assert counted == seen


class Slow(Steps):
    """A command that prints nothing of its own. said: what it was asked for."""

    def __init__(self, quiet_seconds: float) -> None:
        super().__init__("pruning", quiet_seconds)
        self.said = threading.Event()

    def at_work(self) -> str:
        """As of `Steps`."""
        self.said.set()
        return super().at_work()


def test_off_a_terminal_a_line_says_that_a_command_is_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    """A user would end a command that has said nothing for minutes, in the middle of its work."""
    with Slow(0.0) as command:
        assert command.said.wait(60)
    assert capsys.readouterr().err.startswith("cnna: pruning: 0 s\n")
    with Slow(1e6) as patient:
        patient.line("a point")
    assert capsys.readouterr().err == "a point\n"


def test_a_terminal_needs_no_such_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand in the middle of the line that counts."""
    open_terminal(monkeypatch)
    with Slow(0.0) as command:
        pass
    assert not command.said.is_set()
    assert not capsys.readouterr().err


def test_a_step_is_said_once_however_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """A log would fill with the seconds that are left of a simulator's build."""
    with Steps("confirming", each=True) as steps:
        for what in ("building", "building: 1 of 90 files", "building: 12 of 90 files, about 80 s left", "running"):
            steps.step(0, 0, what)
    assert capsys.readouterr().err.splitlines() == ["cnna: building", "cnna: building: 1 of 90 files", "cnna: running"]


def test_a_step_that_counts_in_its_name_keeps_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock would begin anew with each second that is counted down, and say 0 s all the time."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    shown = Progress("reading")
    for left in (30, 20, 10):
        shown.step(0, 0, f"generating the Verilog of zcu102, about {left} s left")
    assert shown.text() == "generating the Verilog of zcu102, about 10 s left: 10 s"


def test_what_is_left_of_a_sweep_follows_from_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each point has another name. Its own seconds would stand for those of all points, and the end always be near."""
    clock = iter(range(0, 1000, 100))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    early = Early("compiling")
    for done, what in ((1, "compiled: zcu102-2x4x4"), (2, "not needed: zcu102-2x4x8, 512 bank words")):
        early.step(done, 4, what)
    assert Steps.at_work(early) == "cnna: not needed: zcu102-2x4x8, 512 bank words: 2 of 4, 200 s, about 200 s left"
