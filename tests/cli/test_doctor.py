"""`doctor` answers on machines that lack everything."""

import subprocess
import sys
from pathlib import Path

import pytest

from cnna.cli import prerequisites


def test_here_nothing_is_missing() -> None:
    """The suite runs with everything installed, so a finding here is a fault of the search."""
    missing = [finding.name for finding in prerequisites.examine() if finding.version is None]
    assert missing == (["pynq"] if sys.version_info >= (3, 13) else [])


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without programs on PATH and with an unknown package, each must be reported and not raise."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(prerequisites.PACKAGES, "no-such-package", "nothing")
    missing = {finding.name: finding.remedy for finding in prerequisites.examine() if finding.version is None}
    assert missing == {
        "g++": "apt install g++",
        "make": "apt install make",
        "perl": "apt install perl",
        "no-such-package": "pip install 'cnna[tools]'",
    }


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
