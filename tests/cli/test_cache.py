"""`cnna cache`: lists, measures and empties a folder; it must not empty another one."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from cnna.cli.main import main

USED, OLD = "0123456789abcdef0123", "fedcba98765432100000"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two simulators, one of which a process is building, and a file of Verilog."""
    folder = tmp_path / "cache"
    for name in (USED, OLD):
        (folder / "simulators" / name).mkdir(parents=True)
        (folder / "simulators" / name / "tb").write_bytes(bytes(3000))
        (folder / "simulators" / f"{name}.lock").touch()
    (folder / "verilog").mkdir()
    (folder / "verilog" / f"{OLD}.v").write_bytes(bytes(500))
    (folder / "verilog" / "mine.v").write_bytes(bytes(40))
    (folder / "library.js").write_bytes(bytes(7))
    folder.chmod(0o700)
    return folder


def figures(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["cache", *words, "--json", "-"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_is_there(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user whose disk is full could not tell what of it is ours."""
    found = figures(capsys, "--cache", str(cache))
    parts = {part["name"]: (part["entries"], part["size_bytes"]) for part in found["parts"]}
    assert parts == {"simulators": (2, 6000), "verilog": (1, 500), "others": (1, 7)}
    assert found["bytes"] == 6507
    assert main(["cache", "size", "--cache", str(cache)]) == 0
    assert capsys.readouterr().out == f"{cache}: 0.0 MiB\n"


def test_clear_leaves_what_a_process_is_building(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A simulation that is just starting would lose its program."""
    with (cache / "simulators" / f"{USED}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert figures(capsys, "clear", "--cache", str(cache))["cleared"] == 3000
    assert sorted(path.name for path in (cache / "verilog").iterdir()) == [f"{OLD}.v", "mine.v"]
    assert sorted(path.name for path in (cache / "simulators").rglob("*")) == [USED, f"{USED}.lock", "tb"]
    assert figures(capsys, "clear", "--cache", str(cache))["cleared"] == 3500
    assert figures(capsys, "--cache", str(cache))["bytes"] == 7
    assert (cache / "verilog" / "mine.v").exists()  # whose name is none that we give


def test_another_folder_is_not_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--cache ~` would empty a home."""
    (tmp_path / "letter.txt").write_text("dear")
    assert main(["cache", "clear", "--cache", str(tmp_path)]) == 2
    assert "may be no cache of cnna" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["cache", "--cache", str(tmp_path / "file")]) == 2
    assert (tmp_path / "letter.txt").read_text() == "dear"
    assert main(["cache", "--cache", str(tmp_path / "none")]) == main(["cache", "clear", "--cache", str(tmp_path / "none")]) == 0
