"""The journal of an evaluation: what was changed or cut short in it is found, and no file loses more than its last line."""

import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cnna.evaluate.journal import Entry, Journal
from cnna.spec.errors import UserError

ABOUT = {"task": "classification", "models": ["a", "b"]}
ENTRIES = {number: Entry(({"top": [number]}, {"top": [0]})) for number in range(3)} | {3: Entry(skipped="torn")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three samples and of one that was left out."""
    with Journal(tmp_path / "j.jsonl", ABOUT) as journal:
        journal.add(ENTRIES)
    return tmp_path / "j.jsonl"


def test_it_gives_back_what_it_was_given(path: Path) -> None:
    """Figures of an evaluation that was gone on with would be others."""
    with Journal(path, ABOUT) as journal:
        assert journal.entries == ENTRIES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"top":[1]}', b'{"top":[2]}'),
        (b'{"top":[1]}', b"5"),
        (b'{"top":[1]},', b""),
        (b'[{"top":[1]},{"top":[0]}]', b"5"),
        (b'"n":1', b'"n":2'),
        (b'"n":1', b'"n":Infinity'),
        (b'"n":1', b'"n":"one"'),
        (b'"skipped":"torn"', b'"skipped":"worn"'),
        (b'\n{"n":1', b'\n\n{"n":1'),
        (b'\n{"n":1', b"\n" + b"[" * 100_000 + b'\n{"n":1'),
        (b'\n{"n":1', b'\n[]\n{"n":1'),
    ],
)
def test_a_line_that_was_changed_is_found(path: Path, old: bytes, new: bytes) -> None:
    """Figures would come from answers that no model has given, or from none at all."""
    changed = path.read_bytes().replace(old, new, 1)
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    with pytest.raises(UserError, match=r"j\.jsonl: line [345] has been changed; remove the file, or give another --journal$"):
        Journal(path, ABOUT)
    assert path.read_bytes() == changed, "a file that was refused stays as it is"


@pytest.mark.parametrize("about", [b"[1]", b"null", b'"x"'])
def test_a_head_of_another_form_is_refused(path: Path, about: bytes) -> None:
    """A user would see a traceback for a file of somebody else's."""
    path.write_bytes(b'{"kind":"cnna evaluation journal","about":' + about + b"}\n")
    with pytest.raises(UserError, match=r"j\.jsonl: no journal of cnna eval"):
        Journal(path, ABOUT)


@pytest.mark.parametrize("length", [1, 20, -1])
def test_half_a_head_is_begun_anew(path: Path, length: int) -> None:
    """An evaluation whose disk was full at once could never be made again with this name."""
    head = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(head[:length])
    with Journal(path, ABOUT) as journal:
        assert not journal.entries
        journal.add(ENTRIES)
    with Journal(path, ABOUT) as journal:
        assert journal.entries == ENTRIES


@pytest.mark.parametrize("room", [10, 200], ids=["in the head", "in a sample"])
def test_a_full_disk_is_a_line(tmp_path: Path, room: int) -> None:
    """Closing the file writes what is left once more, whose error would hide the line that names the file."""
    path = tmp_path / "j.jsonl"

    def filled() -> None:
        with Journal(path, ABOUT) as journal:
            journal.add(ENTRIES)

    with pytest.raises(UserError, match=r"j\.jsonl: file too large"):
        with_room(room, filled)
    filled()
    with Journal(path, ABOUT) as journal:
        assert journal.entries == ENTRIES


def with_room(size: int, work: Callable[[], None]) -> None:
    """Does some work while no file may become larger."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        work()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_device_is_no_journal() -> None:
    """Reading all of it would take all memory."""
    with pytest.raises(UserError, match=r"/dev/zero: no file that can be gone on with; --journal F names another"):
        Journal(Path("/dev/zero"), ABOUT)
