"""Quantised networks and pictures for `bench.py`, made once for each state of what makes them.

They are kept in a folder named after the sources of quantisation, so that a change of the scheduler quantises nothing again.
"""

import hashlib
import re
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import cnna.compiler.quantise.quantise

ROOTS = ("quantise", "model_zoo", "onnx_import")  # what `cnna models` and `cnna quantize` run
IMPORTED = re.compile(r"from cnna\.compiler(?:\.([\w.]+))? import ([\w, ]+)")


def network(name: str, folder: Path, cnna: Callable[..., None]) -> Path:
    """The folder of a network of `cnna models`, with q.onnx and test.npz, made below `folder` if it is not there.

    cnna: runs a command.
    """
    ready = folder / f"{name}-{sources_digest()}"
    if ready.exists():
        return ready
    for old in folder.glob(f"{name}-*"):
        shutil.rmtree(old)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as made:
        _make(name, Path(made), cnna)
        (part := Path(made) / "part").mkdir()
        for kept in ("q.onnx", "test.npz"):
            (Path(made) / kept).rename(part / kept)
        try:
            part.rename(ready)
        except OSError:
            if not ready.exists():  # another process was not quicker
                raise
    return ready


def _make(name: str, part: Path, cnna: Callable[..., None]) -> None:
    """m.onnx, calib.npz, q.onnx and test.npz in `part`."""
    cnna("models", name, "-o", part / "m.onnx", "--calib", part / "calib.npz", "--test", part / "test.npz")
    cnna("quantize", part / "m.onnx", "--calib", part / "calib.npz", "-o", part / "q.onnx")


def sources_digest() -> str:
    """Of the compiler's modules that ROOTS import, directly or not, and of the libraries that calibrate."""
    texts = {name: text for name, text in _sources(ROOTS).items() if text}
    parts = [
        version("onnx"),
        version("onnxruntime"),
        version("numpy"),
        *(part for name in sorted(texts) for part in (name, texts[name])),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _sources(roots: tuple[str, ...]) -> dict[str, str]:
    """{module of cnna.compiler: its text}, an empty text for what is no module but a name in one."""
    package, waiting = Path(cnna.compiler.quantise.quantise.__file__).parent, list(roots)
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        path = package / f"{name.replace('.', '/')}.py"
        found[name] = path.read_text() if path.exists() else ""
        for module, names in IMPORTED.findall(found[name]):
            imported = [module] if module else names.replace(" ", "").split(",")
            waiting += [other for other in imported if other not in found]
    return found
