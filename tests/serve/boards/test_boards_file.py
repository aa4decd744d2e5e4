"""`boards.yaml`: what it may say, and the one line for what it may not."""

from pathlib import Path

import pytest

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.boards_file import KEYS, boards_of
from cnna.spec.errors import UserError


def read(folder: Path, text: str) -> list[BoardSpec]:
    path = folder / "boards.yaml"
    path.write_text(text)
    return boards_of(path)


def test_boards_have_the_options_of_the_command_line(tmp_path: Path) -> None:
    """A key that is read under another name would silently keep its default; an overlay is where the file is, not the shell."""
    text = """
- {name: left, kind: paced, mhz: 300.5, slow: 2, kill: 7, hang: 8, wrong: 9, config: "zcu102,pix=4"}
- name: right
  kind: pynq
  address: 192.168.2.99
  overlay: images/cnna.bit
  turn_seconds: 5
- {name: here, kind: pynq, overlay: /opt/cnna.bit}
"""
    left = BoardSpec("left", "paced", config="zcu102,pix=4", mhz=300.5, slow=2, kill=7, hang=8, wrong=9)
    right = BoardSpec("right", "pynq", address="192.168.2.99", overlay=str(tmp_path / "images/cnna.bit"), turn_seconds=5)
    assert read(tmp_path, text) == [left, right, BoardSpec("here", "pynq", overlay="/opt/cnna.bit")]
    assert set(KEYS) == set(left.options())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a list of boards"),
        ("name: left", "must be a list of boards"),
        ("- left", "board 1: must be `key: value` lines"),
        ("- {name: left, kind: emulator}\n- {name: a, speed: 3}", "board 2: unknown key 'speed'; there are name, kind, address"),
        ("- {kind: emulator}", "board 1: needs a name"),
        ("- {name: a b, kind: emulator}", "needs a name of letters"),
        ("- {name: a, kind: gpu}", "board 1 (a): there is no kind 'gpu'"),
        ("- {name: a, kind: paced, mhz: true}", "mhz: True is neither a text nor a number"),
        ("- {name: a, kind: paced, mhz: fast}", "mhz=fast must be a number"),
        ("- {name: a, kind: paced, kill: 0}", "kill=0 must be an integer within 1.."),
        ("- {name: a, kind: emulator, mhz: 3}", "mhz is for boards of the kind paced"),
        ("- {name: a, kind: emulator, address: 127.0.0.1}", "only pynq has an address"),
        ("- {name: a, kind: pynq}", "needs a .bit file"),
        ("- {name: a, kind: emulator}\n- {name: a, kind: paced}", "two boards have the name a"),
        ("- name: a\n  kind: emulator\n  name: b", "line 3: the key 'name' comes twice"),
        ("- [", "not YAML"),
        ("- !!python/object:os.system {}", "not YAML"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    """A board that is not there, or another one than was meant, would be found under load."""
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "boards.yaml"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
