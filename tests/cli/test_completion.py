"""Tab in a shell, asked as bash asks."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,1,1] x, float[1,1,1,1] w) => (float[1,1,1,1] y)
    { [stem] a = Conv (x, w) [act] b = Relu (a) [head_conv] y = Conv (b, w) }"""
CNNA = Path(sys.executable).with_name("cnna")


@pytest.mark.parametrize(
    ("line", "some", "others"),
    [
        ("cnna co", {"compile ", "convert "}, {"run "}),
        ("cnna run m.cnna --de", {"--device "}, {"--config "}),
        ("cnna run m.cnna --device r", {"rtl ", "reference "}, {"emulator "}),
        ("cnna compile --config z", {"zcu102", "zcu102x2", "zcu104"}, {"tiny"}),
        ("cnna models r", {"resnet18", "resnet50"}, {"digits"}),
        ("cnna models ", {"digits"}, {"run"}),
        ("cnna explore m.onnx --layer st", {"stem"}, {"act", "head_conv"}),
        ("cnna explore m.onnx --layer ", {"stem", "head_conv"}, {"act"}),
        ("cnna explore --layer s", set(), {"stem"}),
        ("cnna board s", {"serve ", "selftest "}, {"image "}),
        ("cnna board serve --backend e", {"emulator "}, {"rtl "}),
    ],
)
def test_tab_offers_what_fits(line: str, some: set[str], others: set[str], tmp_path: Path) -> None:
    """Users would have to type every option, or be offered those of another command."""
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    answer = tmp_path / "answer"
    environment = os.environ | {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9",
    }  # fmt: skip
    subprocess.run([CNNA], env=environment, cwd=tmp_path, timeout=60, check=True)
    found = {word.rstrip() for word in answer.read_text().split("\n")}
    assert {word.rstrip() for word in some} <= found
    assert not {word.rstrip() for word in others} & found
