"""`--board`: what it may say."""

import pytest

from cnna.serve.boards.board_spec import BoardSpec, board_spec, board_specs
from cnna.spec.errors import UserError


def test_options_are_read() -> None:
    """A configuration's name has commas too; they must not end it."""
    assert board_spec("a=emulator") == BoardSpec("a")
    assert board_spec("b=paced,config=zcu102,pix=4,mhz=250,kill=9,slow=1.5") == BoardSpec(
        "b", "paced", config="zcu102,pix=4", mhz=250, kill=9, slow=1.5
    )
    assert board_spec("c=pynq:board-2.lan,overlay=a,b.bit,turn_seconds=5") == BoardSpec(
        "c", "pynq", address="board-2.lan", overlay="a,b.bit", turn_seconds=5
    )
    assert board_spec("d=pynq,overlay=cnna.bit").address == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("emulator", "must be NAME=KIND"),
        ("=emulator", "must be NAME=KIND"),
        ("a b=emulator", "must be NAME=KIND"),
        ("a=gpu", "there is no kind 'gpu'; there are emulator, paced, rtl, pynq"),
        ("a=paced,speed=3", "'speed=3' is no option"),
        ("a=paced,kill=1,kill=2", "each once"),
        ("a=paced,mhz=0", "mhz=0 must be a number within 0.001..10000"),
        ("a=paced,slow=nan", "slow=nan must be a number"),
        ("a=paced,config=", "config needs a name"),
        ("a=paced:127.0.0.1", "paced:127.0.0.1: only pynq has an address"),
        ("a=pynq:,overlay=x", "only pynq has an address, such as pynq:192.168.2.99"),
        ("a=pynq:127.0.0.1", "a board of the kind pynq needs a .bit file, such as overlay=cnna.bit"),
        ("a=pynq,overlay=", "overlay needs a .bit file"),
        ("a=pynq,overlay=x,turn_seconds=-1", "turn_seconds=-1 must be a number within 0..3600"),
        ("a=rtl,overlay=x", "overlay is for boards of the kind pynq"),
        ("a=emulator,mhz=100", "mhz is for boards of the kind paced"),
        ("a=cpu,config=tiny", "config is for boards with accelerators"),
        ("a=emulator,runtime=remote", "runtime is for boards of the kind cpu"),
        ("a=cpu,runtime=cnna", "there is no runtime 'cnna' without an accelerator; there are function, onnxruntime, remote"),
    ],
)
def test_a_mistake_is_one_line(text: str, said: str) -> None:
    """A fault that is not injected, because its name was misspelt, would make a test pass."""
    with pytest.raises(UserError) as caught:
        board_spec(text)
    assert said in str(caught.value)


def test_a_board_takes_models_of_its_runtimes() -> None:
    """A model for accelerators would be sent to a board that has none, or the other way."""
    texts = ("a=emulator", "a=cpu", "a=cpu,runtime=remote")
    runtimes = ("cnna", "onnxruntime", "remote")
    taken = [[board_spec(text).takes(runtime) for runtime in runtimes] for text in texts]
    assert taken == [[True, False, False], [False, True, True], [False, False, True]]


def test_names_are_unique() -> None:
    """An operator could not say which of two boards to reset."""
    with pytest.raises(UserError, match="two boards have this name"):
        board_specs(["a=emulator", "a=paced"])
