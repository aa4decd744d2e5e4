"""Names of classes: read from what users have, held against the outputs, and refused in one line where they do not fit."""

import json
from pathlib import Path

import pytest

from cnna.serve.models.labels import FILE, MOST_LETTERS, of_outputs, read_names, stored, write
from cnna.serve.runtimes.interface import Tensor
from cnna.spec.errors import UserError

OUTPUTS = (Tensor("scores", "float32", (3,)), Tensor("boxes", "float32", (2, 4)), Tensor("open", "float32", (None,)))


@pytest.mark.parametrize(
    "content",
    [
        b"cat\ndog\nbird",
        b"cat\ndog\nbird\n\n",
        b"\xef\xbb\xbfcat\r\ndog\r\nbird\r\n",
        b' ["cat", "dog",\n "bird"]\n',
    ],
    ids=["no end of line", "empty lines at the end", "from Windows", "JSON"],
)
def test_files_as_users_have_them(tmp_path: Path, content: bytes) -> None:
    """A name would have a letter that nobody sees, or an empty class stand behind the last one."""
    (tmp_path / "f").write_bytes(content)
    assert read_names(tmp_path / "f") == ["cat", "dog", "bird"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no names"),
        (b"\n\n", "holds no names"),
        (b"[]", "holds no names"),
        (b"cat\n\ndog\n", "line 2 has no name"),
        (b'["cat", 3]', "entry 2 has no name"),
        (b'["cat",', "not JSON"),
        (b"[null]", "entry 1 has no name"),
        (b"[1, 2]", "entry 1 has no name"),
        (b"cat\xff", "not text in UTF-8 (invalid start byte at byte 3)"),
        (b"cat\ta\ndog\n", "line 1: 'cat\\ta' is no name"),
        (b"a" * (MOST_LETTERS + 1), "line 1: 'aaaaaaaaaaaaaaaaaaaa' is no name"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    """The version would be published with names that no client can show, or with some that belong to other classes."""
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_names(tmp_path / "f")
    assert said in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "f"))
    assert "\n" not in str(error.value)


def test_a_name_may_begin_with_a_bracket(tmp_path: Path) -> None:
    """A vocabulary begins with [unk] or [background]: its file would be refused as faulty JSON."""
    (tmp_path / "f").write_text("[unk]\ncat\n")
    assert read_names(tmp_path / "f") == ["[unk]", "cat"]


def test_a_file_called_json_is_json(tmp_path: Path) -> None:
    """Its brackets and commas would be names."""
    (tmp_path / "f.json").write_text('{"0": "cat"}')
    with pytest.raises(UserError, match="must be a list of names"):
        read_names(tmp_path / "f.json")
    with pytest.raises(UserError, match=r"g\.json"):
        read_names(tmp_path / "g.json")


def test_names_belong_to_the_outputs_of_their_number(tmp_path: Path) -> None:
    """Class 7 would have the name of another output's class, or no output be found that has its values in two axes."""
    assert of_outputs(["a", "b", "c"], OUTPUTS, "f") == {"scores": ["a", "b", "c"]}
    assert list(of_outputs(list("abcdefgh"), OUTPUTS, "f")) == ["boxes"]
    with pytest.raises(UserError, match=r"f: 2 names, but no output .*: scores has 3, boxes has 8, open has an open number"):
        of_outputs(["a", "b"], OUTPUTS, "f")
    write(tmp_path, {"scores": ["ä", "b", "c"]})
    assert stored(tmp_path, OUTPUTS) == {"scores": ["ä", "b", "c"]}
    assert stored(tmp_path / "nothing", OUTPUTS) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[", "not JSON"),
        ("[]", "must be an object"),
        (json.dumps({"other": ["a"]}), "there is no output 'other', but scores, boxes, open"),
        (json.dumps({"scores": "abc"}), "output scores: holds no names"),
        (json.dumps({"scores": ["a", "b"]}), "output scores: 2 names for 3 values"),
        (json.dumps({"open": ["a", "b"]}), "output open: 2 names for None values"),
    ],
)
def test_a_damaged_file_refuses_the_version(tmp_path: Path, content: str, said: str) -> None:
    """A server would answer with another class's name, or end with a traceback in the middle of a request."""
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UserError) as error:
        stored(tmp_path, OUTPUTS)
    assert said in str(error.value)
    assert str(error.value).endswith("mend it, or publish the version again with --labels")
