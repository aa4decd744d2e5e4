"""The public interface: what `import cnna` costs, which names it has, and their types as a user's checker sees them."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import cnna

USER = """
from pathlib import Path

import cnna


def share(model: Path) -> float:
    found = cnna.explain(model, "tiny", progress=lambda done, total, what: print(what))
    rows = [row.name for row in found.slowest() if row.seconds is not None and row.seconds > 1e-3]
    print(found, rows, found.save("page.html").name)
    return found.mac_share


def clocks(model: Path) -> int:
    try:
        compiled = cnna.compile(model, cnna.Config("own", 2, 4, 8, 1, 4, 1024, 512, 256), batch=2, output="m.cnna")
    except cnna.UserError as error:
        raise SystemExit(str(error)) from None
    with compiled.session("emulator") as session:
        print(session.get_inputs()[0].name, compiled.figures()["macs"], compiled.artifact.config.macs)
    return compiled.predicted_cycles
"""


def test_importing_it_imports_nothing_else() -> None:
    """Every command, and every program that only looks at the version, would wait for numpy or for the compiler."""
    body = "import sys; before = set(sys.modules); import cnna; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=60, check=True)
    ours = [name for name in done.stdout.split() if not name.startswith("__editable__")]
    assert ours == ["cnna"]


def test_looking_a_function_up_needs_numpy_alone() -> None:
    """On a board, Tab in a notebook would end in an error of a package that only the call itself needs."""
    body = "import sys, cnna; [getattr(cnna, name) for name in cnna.__all__]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=60, check=True)
    assert not {"onnx", "onnxruntime", "amaranth", "matplotlib", "cnna.compiler"} & set(done.stdout.split())


BARRED = """
import importlib.abc, sys

class Bar(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("onnx", "amaranth"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Bar())
import cnna
calls = {
    "compile": ("q.onnx", "tiny"), "convert": ("m.onnx", "x.npz", "tiny"), "explain": ("m.onnx",), "explore": ("m.onnx",),
    "quantize": ("m.onnx", "x.npz"), "tilings": ("m.onnx", "layer"),
}
for name, arguments in calls.items():
    try:
        getattr(cnna, name)(*arguments)
    except cnna.ToolError as error:
        print(name, error)
"""


def test_a_missing_package_is_said_in_one_line() -> None:
    """On a board, a call would end in a traceback that does not say what to install; the command says it."""
    done = subprocess.run([sys.executable, "-c", BARRED], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["compile", "convert", "explain", "explore", "quantize", "tilings"]
    assert all("the package onnx is missing: pip install '.[tools]'" in line for line in lines)


def test_the_three_lists_of_names_are_one(root: Path) -> None:
    """A name would be there and unknown to type checkers, or promised and not there."""
    tree = ast.parse((root / "api" / "__init__.py").read_text())
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imported = {(node.module, name.name) for node in typed.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert imported == {(module, name) for module, names in vars(cnna)["_PLACES"].items() for name in names}
    assert {name for _, name in imported} | {"__version__"} == set(cnna.__all__)
    assert cnna.__all__ == sorted(cnna.__all__)


def test_a_users_program_is_typed_throughout(root: Path, tmp_path: Path) -> None:
    """Who checks a program strictly would get errors about cnna, or no warning about a field that is not there."""
    assert _checked(root, tmp_path, USER) == []
    wrong = _checked(root, tmp_path, USER.replace("compiled.predicted_cycles", "compiled.clocks"))
    assert any('has no attribute "clocks"' in line for line in wrong)
    shown = _checked(root, tmp_path, "import cnna\n" + "".join(f"reveal_type(cnna.{name})\n" for name in cnna.__all__))
    assert len(shown) == len(cnna.__all__)
    assert not [line for line in shown if line.endswith('is "Any"')]


def _checked(root: Path, folder: Path, program: str) -> list[str]:
    """What `mypy --strict` says about a program. typings/ stands for the installed package, which an editable one hides from it."""
    (folder / "program.py").write_text(program)
    line = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(root / "typings")}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()
