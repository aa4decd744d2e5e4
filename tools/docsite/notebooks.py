"""The notebooks with their outputs: each is run as a whole on a virtual ZCU102, whose accelerator is the RTL."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from cnna.cli.main import main as cnna
from cnna.spec.errors import RunError, ToolError
from docsite.pages import NOTEBOOKS, ROOT

ADDRESS = "127.0.0.72"  # of the virtual board: stock pynq uses one fixed port, so boards on one machine differ by address
COMMANDS = (
    "models digits -o digits.onnx --calib calib.npz --test test.npz",
    "quantize digits.onnx --calib calib.npz -o q.onnx",
    "compile q.onnx --config tiny -o digits.cnna",
    "board image --config tiny -o .",
)
SERVE = (sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "board", "serve", "--config", "tiny", "--address", ADDRESS)
EXECUTE = (sys.executable, "-W", "ignore", "-c", "from nbclient.cli import main; main()", "--inplace", "--timeout=600")
DRAWS = "plt.subplots("
END_SECONDS = 20


def write(folder: Path, work: Path, backend: str = "rtl") -> None:
    """Writes the notebooks with their outputs into folder/notebooks. `work` holds what they read and write.

    ToolError: pynq is missing, as on Python 3.13. RunError: a cell failed.
    """
    if find_spec("pynq") is None:
        raise ToolError("the notebooks need pynq, which is not there for Python 3.13: make the site with 3.11 or 3.12")
    work.mkdir(parents=True, exist_ok=True)
    for line in COMMANDS:
        words = [str(work / word) if "." in word else word for word in line.split()]
        if cnna(words):
            raise RunError(f"cnna {line} failed")
    with _board(backend) as environment:
        for name in NOTEBOOKS:
            made = work / f"{name}.ipynb"
            shutil.copy(ROOT / "host" / "notebooks" / made.name, made)
            done = subprocess.run([*EXECUTE, made.name], cwd=work, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RunError(f"{name}: {done.stderr.strip()[-2000:]}")
            (folder / "notebooks").mkdir(parents=True, exist_ok=True)
            (folder / "notebooks" / made.name).write_text(folded(made.read_text()))


def folded(notebook: str) -> str:
    """The notebook, with a tag on each cell that draws: the site shows the picture, and the code after a click."""
    read = json.loads(notebook)
    for cell in read["cells"]:
        if DRAWS in "".join(cell["source"]):
            cell["metadata"]["tags"] = ["hide-input"]
    return json.dumps(read)


@contextmanager
def _board(backend: str) -> Iterator[dict[str, str]]:
    """A virtual ZCU102; yields the environment in which pynq finds it."""
    with subprocess.Popen([*SERVE, "--backend", backend], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            if not server.stdout.readline().strip():
                raise RunError("the virtual board did not come up")
            yield {**os.environ, "PYNQ_REMOTE_DEVICES": ADDRESS, "PYTHONWARNINGS": "ignore", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        finally:
            server.terminate()
            server.wait(END_SECONDS)
