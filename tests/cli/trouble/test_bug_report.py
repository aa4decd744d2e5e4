"""The text file for reports of faults: it has what explains a fault, and nothing that is the user's own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cnna.cli.main import main
from cnna.cli.trouble import bug_report, doctor, last_error

USER, HOST, TOKEN = "alicesmith", "workstation-of-alice", "hf_Qx81secretTOKENvalue"
MODEL, NODE, TENSOR, WEIGHT = "topsecretnet", "classified_layer_7", "patient_image", 12345.678901234
SECRETS = (USER, HOST, TOKEN, MODEL, NODE, TENSOR, "private folder", "confidential", "12345.678901234")
NO_NUMPY = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Blocked())
from cnna.cli.main import main
main(["doctor", "--board", "--report", sys.argv[1]])
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user with secrets, on a computer that has a name."""
    folder = tmp_path / USER
    (folder / "private folder").mkdir(parents=True)
    for name, value in {"HOME": str(folder), "USER": USER, "LOGNAME": USER, "HOSTNAME": HOST, "HF_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: f"{HOST}.example.org")
    monkeypatch.setattr("platform.node", lambda: HOST)
    return folder


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the program with arguments, as a shell does: a program that calls `main` itself keeps its own errors."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["cnna", *arguments])
        return main()

    return run


def model_of(folder: Path) -> Path:
    """A model that no command takes: its only node has an operator that does not exist."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in (TENSOR, "y")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [WEIGHT])
    node = helper.make_node("Confidential", [TENSOR, "w"], ["y"], name=NODE)
    graph = helper.make_graph([node], MODEL, ends[:1], ends[1:], [weight])
    path = folder / "private folder" / f"{MODEL}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def text_of(tmp_path: Path, home: Path) -> str:
    """The report. AssertionError: a secret is in it, or in what is kept in the cache."""
    assert main(["doctor", "--report", str(tmp_path / "bug.txt")]) == 0
    text = (tmp_path / "bug.txt").read_text()
    kept = home / ".cache" / "cnna" / last_error.FILE
    for found in (text, kept.read_text() if kept.exists() else ""):
        assert str(home) not in found
        assert [secret for secret in SECRETS if secret.lower() in found.lower()] == []
    return text


def _taken(tmp_path: Path, home: Path) -> dict[str, tuple[str, ...]]:
    """Commands that fail with names of the user in their line, one of each kind."""
    np.savez(home / "private folder" / "confidential.npz", **{TENSOR: np.full((1, 5), WEIGHT)})
    (home / "private folder" / f"{MODEL}.cnna").write_text(f"not an artifact, {TOKEN}")
    model, other = str(model_of(home)), str(home / "private folder" / f"{MODEL}.cnna")
    return {
        "explain": ("explain", model, "--config", "tiny"),
        "compile": ("compile", str(home / f"{MODEL}-2.onnx"), "--config", "tiny", "-o", str(home / "out.cnna")),
        "quantize": ("quantize", model, "--calib", str(home / "private folder" / "confidential.npz"), "-o", str(home / "q.onnx")),
        "run": ("run", other, "--input", str(home / "private folder" / "confidential.npz")),
        "report": ("report", other, f"--html={home}/{TOKEN}/page.html"),
        "publish": ("publish", model, "--repo", str(home), "--model", f"{MODEL} {TOKEN}", "--config", f"{TOKEN},pix=4"),
        "explore": ("explore", model, "--shape", f"{NODE}:1,3,x"),
    }


@pytest.mark.parametrize("command", ["explain", "compile", "quantize", "run", "report", "publish", "explore"])
def test_no_secret_is_in_it(command: str, tmp_path: Path, home: Path, typed: Callable[..., int]) -> None:
    """A user would publish the name of a customer's model, a token, or where his files lie; so nobody would send reports."""
    arguments = _taken(tmp_path, home)[command]
    assert typed(*arguments) == 2
    text = text_of(tmp_path, home)
    assert f": {command} " in text
    assert "code 2, " in text
    assert "  cnna/" in text, "where in cnna the line was made"
    assert "cnna 0." in text
    assert "numpy 1." in text or "numpy 2." in text


def test_an_internal_error_has_its_traceback(
    tmp_path: Path, home: Path, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody could find a fault of ours; or its frames would show the user's own files and functions, and its message his data."""
    own = home / f"{MODEL}.py"
    code = compile(f"def {NODE}(*given):\n    raise KeyError('{TOKEN} {WEIGHT}')\n", str(own), "exec")
    made: dict[str, Callable[[], None]] = {}
    exec(code, made)
    monkeypatch.setattr("cnna.jobs.compile._wanted", made[NODE])
    assert typed("compile", str(own), "--config", "zcu102,pix=4", "--batch=2", "-o", str(own.with_suffix(".cnna"))) == 1
    assert "cnna doctor --report bug.txt" in capsys.readouterr().err
    text = text_of(tmp_path, home)
    assert "compile … --config zcu102,pix=4 --batch=2 -o …" in text
    assert "code 1, KeyError: " in text
    frames = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    assert [frame.partition(":")[0] for frame in frames][:2] == ["cnna/cli/main.py"] * 2
    assert any(frame.startswith("cnna/cli/compile.py:") and frame.endswith(", run") for frame in frames)
    assert frames[-1] == "a file of the user's"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["explain", "m.onnx", "--config", "topsecretnet.cnna"], "explain … --config ….cnna"),
        (["explain", "m.onnx", "--config=confidential.json"], "explain … --config=….json"),
        (["explain", "m.onnx", "--config", "zcu102,pix=4,confidential=3"], "explain … --config zcu102,pix=4,…=3"),
        (["serve", "models", "--board", "alicesmith.lab=paced,mhz=300"], "serve … --board …=paced,mhz=300"),
        (["explore", "m.onnx", "--board", "kv260"], "explore … --board kv260"),
        (["run", "m.cnna", "--device", "emulator", "--ddr", "zcu102-ps"], "run … --device emulator --ddr zcu102-ps"),
        (["quantize", "m.onnx", "--method", "percentile", "--effort", "2"], "quantize … --method percentile --effort 2"),
    ],
)
def test_a_value_of_an_option_has_our_words_alone(arguments: list[str], told: str) -> None:
    """A configuration may be a file of the user's, and a board be called after him: the report would name both."""
    assert last_error.entry_of(ValueError(""), arguments, 2, "1.0", internal=False)["command"] == told


def test_our_words_stay() -> None:
    """A line without a word would explain nothing; one with the user's words would tell what they are."""
    words = frozenset({"node", "has", "a", "kernel", "of", "at", "most", "channels"})
    line = (
        "/home/x/m.onnx: node 'stem.conv' has a kernel of 300x3, 1,024 channels at most; Über token 0123456789abcdef 4915112345678"
    )
    assert last_error.told(line, words) == "….onnx: node '…' has a kernel of 300x3, 1,024 channels at most; … … … …"


def test_names_of_user_and_computer_are_replaced(home: Path) -> None:
    """A package may have put them into its version, or a board into its name; parts of other words must stay."""
    text = f"{home}/x, {USER.upper()}'s board at {HOST}.example.org, {USER}ian"
    assert bug_report.anonymous(text) == f"~/x, USER's board at HOST, {USER}ian"


def test_a_success_keeps_the_last_error_and_a_report_is_none(tmp_path: Path, home: Path, typed: Callable[..., int]) -> None:
    """The report itself, or a look at what is installed, would take the place of the error that it is about."""
    assert typed("explain", str(home / "m.onnx"), "--config", "tiny") == 2
    assert typed("models") == 0
    assert typed("doctor", "--report", str(home / "no folder" / "b.txt")) == 2
    found = last_error.read()
    assert found is not None
    assert found["command"] == "explain … --config tiny"
    main(["explain", str(home / "other.onnx"), "--config", "zcu102"])
    assert last_error.read() == found, "a program that calls main has its own errors"
    (home / ".cache" / "cnna" / last_error.FILE).write_text("damaged")
    assert "none is kept" in text_of(tmp_path, home)


def test_a_broken_machine_gets_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numpy, or with a cache that nobody may read, there would be a line in place of the report that it is needed for."""
    subprocess.run([sys.executable, "-c", NO_NUMPY, str(tmp_path / "b.txt")], check=True, capture_output=True, timeout=120)
    assert "# last error" in (tmp_path / "b.txt").read_text()

    def broken() -> None:
        raise PermissionError(13, TOKEN)

    monkeypatch.setattr(bug_report, "_cache", broken)
    text = bug_report.bug_report([], "numpy")
    assert "# cache and simulators\ncannot be examined: PermissionError\n" in text


def test_the_file_is_an_output_and_errors_are_kept_in_private(tmp_path: Path, home: Path, typed: Callable[..., int]) -> None:
    """The name of the file would not be checked before the work, or others of the computer could read what has failed."""
    assert "report" in doctor.OUTPUTS
    assert typed("explain", str(home / "m.onnx"), "--config", "tiny") == 2
    folder = home / ".cache" / "cnna"
    assert folder.stat().st_mode & 0o077 == 0
    assert json.loads((folder / last_error.FILE).read_text())["exit_code"] == 2
    assert [path.name for path in folder.iterdir()] == [last_error.FILE]
