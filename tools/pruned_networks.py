"""Prunes the digits network and trained models in a folder, and writes the table of docs/pruning.md.

    .venv/bin/python tools/pruned_networks.py [--models DIR] [--only NAME ...] [--keep DIR] [--rtl]

With --only it measures these rows anew and keeps the others. Every figure is one of `cnna prune`, whose command it prints; --keep
keeps the files. With --rtl it also runs the whole and the pruned network on the RTL with one sample, and writes the clocks down:
that takes minutes a network.
"""

import argparse
import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import numpy as np
import trained
from measured_files import DATA, files_of
from trained import FLOAT, Trained

import cnna
from cnna.cli.main import main as command
from cnna.spec.artifact import save

CALIB, PRUNED, FIGURES, RTL = "calib.npz", "pruned.onnx", "prune.json", "rtl.json"
OUT = Path(__file__).resolve().parent.parent / "docs" / "pruning.md"
BEGIN, END = "<!-- measured by tools/pruned_networks.py -->", "<!-- end of measured -->"
HEAD = (
    "| model | configuration | clocks | left | fewer | by the RTL | float | pruned | int8 | pruned | agrees | seconds |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)
DIGITS = "digits"


class Wanted(NamedTuple):
    """How a model is pruned."""

    config: str
    fewer: str


WANTED: Mapping[str, Wanted] = {
    DIGITS: Wanted("tiny", "25%"),
    "resnet_large_cifar10": Wanted("zcu102", "25%"),
    "resnet20_cifar10": Wanted("zcu102", "15%"),
    "mobilenet_v1_025_128": Wanted("zcu102", "10%"),
    "squeezenet": Wanted("zcu102", "10%"),
    "ultraface_slim320": Wanted("zcu102", "10%"),
}


def write_files(name: str, root: Path | None, folder: Path) -> None:
    """A model with its samples for calibration and judging."""
    if name == DIGITS:
        command(["models", DIGITS, "-o", str(folder / FLOAT), "--calib", str(folder / CALIB), "--test", str(folder / DATA)])
        return
    assert root is not None
    model = Trained(root / name, FLOAT)
    copyfile(model.path, folder / FLOAT)
    for split, file in (("calib", CALIB), ("test", DATA)):
        found = trained.samples(model, split)
        np.savez(folder / file, x=found.x, **({} if found.classes is None or split == "calib" else {"y": found.classes}))


def pruned(name: str, folder: Path) -> dict[str, Any]:
    """What `cnna prune` writes about a model in the folder, and its processor seconds. SystemExit: it failed, and has said why."""
    wanted = WANTED[name]
    options = ["--config", wanted.config, "--fewer-clocks", wanted.fewer]
    print(f"$ {shlex.join(['cnna', 'prune', FLOAT, '--calib', CALIB, '--test', DATA, *options, '-o', PRUNED])}", flush=True)
    files = [str(folder / FLOAT), "--calib", str(folder / CALIB), "--test", str(folder / DATA), "-o", str(folder / PRUNED)]
    began = time.process_time()
    if command(["prune", *files, *options, "--json", str(folder / FIGURES)]) == 2:
        raise SystemExit(2)
    found: dict[str, Any] = json.loads((folder / FIGURES).read_text())
    return {**found, "seconds": time.process_time() - began}


def by_rtl(found: Mapping[str, Any], folder: Path) -> tuple[int, int]:
    """Clocks of the whole and of the pruned network for one sample."""
    with np.load(folder / CALIB) as calib, np.load(folder / DATA) as data:
        samples, one = calib["x"], data["x"][:1]
    clocks = []
    for file in (FLOAT, PRUNED):
        compiled = cnna.compile(cnna.quantize(folder / file, samples), found["config"])
        save(compiled.artifact, folder / f"{file}.cnna")
        clocks.append(round(cnna.run(compiled, one, device="rtl").cycles or 0))
    return clocks[0], clocks[1]


def row(name: str, found: Mapping[str, Any], rtl: tuple[int, int] | None) -> str:
    """The row of a model. found: figures of the command."""
    shares = [_share(found["top1"].get(key)) for key in ("float", "pruned_float", "int8", "pruned_int8")]
    measured = "-" if rtl is None else f"{rtl[0]:,} to {rtl[1]:,}, {1 - rtl[1] / rtl[0]:.1%}"
    cells = [name, found["config"], f"{found['clocks']:,}", f"{found['clocks_left']:,}", f"{found['saved']:.1%}", measured, *shares]
    cells += [_share(found["agreement"].get("pruned_int8")), f"{found['seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def rows_of(page: str) -> dict[str, str]:
    """The rows that a page has, by model."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in inside.splitlines() if line.startswith("| ") and line not in HEAD]
    return {line.split("|")[1].strip(): line for line in lines}


def page_of(page: str, rows: Mapping[str, str]) -> str:
    """The page with these rows, in the order of WANTED."""
    before, _, rest = page.partition(BEGIN)
    table = [*HEAD, *(rows[name] for name in WANTED if name in rows)]
    return "\n".join([f"{before}{BEGIN}", *table, f"{END}{rest.partition(END)[2]}"])


def measured(names: Sequence[str], root: Path | None, keep: Path | None, rtl: bool) -> Iterator[tuple[str, str]]:
    """Name and row of each model."""
    for name in names:
        with files_of(name, keep) as folder:
            write_files(name, root, folder)
            found = pruned(name, folder)
            yield name, row(name, found, by_rtl(found, folder) if rtl else None)


def main() -> None:
    """Measures row by row and writes after each row, so it can be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, metavar="DIR", help="trained models (default: the digits network alone)")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=WANTED, help="models to measure (default: all)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files in DIR/MODEL")
    parser.add_argument("--rtl", action="store_true", help="count the clocks of one sample on the RTL too")
    args = parser.parse_args()
    known = [name for name in WANTED if name == DIGITS or args.models is not None]
    for name, line in measured([name for name in known if not args.only or name in args.only], args.models, args.keep, args.rtl):
        print(line, flush=True)
        OUT.write_text(page_of(OUT.read_text(), {**rows_of(OUT.read_text()), name: line}))


if __name__ == "__main__":
    main()
