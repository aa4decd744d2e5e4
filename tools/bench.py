"""Measures networks on the simulated RTL and writes docs/performance.md, row by row; docs/performance.json keeps what was measured.

    .venv/bin/python tools/bench.py [--rows PATTERN ...] [--predict] [--config C]

A row is NETWORK/bBATCH, as resnet50/b1; patterns are the shell's. Rows of the same program that are measured already are kept,
unless patterns name them. With --predict nothing is simulated: rows get the cost model's prediction alone.
"""

import argparse
import datetime
import fnmatch
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cnna.host.artifact import load

DOCS = Path(__file__).resolve().parent.parent / "docs"
FLOORS = {  # of batch 1 and batch 4: frames a second, share of the array (None: none stated)
    "resnet50": ((241, 0.80), (278, 0.92)),
    "vgg19": ((38, 0.61), (51, 0.81)),
    "squeezenet": ((2300, 0.65), (2500, 0.71)),
    "densenet121": ((350, 0.81), (370, 0.85)),
    "inception_v1": ((640, 0.75), (730, 0.85)),
    "inception_v2": ((470, 0.77), (530, 0.87)),
    "mobilenet_v1": ((1100, None), (1250, None)),
    "mobilenet_v2": ((1050, None), (1180, None)),
}
NETWORKS = (*FLOORS, "resnet18", "resnet34", "resnet101", "alexnet")
DPU = {"resnet50": 190.30, "vgg19": 38.87, "squeezenet": 1550.79, "inception_v1": 503.71, "inception_v2": 247.54}
DPU |= {"mobilenet_v1": 1038.05, "mobilenet_v2": 764.41}
HEAD = """# Performance

Frames a second at 300 MHz, whole networks, image in and answer out, by the RTL's own cycle counters; DDR of 48 bytes a clock shared
by all ports, 120 clocks of latency. *Predicted* rows are the cost model's: the RTL has not run them yet. A row is measured again by

    make bench ROWS=resnet50/b1

and is, for each network, `cnna models`, `quantize`, `compile --config zcu102 --batch N` and `run --device rtl --check`.
"DSP" is the share of what 2,520 DSP48E2 could multiply (two products a clock), "DDR" that of 48 bytes a clock. The DPU's
figures are of the ZCU102 (three B4096 cores at 281 MHz, many threads), from Xilinx/Vitis-AI, tag v3.0,
`docsrc/source/docs/reference/ModelZoo_VAI3.0_Github_web.htm`.

| row | fps | floor | array | floor | cycles | predicted | DSP | DDR | DPU fps | what |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def cnna(*arguments: object) -> None:
    """One command. CalledProcessError: it failed; it has said why."""
    subprocess.run([sys.executable, "-m", "cnna.host.cli", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def prepare(network: str, folder: Path) -> None:
    """The quantised network and pictures to run, in `folder`."""
    paths = [folder / name for name in ("m.onnx", "calib.npz", "test.npz", "q.onnx")]
    cnna("models", network, "-o", paths[0], "--calib", paths[1], "--test", paths[2])
    cnna("quantize", paths[0], "--calib", paths[1], "-o", paths[3])


def row(key: str, config: str, folder: Path, before: Mapping[str, Any] | None, predict: bool, again: bool) -> dict[str, Any]:
    """Figures of one row; `before`: what is known, whose measurement is kept where the program is the same."""
    batch, files = int(key.rpartition("/b")[2]), {name: folder / name for name in ("a.cnna", "p.json", "r.json")}
    cnna("compile", folder / "q.onnx", "--config", config, "--batch", batch, "-o", files["a.cnna"])
    cnna("report", files["a.cnna"], "--json", files["p.json"])
    artifact = load(files["a.cnna"])
    digest = hashlib.sha256(artifact.program + artifact.constants).hexdigest()
    found: dict[str, Any] = {
        "config": config,
        "digest": digest,
        "predicted": json.loads(files["p.json"].read_text())["predicted"],
        "macs_a_batch": artifact.manifest["macs"] * batch,
        "program_bytes": len(artifact.program),
        "segments": artifact.manifest["segments"],
        "measured": before["measured"] if before and before["digest"] == digest else None,
    }
    if not predict and (again or not found["measured"]):
        run = ("run", files["a.cnna"], "--input", folder / "test.npz", "--limit", batch, "--device", "rtl", "--check")
        cnna(*run, "--json", files["r.json"])
        measured = json.loads(files["r.json"].read_text())
        found["measured"] = {name: value for name, value in measured.items() if name != "layers"}
        found["measured"]["date"] = datetime.date.today().isoformat()
    return found


def line(key: str, found: Mapping[str, Any]) -> str:
    """A row of the table."""
    network, _, batch = key.rpartition("/b")
    measured, predicted = found["measured"], found["predicted"]
    best = measured or predicted
    fps, array = FLOORS.get(network, ((None, None),) * 2)[batch != "1"]
    moved = (measured["ddr_read_bytes"] + measured["ddr_write_bytes"]) / (48 * best["cycles"]) if measured else None
    cells = [
        key,
        f"{best['fps_at_300mhz']:,.0f}",
        f"{fps:,}" if fps else "-",
        f"{best['mac_utilization']:.3f}",
        f"{array:.2f}" if array else "-",
        f"{best['cycles']:,.0f}",
        f"{predicted['cycles']:,.0f}",
        f"{found['macs_a_batch'] / (2 * 2520 * best['cycles']):.2f}",
        f"{moved:.2f}" if moved is not None else "-",
        f"{DPU[network]:,.0f}" if network in DPU else "-",
        f"RTL == reference, {measured['date']}" if measured else "*predicted*",
    ]
    return "| " + " | ".join(cells) + " |"


def chosen(patterns: list[str], networks: tuple[str, ...]) -> Iterator[str]:
    """Row keys that a pattern names; all where there are none."""
    for key in (f"{network}/b{batch}" for network in networks for batch in (1, 4)):
        if not patterns or any(fnmatch.fnmatch(key, pattern) for pattern in patterns):
            yield key


def main() -> None:
    """Rows in turn, written after each: it can be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], metavar="PATTERN")
    parser.add_argument("--predict", action="store_true", help="no RTL")
    parser.add_argument("--config", default="zcu102")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="where the two files are written")
    args = parser.parse_args()
    args.docs.mkdir(parents=True, exist_ok=True)
    kept = args.docs / "performance.json"
    rows: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    ready = None
    with tempfile.TemporaryDirectory() as name:
        for key in chosen(args.rows, (*NETWORKS, "digits") if args.rows else NETWORKS):
            network = key.partition("/")[0]
            if network != ready:
                prepare(network, Path(name))
                ready = network
            rows[key] = row(key, args.config, Path(name), rows.get(key), args.predict, bool(args.rows))
            print(line(key, rows[key]), flush=True)
            kept.write_text(json.dumps(rows, indent=1) + "\n")
            ordered = [one for one in chosen([], (*NETWORKS, "digits")) if one in rows]
            (args.docs / "performance.md").write_text(HEAD + "\n".join(line(one, rows[one]) for one in ordered) + "\n")


if __name__ == "__main__":
    main()
