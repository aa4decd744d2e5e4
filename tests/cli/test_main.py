"""The frame of the command line: exit codes, one line a mistake, figures as JSON. Other tests cover the commands' own work."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cnna.cli.main import COMMANDS, Outcome, main, parser_for
from cnna.spec.errors import CheckError, DataError

from ..waiting import until

CNNA = Path(sys.executable).with_name("cnna")


def _fake(monkeypatch: pytest.MonkeyPatch, run: Callable[[object], Outcome]) -> None:
    """Puts a test's own command in place of `doctor`."""
    module = SimpleNamespace(configure=lambda parser: None, run=run)
    monkeypatch.setattr("cnna.cli.main.importlib.import_module", lambda name: module)


def _raise(error: BaseException) -> Callable[[object], Outcome]:
    def run(args: object) -> Outcome:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("x.npy: two\nlines"), 2, "cnna: x.npy: two lines"),
        (CheckError("RTL != emulator"), 1, "cnna: RTL != emulator"),
        (
            KeyError("oops"),
            1,
            "cnna: internal error: KeyError: 'oops' (--debug shows where; cnna doctor --report bug.txt writes what ",
        ),
        (ModuleNotFoundError("No module named 'onnx'", name="onnx.checker"), 2, "cnna: the package onnx is missing"),
        (MemoryError("Unable to allocate 669. TiB"), 2, "cnna: there is not enough memory; fewer samples"),
        (KeyboardInterrupt(), 130, "cnna: interrupted"),
    ],
)
def test_errors_become_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    """Scripts rely on the codes, and users on a single line."""
    _fake(monkeypatch, _raise(error))
    assert main(["doctor"]) == code
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it nobody could report a fault of ours."""
    _fake(monkeypatch, _raise(KeyError("oops")))
    assert main(["doctor", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_figures_are_written_whatever_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A check that finds a difference has figures too (`matches_reference` false)."""
    _fake(monkeypatch, lambda args: Outcome({"matches_reference": False}, 1))
    assert main(["doctor", "--json", str(tmp_path / "r.json")]) == 1
    assert json.loads((tmp_path / "r.json").read_text()) == {"matches_reference": False}


def test_figures_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder in place of the file is the user's mistake."""
    _fake(monkeypatch, lambda args: Outcome())
    assert main(["doctor", "--json", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_only_figures_go_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--html -` would leave a file that is called `-`."""
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "a.json", "b.json", "--html", "-"]) == 2
    assert capsys.readouterr().err == "cnna: --html -: standard output is for the figures of --json alone; give the file a name\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["fly"], ["--fly"], ["doctor", "--fly"], ["compile"], ["run"], ["doctor", "more"]])
def test_mistyped_commands_are_one_line_and_code_2(arguments: list[str]) -> None:
    """argparse alone would print its usage as well."""
    done = subprocess.run([CNNA, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--help" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that is listed must explain itself."""
    with pytest.raises(SystemExit) as done:
        main([name, "--help"])
    assert not done.value.code
    assert "--json FILE" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_explained(name: str) -> None:
    """`--help` and the command's page would have a name and nothing beside it."""

    def silent(parser: argparse.ArgumentParser) -> list[str]:
        parts = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        own = [
            str(action.option_strings or action.metavar) for action in parser._actions if not action.help and action not in parts
        ]
        return own + [text for part in parts for inner in part.choices.values() for text in silent(inner)]

    commands = next(action for action in parser_for([name])._actions if isinstance(action, argparse._SubParsersAction))
    assert not silent(commands.choices[name])


def test_version_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Every bug report begins with `cnna --version`."""
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert not done.value.code
    assert re.fullmatch(r"cnna \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_works_from_any_folder(tmp_path: Path) -> None:
    """The installed command would depend on the folder where it is started."""
    done = subprocess.run([CNNA, "doctor", "--json", "d.json"], cwd=tmp_path, timeout=60, check=False, capture_output=True)
    assert done.returncode == 0
    assert json.loads((tmp_path / "d.json").read_text())["missing"] == []


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`cnna ... | head` would end in a traceback."""
    done = subprocess.run(f"'{CNNA}' models | true", shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.parametrize("exit_code", [0, 1])
def test_files_are_written_although_the_reader_has_gone(tmp_path: Path, exit_code: int) -> None:
    """`cnna report M.cnna --html F | head` would leave no F where the table is long, and hide what a check has found."""
    (tmp_path / "late.py").write_text(
        "import sys, time, pathlib; from types import SimpleNamespace; from cnna.cli import main as cli\n"
        "def configure(parser): parser.add_argument('-o', type=pathlib.Path, dest='out')\n"
        "def run(args):\n"
        "    print('first', flush=True)\n"
        "    for _ in range(100): print('x' * 10_000, flush=True); time.sleep(0.001)\n"
        "    args.out.write_text('whole')\n"
        f"    return cli.Outcome({{'a': 1}}, {exit_code}, (args.out,))\n"
        "module = SimpleNamespace(configure=configure, run=run, OUTPUTS={'out': ()})\n"
        "cli.importlib = SimpleNamespace(import_module=lambda name: module)\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    line = f"set -o pipefail; '{sys.executable}' late.py doctor -o F --json J | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (exit_code, "first\n")
    assert (tmp_path / "F").read_text() == "whole"
    assert json.loads((tmp_path / "J").read_text()) == {"a": 1}
    assert done.stderr == "wrote F, J\n"


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """After an interruption there must be one line and the shell's code."""
    ready = tmp_path / "ready"
    code = (
        "import sys, time, pathlib; from types import SimpleNamespace; from cnna.cli import main as cli\n"
        f"def run(args): pathlib.Path({str(ready)!r}).touch(); time.sleep(60)\n"
        "cli.importlib = SimpleNamespace(import_module=lambda n: SimpleNamespace(configure=lambda p: None, run=run))\n"
        "sys.exit(cli.main(['doctor']))"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    until(ready.exists, "the command has not begun")
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert said == "cnna: interrupted\n"


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [(">/dev/full", 2, "cnna: standard output: no space left on device\n"), (">&-", 0, "")],
)
def test_output_that_goes_nowhere(redirection: str, code: int, said: str) -> None:
    """A full disk must not pass for success, nor end in a traceback; closed output is the user's wish."""
    got = subprocess.run(f"'{CNNA}' models {redirection}", shell=True, capture_output=True, text=True)
    assert (got.returncode, got.stderr) == (code, said)


def test_letters_that_the_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    """The model's author chooses a layer's name, and the reader the terminal's encoding."""
    script = "import sys; import cnna.cli.main; cnna.cli.main.prepare_output(); print('Schicht_\\u00fc')"
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (got.returncode, got.stdout) == (0, b"Schicht_\\xfc\n")


def test_ctrl_c_before_the_command_begins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Importing a command's packages takes a moment, in which a user may change their mind."""
    monkeypatch.setattr("cnna.cli.main.parser_for", _raise(KeyboardInterrupt()))
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "cnna: interrupted\n"
