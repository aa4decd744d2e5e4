"""Signals during the import of packages: a C extension would swallow them, so they wait for the import's end."""

import importlib
import inspect
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomllib

from cnna.cli.exit_signals import AfterImports, ended_in_order, until_signal

from ..waiting import until

SWALLOWING = """
import pathlib, time
pathlib.Path({began!r}).touch()
try:
    time.sleep({seconds})
except BaseException:
    raise ImportError("initialization failed") from None
"""


@pytest.mark.parametrize(("number", "code", "said"), [(signal.SIGINT, 130, "cnna: interrupted\n"), (signal.SIGTERM, 143, "")])
@pytest.mark.parametrize("where", ["the command's module", "what the command imports"])
def test_a_command_is_ended_by_it(tmp_path: Path, where: str, number: signal.Signals, code: int, said: str) -> None:
    """numpy, onnx and gRPC take the exception for their own failure ("initialization failed", code 2), or ignore it."""
    began = tmp_path / "began"
    (tmp_path / "swallowing.py").write_text(SWALLOWING.format(began=str(began), seconds=0.5))
    (tmp_path / "command.py").write_text(
        "import time\n"
        + ("import swallowing\n" if "module" in where else "")
        + "def configure(parser): pass\n"
        + "def run(args):\n    import swallowing\n    time.sleep(60)\n"
    )
    start = (
        "import importlib, sys; from types import SimpleNamespace; from cnna.cli import main as cli\n"
        "cli.importlib = SimpleNamespace(import_module=lambda name: importlib.import_module('command'))\n"
        "sys.exit(cli.main(['doctor']))"
    )
    with subprocess.Popen([sys.executable, "-c", start], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        until(began.exists, "the import has not begun")
        child.send_signal(number)
        _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (code, said)


@pytest.mark.parametrize("start", ["-m cnna", "-c import cnna.__main__ as program; program.main()"])
def test_a_command_is_ended_before_it_has_begun(tmp_path: Path, start: str) -> None:
    """A user who has typed the wrong command and stops it at once would see a traceback of our imports."""
    began = tmp_path / "began"
    (tmp_path / "argparse.py").write_text(SWALLOWING.format(began=str(began), seconds=30))  # what `main` imports first
    flag, text = start.split(" ", 1)
    with subprocess.Popen([sys.executable, flag, text, "doctor"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        until(began.exists, "the import has not begun")
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (130, "cnna: interrupted\n")


def test_the_shell_starts_what_sets_the_handler_first(root: Path) -> None:
    """The command would import all of `main` before anything catches Ctrl-C."""
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]["cnna"] == "cnna.__main__:main"


def test_the_virtual_board_is_ended_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would swallow Ctrl-C: the server would come up and serve on."""
    monkeypatch.syspath_prepend(str(tmp_path))
    swallowing = "import signal\ntry: signal.raise_signal(signal.SIGINT)\nexcept BaseException: raise ImportError from None\n"
    (tmp_path / "swallowing_too.py").write_text(swallowing)
    reached = []
    with until_signal():
        importlib.import_module("swallowing_too")

        reached.append("imported")
        time.sleep(10)
        reached.append("served on")
    assert reached == ["imported"]


def test_it_is_not_lost_between_two_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cnna board serve` imports gRPC, and has another way to end from then on."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "swallowing_three.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    reached = []
    with ended_in_order():
        importlib.import_module("swallowing_three")
        with until_signal():
            reached.append("served")
            time.sleep(10)
            reached.append("served on")
    assert reached == ["served"]


def test_one_that_is_missed_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal just before a system call is seen when that call returns, perhaps a minute later: here the first one is lost."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "swallowing_four.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    send, sent = signal.pthread_kill, []

    def lossy(thread: int, number: int) -> None:
        sent.append(number)
        if len(sent) > 1:
            send(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", lossy)
    reached = []
    with until_signal():
        importlib.import_module("swallowing_four")
        time.sleep(10)
        reached.append("served on")
    assert reached == []
    assert sent == [signal.SIGINT, signal.SIGINT]


def test_where_nothing_is_imported_it_is_not_put_off() -> None:
    """The handler must not wait, even if this code runs in the middle of somebody's import."""
    came: list[int] = []
    AfterImports(lambda number, frame: came.append(number))(signal.SIGINT, inspect.currentframe())
    assert came == [signal.SIGINT]


def test_handlers_are_as_they_were() -> None:
    """A program that calls a command, and a shell's nohup, must keep their handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    mine = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) is not before[0]
    finally:
        signal.signal(signal.SIGHUP, mine)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
