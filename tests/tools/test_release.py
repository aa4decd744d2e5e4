"""The dry run of a release: which Pythons it tries, what it takes along, and that it sees what is wrong."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
import release
import tomllib


def test_every_promised_python_is_tried(root: Path) -> None:
    """A version that pyproject.toml names would be published without a try, or the oldest would be another than it requires."""
    versions = release.supported(root)
    assert versions == sorted(set(versions), key=lambda name: int(name.split(".")[1]))
    assert f">={versions[0]}" == tomllib.loads((root / "pyproject.toml").read_text())["project"]["requires-python"]
    assert set(release.HOST_ALONE) < set(versions)


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyenv's shim of a version that is not active would be taken, and the try would end with its error."""
    version = ".".join(map(str, sys.version_info[:2]))
    shim, own = tmp_path / "shims" / f"python{version}", tmp_path / ".pyenv" / "versions" / f"{version}.1" / "bin" / "python"
    for path, text in ((shim, "#!/bin/sh\nexit 127\n"), (own, f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=":")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert release.interpreter(version) == own
    own.unlink()
    assert release.interpreter(version) is None


def test_a_missing_python_is_said_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release would be called ready although one version was never tried."""
    monkeypatch.setattr(release, "interpreter", lambda version: None)
    (row,) = release.tried("3.99", {"native": Path("none.whl")}, Path("none.tar.gz"))
    assert "pyenv install 3.99" in row.wrong
    assert row.wrong in release.table([row])


def test_a_failed_step_names_its_log(tmp_path: Path) -> None:
    """Half an hour later nobody would know why it failed; paths of the clone in the environment would make a broken wheel work."""
    log = tmp_path / "log"
    shown = "import os, sys; print(os.getcwd(), [name for name in os.environ if name.startswith('PYTHON')], os.environ['MORE'])"
    assert release.call(log, sys.executable, "-c", shown, more={"MORE": "1"}).split() == ["/", "[]", "1"]
    with pytest.raises(release.StepError, match=str(log)):
        release.call(log, sys.executable, "-c", "raise SystemExit('broken')")
    assert "broken" in log.read_text()


def test_what_git_tracks_is_taken_as_it_stands(tmp_path: Path) -> None:
    """A file that is not added would be in the trial, and in no clone; a link would be copied as what it points to."""
    clone, copy = tmp_path / "clone", tmp_path / "copy"
    clone.mkdir()
    for name in ("kept", "gone", "stray"):
        (clone / name).write_text(name)
    (clone / "link").symlink_to("kept")
    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    subprocess.run(["git", "add", "kept", "gone", "link"], cwd=clone, check=True)
    (clone / "gone").unlink()
    (clone / "kept").write_text("changed")
    release.copied(clone, copy)
    assert {path.name: path.read_text() for path in copy.iterdir()} == {"kept": "changed", "link": "changed"}
    assert (copy / "link").is_symlink()


def test_a_version_without_a_changelog_is_seen(tmp_path: Path) -> None:
    """A version would be published of which nobody can read what it changes."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.20\n")
    assert "1.2" in release.unnoted(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2, today\n")
    assert release.unnoted(tmp_path) == ""
