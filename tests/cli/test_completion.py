"""Tab in a shell, asked as bash asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CNNA = Path(sys.executable).with_name("cnna")


@pytest.mark.parametrize(
    ("line", "some", "others"),
    [
        ("cnna co", {"compile ", "convert "}, {"run "}),
        ("cnna run m.cnna --de", {"--device "}, {"--config "}),
        ("cnna run m.cnna --device r", {"rtl ", "reference "}, {"emulator "}),
        ("cnna compile --config z", {"zcu102", "zcu102x2"}, {"tiny"}),
        ("cnna board s", {"serve ", "selftest "}, {"image "}),
        ("cnna board serve --backend e", {"emulator "}, {"rtl "}),
    ],
)
def test_tab_offers_what_fits(line: str, some: set[str], others: set[str], tmp_path: Path) -> None:
    """Users would have to type every option, or be offered those of another command."""
    answer = tmp_path / "answer"
    environment = os.environ | {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9",
    }  # fmt: skip
    subprocess.run([CNNA], env=environment, cwd=tmp_path, timeout=60, check=True)
    found = {word.rstrip() for word in answer.read_text().split("\n")}
    assert {word.rstrip() for word in some} <= found
    assert not {word.rstrip() for word in others} & found
