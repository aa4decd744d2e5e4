"""The digits network through the stock pynq package on a virtual ZCU102: `make board-demo`.

It starts the board (the accelerator's RTL behind PYNQ.remote) and classifies test images on it, with `cnna run --device pynq` and
in a notebook. It compares the answers, bit by bit, with the integer reference, and the clocks with a simulation without a board.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy import save as save_array
from numpy import savez

from cnna import InferenceSession
from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import CnnaError, RunError

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "build" / "board-demo"
CONFIG, IMAGES = "tiny", 5
ADDRESS = "127.0.0.71"  # of the virtual board: stock pynq uses one fixed port, so boards on one machine differ by address
CNNA = (sys.executable, "-W", "ignore", "-m", "cnna.cli.main")
END_SECONDS = 20
NOTEBOOK = HERE.parent / "host" / "notebooks" / "1_classify.ipynb"
EXECUTE = (sys.executable, "-W", "ignore", "-c", "from nbclient.cli import main; main()", "--inplace")


def main() -> int:
    """Runs the demo; returns 1 if something differs or fails."""
    try:
        demo()
    except CnnaError as error:
        print(f"board-demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("board-demo: interrupted", file=sys.stderr)
        return 130
    return 0


def demo() -> None:
    """Makes a model and an overlay, starts the board, runs the model and compares."""
    digits = data.load()
    OUT.mkdir(parents=True, exist_ok=True)
    model, _ = quantise(load_model(data.NETWORK), {"image": digits.calibration.images})
    artifact = compile_model(model, preset(CONFIG))
    save(artifact, OUT / "digits.cnna")
    images = digits.test.images[:IMAGES]
    savez(OUT / "test.npz", x=images, y=digits.test.classes[:IMAGES])
    save_array(OUT / "x.npy", images)
    _cnna("board", "image", "--config", CONFIG, "-o", OUT)
    with board() as environment:
        files = ["--overlay", OUT / "cnna.bit", "--input", OUT / "x.npy", "--json", OUT / "board.json"]
        _cnna("run", OUT / "digits.cnna", "--device", "pynq", *files, "--check", environment=environment)
        play(NOTEBOOK, environment)
    with InferenceSession(artifact, "rtl") as direct:
        direct.run(None, {"image": images})
        wanted = direct.last
    found: dict[str, Any] = json.loads((OUT / "board.json").read_text())
    for figure in ("cycles", "ddr_read_bytes", "ddr_write_bytes"):
        if found[figure] != wanted[figure]:
            raise RunError(f"{figure}: {found[figure]} on the board, {wanted[figure]} in a direct simulation")
    print(f"clocks on the board == clocks of a direct simulation: {found['cycles']:,} an image")


def play(notebook: Path, environment: dict[str, str]) -> None:
    """Runs a notebook in its own kernel, keeps it with its pictures, and prints what it found. RunError: a cell failed."""
    made = OUT / notebook.name
    shutil.copy(notebook, made)
    done = subprocess.run([*EXECUTE, made.name], cwd=OUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"{notebook.name}: {done.stderr.strip().splitlines()[-1]}")
    cells = json.loads(made.read_text())["cells"]
    said = "".join("".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", []))
    found = next(line for line in said.splitlines() if line.startswith("right: "))
    print(f"notebook {os.path.relpath(made)}: {found}")


@contextmanager
def board() -> Iterator[dict[str, str]]:
    """A virtual ZCU102; yields the environment in which pynq finds it. RunError: it did not come up, or did not end in order."""
    command = [*CNNA, "board", "serve", "--config", CONFIG, "--address", ADDRESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline().strip()
            if not ready:
                raise RunError("the virtual board did not come up")
            print(f"virtual ZCU102 {ready}")
            yield {**os.environ, "PYNQ_REMOTE_DEVICES": ADDRESS}
        finally:
            server.terminate()
            server.wait(END_SECONDS)
    if server.returncode:
        raise RunError(f"the virtual board ended with code {server.returncode}")


def _cnna(*arguments: object, environment: dict[str, str] | None = None) -> None:
    """Runs one command. RunError: it failed; its own message is printed above."""
    words: Sequence[str] = [str(argument) for argument in arguments]
    print("$ cnna " + " ".join(os.path.relpath(word) if os.path.isabs(word) else word for word in words), flush=True)
    if code := subprocess.run([*CNNA, *words], env=environment, check=False).returncode:
        raise RunError(f"cnna {words[0]} ended with code {code}")


if __name__ == "__main__":
    sys.exit(main())
