"""Files that `cnna eval` measures for docs/accuracy.md: a folder for each model, and the command, which is printed and run."""

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cnna.cli.main import main

DATA, FIGURES, CACHE = "test.npz", "eval.json", "cache"
METRICS = Path(__file__).resolve().parent / "near_float.py"


@contextmanager
def files_of(name: str, keep: Path | None) -> Iterator[Path]:
    """The folder of a model's files: a new one below `keep`, or one that goes when all is done."""
    if keep is None:
        with TemporaryDirectory() as folder:
            yield Path(folder)
        return
    (keep / name).mkdir(parents=True, exist_ok=True)
    yield keep / name


def judged_by(function: str) -> tuple[str, str]:
    """The option that names a function of near_float.py."""
    return "--metric", f"{METRICS}:{function}"


def evaluated(files: Sequence[str], folder: Path, *options: str) -> dict[str, Any]:
    """What `cnna eval` writes about models in the folder. SystemExit: it failed, and has said why."""
    said = ["cnna", "eval", *files, "--data", DATA, *options]
    print(f"$ {shlex.join(said)}", flush=True)
    places = [str(folder / name) for name in files]
    rest = ["--data", str(folder / DATA), *options, "--json", str(folder / FIGURES), "--cache", str(folder / CACHE)]
    if code := main(["eval", *places, *rest]):
        raise SystemExit(code)
    found: dict[str, Any] = json.loads((folder / FIGURES).read_text())
    return found


def figures_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The metrics of one model."""
    metrics: dict[str, Any] = next(model["metrics"] for model in found["models"] if model["name"] == name)
    return metrics
