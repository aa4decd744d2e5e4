"""`doctor` answers on machines that lack everything."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from cnna.cli import prerequisites
from cnna.cli.main import main
from cnna.spec.extras import install


class Release(NamedTuple):
    """As `sys.version_info` begins."""

    major: int
    minor: int


def test_here_nothing_is_missing() -> None:
    """The suite runs with everything installed, so a finding here is a fault of the search."""
    missing = [finding.name for finding in prerequisites.examine() if finding.version is None]
    assert missing == (["pynq"] if sys.version_info >= (3, 13) else [])
    assert main(["doctor"]) == 0


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without programs on PATH and with an unknown package, each must be reported and not raise."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(prerequisites.PACKAGES, "no-such-package", ("nothing", ()))
    missing = {finding.name: finding.remedy for finding in prerequisites.examine() if finding.version is None}
    assert missing == {
        "g++": "apt install g++",
        "make": "apt install make",
        "perl": "apt install perl",
        "no-such-package": install("tools"),
    }


@pytest.mark.parametrize(
    ("release", "line", "code", "said"),
    [
        ((3, 10), "doctor", 1, "use Python 3.11 or later (in a clone: make demo PYTHON=python3.11)"),
        ((3, 10), "doctor --board", 0, "nothing that is needed is missing"),
        ((3, 9), "doctor --board", 1, "use Python 3.10 or later"),
        ((3, 11), "doctor --board", 0, "for a board"),
    ],
)
def test_each_profile_needs_its_own(
    release: tuple[int, int], line: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A board's user would be told to install a compiler, or a script go on where the tools cannot work."""
    monkeypatch.setattr(prerequisites.sys, "version_info", Release(*release))
    monkeypatch.setattr(prerequisites, "version", lambda name: "1.0")
    assert main(line.split()) == code
    out = capsys.readouterr().out
    assert said in out
    assert ("g++" in out) == ("--board" not in line)


def test_a_target_that_is_named_exists(root: Path) -> None:
    """A user would type `make` with a target that it does not have."""
    named = {word for need in prerequisites.examine() for word in re.findall(r"make ([a-z]+)", f"{need.needed_by} {need.remedy}")}
    targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M)
    assert named
    assert named <= set(targets)


def test_what_is_not_needed_may_be_absent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without pynq a PC that compiles would count as broken."""
    monkeypatch.setitem(prerequisites.PACKAGES, "no-such-package", ("nothing", ()))
    assert main(["doctor", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    figures = json.loads(out)
    assert (figures["missing"], figures["optional"][-1:]) == ([], ["no-such-package"])
    assert "absent  no-such-package" in err
    listed = [line for line in err.splitlines() if re.match("  (ok|absent)", line)]
    assert len({line.index(line[10:].split()[1], 10 + len(line[10:].split()[0])) for line in listed}) == 1, "not below each other"


def test_a_shared_libpython_is_looked_for_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's Python says that it has one even if its package is not installed."""
    real = prerequisites.sysconfig.get_config_var
    monkeypatch.setattr(
        prerequisites.sysconfig, "get_config_var", lambda key: "libpython9.9.so" if key == "INSTSONAME" else real(key)
    )
    finding = next(finding for finding in prerequisites.examine() if finding.name == "libpython")
    assert finding.version is None
    assert "apt install libpython3" in finding.remedy


def test_runs_before_anything_is_installed(root: Path, tmp_path: Path) -> None:
    """`make` runs the file by itself, without packages: there must be one line for each missing program, and code 2."""
    command = [sys.executable, "-I", "-S", str(root / "cli" / "prerequisites.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)}, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"cnna: {name} is missing: apt install {name}" for name in ("make", "g++", "perl")]
