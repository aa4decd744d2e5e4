"""The cache folder stays bounded, and entries that somebody may be using stay in it."""

import os
import time
from pathlib import Path

import pytest

from cnna.sim.rtl import build as building
from cnna.sim.rtl.cache import FRESH_HOURS, KEEP_DAYS, KEEP_ENTRIES, is_sealed, private, prune, use
from cnna.spec.errors import UserError
from cnna.spec.files import default_cache


def _entry(folder: Path, name: str, hours: float) -> Path:
    """A folder with a file in it, last used so many hours ago."""
    entry = folder / name
    entry.mkdir(parents=True)
    (entry / building.TOP).write_text("x")
    at = time.time() - 3600 * hours
    os.utime(entry, (at, at))
    return entry


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    """Simulators and benches would fill another folder than the one that the user has chosen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "cnna"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache().parts[-2:] == (".cache", "cnna")


def test_old_entries_go_and_used_ones_stay(tmp_path):
    """Every change of the RTL adds a simulator: the cache would fill the disk."""
    old, used, new = (_entry(tmp_path, name, 24 * KEEP_DAYS + 1) for name in ("old", "used", "new"))
    (tmp_path / "old.v").write_text("")
    assert use(used)
    assert use(new)
    prune(tmp_path.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"used", "new", "old.v"}
    assert not use(old)


def test_the_oldest_beyond_the_count_go_unless_somebody_may_be_about_to_open_them(tmp_path):
    """A day of development must not fill the disk, nor remove a simulator from a run that is starting."""
    fresh = [_entry(tmp_path, f"fresh{number}", 0.01 * number) for number in range(KEEP_ENTRIES)]
    resting, beyond = _entry(tmp_path, "resting", FRESH_HOURS - 1), _entry(tmp_path, "beyond", FRESH_HOURS + 1)
    prune(tmp_path.iterdir())
    assert all(entry.exists() for entry in [*fresh, resting])
    assert not beyond.exists()


def test_as_many_as_are_kept_stay(tmp_path):
    """The tour states the number, so one more would contradict it."""
    entries = [_entry(tmp_path, str(number), FRESH_HOURS + 1 + number) for number in range(KEEP_ENTRIES + 1)]
    prune(tmp_path.iterdir())
    assert [entry.exists() for entry in entries] == [True] * KEEP_ENTRIES + [False]


def test_a_build_drops_old_simulators_but_none_in_use(tmp_path, monkeypatch):
    """If a simulator's lock is held, it is about to be started."""
    root = tmp_path / "simulators"
    left, held = _entry(root, "left", 24 * KEEP_DAYS + 1), _entry(root, "held", 24 * KEEP_DAYS + 1)
    monkeypatch.setattr(building, "build_into", lambda sources, folder, trace, say, careful: _entry(root, folder.name, 0))
    with building.locked(held, print):
        built = building.build({"a.v": "x"}, tmp_path, False, print)
    assert not left.exists()
    assert not (root / "left.lock").exists()
    assert held.exists()
    assert (built / building.TOP).exists()


def test_a_lock_that_is_removed_while_one_waits_is_no_lock(tmp_path, monkeypatch):
    """Two processes would hold "the" lock: one that of the removed file, one that of the new file."""
    folder, passed = tmp_path / "simulator", []
    monkeypatch.setattr(building, "_is_named", lambda path, file: len(passed) > 1 or passed.append(path) is not None)
    with building.locked(folder, pytest.fail):
        assert len(passed) == 2


def test_the_cache_is_for_its_user_alone(tmp_path):
    """Its files are executed: another user of the machine could put a program there."""
    before = os.umask(0)
    try:
        made = private(tmp_path / "a" / "cnna")
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o700
    for mode in (0o770, 0o702):
        made.chmod(mode)
        with pytest.raises(UserError, match="chmod -R go-w") as caught:
            building.build({}, made, False, print)
        assert str(made) in str(caught.value)
    made.chmod(0o755)  # as older versions made it, when others could read but not write
    assert private(made) == made


def test_a_cache_of_another_user_is_refused(tmp_path, monkeypatch):
    """The owner of a folder can change its contents at any time."""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UserError, match="belongs to another user"):
        private(tmp_path)


def test_a_simulator_that_is_not_what_was_built_is_built_again(tmp_path, monkeypatch):
    """Half a file after a crash, or another program of that name, would be executed."""
    built = []

    def make(sources, folder, trace, say, careful):
        built.append(folder)
        folder.mkdir()
        (folder / building.TOP).write_text("a simulator")

    monkeypatch.setattr(building, "build_into", make)
    program = building.build({}, tmp_path, False, print) / building.TOP
    assert is_sealed(building.build({}, tmp_path, False, print) / building.TOP)
    assert len(built) == 1
    program.write_text("another program")
    building.build({}, tmp_path, False, print)
    assert (len(built), program.read_text()) == (2, "a simulator")
    program.with_name(f"{building.TOP}.sha256").unlink()
    building.build({}, tmp_path, False, print)
    assert len(built) == 3
