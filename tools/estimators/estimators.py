"""Public estimators beside ours and beside the RTL, on the same networks: `make estimators` writes docs/benchmarks.md and .json.

    PYTHONPATH=tools:tools/bench .venv/bin/python tools/estimators/estimators.py [--page]

Arm's Vela compiles the int8 network as a TFLite file; SCALE-Sim gets its convolutions. Ours is predicted anew, and the RTL's
clocks are those that docs/performance.json keeps. build/estimators keeps SCALE-Sim's layers, so the command can be interrupted.
--page writes the table from the figures that docs/estimators.json has.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import cnna
from bench_networks import network
from scalesim_clocks import DATAFLOWS, Array, Layer, clocks, layers_of
from vela_clocks import vela

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import read
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir
from cnna.spec.config import Config, preset
from cnna.spec.files import write_text

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE, KEPT, MEASURED = ROOT / "docs/benchmarks.md", ROOT / "docs/estimators.json", ROOT / "docs/performance.json"
BUILD = ROOT / "build" / "estimators"
NETWORKS = ("resnet50", "mobilenet_v2")
OURS = preset("zcu102")
HALF = replace(OURS, name="zcu102-pix4-bank_words4096", pix=4, bank_words=4096)  # as many multipliers as Vela's largest
VELA = ("ethos-u85-2048", "ethos-u65-512")
ARRAYS = (Array(64, 64, "os"), Array(64, 64, "ws"))  # as many multipliers as OURS
ROWS = {OURS.name: "b1", HALF.name: "b1/pix4"}  # of docs/performance.json
BEGIN, END = "<!-- estimators: written by `make estimators` -->\n", "<!-- end of estimators -->\n"
Rows = list[dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all estimators and writes figures and page. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the table alone, from docs/estimators.json")
    if not parser.parse_args(argv).page:
        BUILD.mkdir(parents=True, exist_ok=True)
        versions = {name: version(name) for name in ("cnna", "ethos-u-vela", "scalesim")}
        found = {"versions": versions, "networks": {name: estimated(name) for name in NETWORKS}}
        write_text(KEPT, json.dumps(found, indent=1) + "\n")
    write_text(PAGE, with_table(PAGE.read_text(), json.loads(KEPT.read_text())))
    return 0


def estimated(name: str) -> Rows:
    """The rows of one network: who, on how many multipliers, and the clocks of one image."""
    file = network(name, ROOT / "build" / "networks", cnna) / "q.onnx"
    (graph,) = import_quantised(read(file)).programs
    rows = [_ours(name, file, config) for config in (OURS, HALF)]
    with TemporaryDirectory(dir=BUILD) as folder:
        rows += _velas(name, graph, Path(folder))
    return rows + _scalesims(name, layers_of(graph))


def _ours(name: str, file: Path, config: Config) -> dict[str, Any]:
    """Ours, predicted now, with the RTL's clocks where they are kept."""
    _say(f"{name}: cnna at {config.name}")
    artifact = compile_model(read(file), config)
    kept = json.loads(MEASURED.read_text()).get(f"{name}/{ROWS[config.name]}", {})
    measured = kept.get("measured") or {}
    own = {"who": "cnna", "on": config.name, "macs_a_clock": config.pix * config.ci * config.co}
    return {**own, "predicted": artifact.predicted_clocks(), "rtl": measured.get("cycles"), "rtl_date": measured.get("date")}


def _velas(name: str, graph: ir.Graph, folder: Path) -> Rows:
    from tflite_file import tflite_of

    file = folder / f"{name}.tflite"
    file.write_bytes(tflite_of(graph))
    rows = []
    for accelerator in VELA:
        _say(f"{name}: Vela at {accelerator}")
        found = vela(file, accelerator, OURS, folder)
        own = {"who": "Vela", "on": accelerator, "macs_a_clock": int(accelerator.rpartition("-")[2])}
        rows.append({**own, "predicted": found.total, "figures": found._asdict()})
    return rows


def _scalesims(name: str, layers: Sequence[Layer]) -> Rows:
    """One row an array; depthwise layers apart."""
    rows = []
    for array in ARRAYS:
        apart = {False: 0, True: 0}
        for number, layer in enumerate(layers, 1):
            _say(f"{name}: SCALE-Sim at {array.rows}x{array.columns}, {array.dataflow}, layer {number} of {len(layers)}")
            apart[layer.depthwise] += layer.times * (_kept(layer, array) + 1)  # it counts from 0
        on = f"{array.rows}x{array.columns}, {DATAFLOWS[array.dataflow]}"
        own = {"who": "SCALE-Sim", "on": on, "macs_a_clock": array.rows * array.columns}
        rows.append({**own, "predicted": sum(apart.values()), "depthwise": apart[True]})
    return rows


def _kept(layer: Layer, array: Array) -> int:
    """A layer's clocks, from the file of those that were simulated, if it has them."""
    path = BUILD / f"scalesim-{version('scalesim')}.json"
    found: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    key = "x".join(map(str, (*layer.shape, *array)))
    if key not in found:
        with TemporaryDirectory(dir=BUILD) as folder:
            found[key] = clocks(layer.shape, array, Path(folder))
        write_text(path, json.dumps(found, indent=1))
    return found[key]


def with_table(page: str, found: dict[str, Any]) -> str:
    """The page with the table of the figures between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table(found)}{END}{after}"


def table(found: dict[str, Any]) -> str:
    """The figures in Markdown, a table for each network."""
    versions = found["versions"]
    parts = [f"Vela {versions['ethos-u-vela']}, SCALE-Sim {versions['scalesim']}, one image, thousands of clocks:\n"]
    for name, rows in found["networks"].items():
        parts.append(f"\n| {name}: who, on what | multipliers | predicted | RTL |\n|---|---|---|---|\n")
        parts += [_line(row) for row in rows]
    return "".join(parts)


def _line(row: dict[str, Any]) -> str:
    rtl = f"{row['rtl'] / 1e3:,.1f}" if row.get("rtl") else "-"
    without = f" ({(row['predicted'] - row['depthwise']) / 1e3:,.1f} without depthwise)" if row.get("depthwise") else ""
    return f"| {row['who']}, {row['on']} | {row['macs_a_clock']:,} | {row['predicted'] / 1e3:,.1f}{without} | {rtl} |\n"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
