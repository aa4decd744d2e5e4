"""Outputs are written whole or not at all, and special files stay what they are."""

import os
import threading
from pathlib import Path

import pytest

from cnna.spec.errors import UserError
from cnna.spec.files import check_outputs, check_writable, make_folder, write_text, writing


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    """As root, renaming a file to `-o /dev/null` would remove the machine's /dev/null."""
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "figures")
    reader.join(10)
    assert found == ["figures"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_one_pipe_takes_two_outputs_and_a_link_to_it_is_followed(tmp_path: Path) -> None:
    """`--json /dev/null --html /dev/null` must not count as a mistake."""
    pipe, link, found = tmp_path / "pipe", tmp_path / "link", []
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    check_outputs({"--json": pipe, "--html": link}, [])
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(link, "figures")
    reader.join(10)
    assert found == ["figures"]
    assert link.is_symlink()
    assert pipe.is_fifo()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file to which the user's link leads would keep its old content."""
    (tmp_path / "there").mkdir()
    link, file = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(file)
    for text in ("first", "second"):
        write_text(link, text)
        assert file.read_text() == text
    assert link.is_symlink()
    (tmp_path / "lost").symlink_to(tmp_path / "none" / "file")
    with pytest.raises(UserError, match=r"lost: the folder .*none does not exist"):
        check_writable(tmp_path / "lost")


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    """Half a file would be taken for the answer."""
    path = tmp_path / "y"
    path.write_text("old")

    def half() -> None:
        with writing(path) as file:
            file.write(b"ne")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_that_is_read_only_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses to remove even what is not there: that error would take the place of the one that names the file."""

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(os, "access", lambda *asked: False)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(UserError, match=r"the folder .* is not writable"):
        write_text(tmp_path / "a", "text")


@pytest.mark.parametrize("below", ["", "models", "models/digits"])
def test_a_file_in_a_folders_place_is_named(below: str, tmp_path: Path) -> None:
    """The message "file exists" says of an output that it is there, and not that it should be a folder."""
    file = tmp_path / "taken"
    file.write_text("")
    with pytest.raises(UserError, match=rf"^{file}: is a file, not a folder to write into$"):
        make_folder(file / below)


def test_a_link_to_nothing_in_a_folders_place_is_named(tmp_path: Path) -> None:
    """The message would call the folder above it a file."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    with pytest.raises(UserError, match=rf"^{link}: is a file, not a folder to write into$"):
        make_folder(link)
