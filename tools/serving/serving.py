"""Measures `cnna serve` on one paced board with the unmodified tritonclient, and prints the table of docs/serving/measurements.md.

.venv/bin/python tools/serving/serving.py [--seconds 10] [--clients 32] [--client PYTHON] [--only http-600]

The models take 1, 150 and 600 kB and are paced to 282 images a second in batches of eight. Clients run in an environment of their
own, which is made in build/serving unless --client names a Python that has tritonclient[http,grpc].
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.session import InferenceSession
from cnna.serve.models.publication import publish
from cnna.spec.config import preset

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "serving"
SIDES = {"1": (1, 16), "150": (3, 112), "600": (3, 224)}  # kB: channels, and rows and columns
RATE, BATCH, SAMPLES = 282, 8, 16
PROTOCOLS = ("http", "grpc")
COLUMNS = (
    *("protocol", "kB a request", "images/s", "of the board's", "server CPU, ms a request", "median, ms", "99 %, ms"),
    *("wrong", "refused"),
)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--client", type=Path, help="a Python with tritonclient")
    parser.add_argument("--only", help="one row, such as http-600")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    client = args.client or environment()
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for kilobytes in SIDES:
        mhz = made(kilobytes)
        for protocol in PROTOCOLS:
            if args.only in (None, f"{protocol}-{kilobytes}"):
                print(row(protocol, kilobytes, mhz, client, args), flush=True)
    return 0


def environment() -> Path:
    """A Python with the unmodified tritonclient."""
    python = FOLDER / "client" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", FOLDER / "client"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "tritonclient[http,grpc]>=2.50"], check=True)
    return python


def made(kilobytes: str) -> float:
    """Publishes a model that takes so many kB, and returns the clock that paces it to RATE."""
    folder = FOLDER / f"repository-{kilobytes}"
    shutil.rmtree(folder, ignore_errors=True)
    channels, side = SIDES[kilobytes]
    x = np.random.default_rng(1).normal(size=(SAMPLES, channels, side, side)).astype(np.float32)
    model, _ = quantise(network(channels, side), {"x": x})
    artifact = compile_model(model, preset("zcu102"), BATCH)
    with InferenceSession(artifact, "emulator") as session:
        (y,) = session.run(None, {"x": x})
    publish(folder, "m", "1", [artifact], {"x": x}, {"y": y})
    np.savez(FOLDER / f"samples-{kilobytes}.npz", x=x, y=y, input="x", output="y")
    (folder / "m" / "model.yaml").write_text("max_delay_us: 5000\n")
    return artifact.predicted_clocks() * RATE / BATCH / 1e6


def network(channels: int, side: int) -> onnx.ModelProto:
    """A convolution, the mean and ten classes: what it computes is of no matter, only what it takes."""
    rng = np.random.default_rng(2)
    arrays = {"a": rng.normal(size=(8, channels, 4, 4)), "b": rng.normal(size=(10, 8, 1, 1))}
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], strides=[4, 4]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "b"], ["y"]),
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, side, side])
    target = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10, 1, 1])
    graph = helper.make_graph(nodes, "m", [source], [target], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def row(protocol: str, kilobytes: str, mhz: float, client: Path, args: argparse.Namespace) -> str:
    """Measures one row."""
    with server(FOLDER / f"repository-{kilobytes}", mhz) as (process, addresses):
        before = cpu_seconds(process.pid)
        address = addresses[PROTOCOLS.index(protocol)]
        given = [protocol, address, "m", FOLDER / f"samples-{kilobytes}.npz", args.clients, args.seconds]
        line = [str(word) for word in (client, Path(__file__).with_name("serving_client.py"), *given)]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        cpu = cpu_seconds(process.pid) - before
    seen: dict[str, Any] = json.loads(done.stdout)
    count, times = len(seen["seconds"]), np.array(seen["seconds"]) * 1e3
    rate, refused = count / seen["wall"], sum(seen["refused"].values())
    figures = f"{rate:.0f} | {rate / RATE:.0%} | {cpu / count * 1e3:.2f} | {np.median(times):.0f} | {np.percentile(times, 99):.0f}"
    return f"| {protocol} | {kilobytes} | {figures} | {seen['wrong']} | {refused} |"


@contextmanager
def server(repository: Path, mhz: float) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`cnna serve` with one paced board, and its addresses."""
    line = [sys.executable, "-m", "cnna", "serve", str(repository), "--board", f"a=paced,mhz={mhz:.6f}"]
    line += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield process, [word.partition("://")[2] for word in process.stdout.readline().split() if "://" in word]
        process.send_signal(signal.SIGTERM)


def cpu_seconds(pid: int) -> float:
    """That the front has used; workers are other processes."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
