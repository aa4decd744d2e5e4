"""Quantised networks and pictures for `bench.py`, made once for each version of the code that makes them.

They are kept in a folder named after the sources of quantisation, so that a change of the scheduler does not quantise them again.
"""

import ast
import hashlib
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent.parent
ROOTS = ("compiler/quantise/quantise.py", "compiler/zoo/catalogue.py")  # what `cnna quantize` and `cnna models` run


def network(name: str, folder: Path, cnna: Callable[..., None], coded: bool = False) -> Path:
    """The folder of a network of `cnna models`, with q.onnx and test.npz, made below `folder` if it is not there.

    cnna: runs a command. coded: fully connected layers have weights of 4 bits.
    """
    kind = f"{name}_codes" if coded else name
    ready = folder / f"{kind}-{sources_digest()}"
    if ready.exists():
        return ready
    for old in folder.glob(f"{kind}-*"):
        shutil.rmtree(old)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as made:
        _make(name, Path(made), cnna, ("--fc-bits", 4) if coded else ())
        (part := Path(made) / "part").mkdir()
        for kept in ("q.onnx", "test.npz"):
            (Path(made) / kept).rename(part / kept)
        try:
            part.rename(ready)
        except OSError:
            if not ready.exists():  # unless another process was quicker
                raise
    return ready


def _make(name: str, part: Path, cnna: Callable[..., None], options: tuple[object, ...]) -> None:
    """Writes m.onnx, calib.npz, q.onnx and test.npz to `part`. options: of `cnna quantize`."""
    cnna("models", name, "-o", part / "m.onnx", "--calib", part / "calib.npz", "--test", part / "test.npz")
    cnna("quantize", part / "m.onnx", "--calib", part / "calib.npz", *options, "-o", part / "q.onnx")


def sources_digest() -> str:
    """Digest of the compiler's modules that ROOTS import, directly or not, and of the versions of the libraries that calibrate."""
    texts = sources(ROOT, ROOTS)
    parts = [version("onnx"), version("onnxruntime"), version("numpy")]
    parts += [part for name in sorted(texts) for part in (name, texts[name])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def sources(root: Path, roots: tuple[str, ...]) -> dict[str, str]:
    """{file below `root`: its text} of the roots and of all modules of `cnna.compiler` that they import, directly or not.

    FileNotFoundError: a root or an imported module has no file; the digest would then miss a source.
    """
    waiting, found = list(roots), dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = (root / name).read_text()
            waiting += _imported(root, found[name])
    return found


def _imported(root: Path, text: str) -> list[str]:
    """Files of the modules of `cnna.compiler` that a text imports; `from package import name` names modules of a package."""
    files = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith("cnna.compiler."):
            path = node.module.removeprefix("cnna.").replace(".", "/")
            package = (root / path).is_dir()
            files += [f"{path}/{name.name}.py" for name in node.names] if package else [f"{path}.py"]
    return files
