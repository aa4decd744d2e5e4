"""Prunes the digits network and trained models in a folder, and writes the table of docs/pruning.md.

    .venv/bin/python tools/pruned_networks.py [--models DIR] [--only NAME ...] [--part PART] [--keep DIR] [--rtl]

With --only it measures these rows anew and keeps the others. Every figure is one of `cnna prune`, whose command it prints; --keep
keeps the files. Every fourth labelled sample is for whoever chooses the constants of `cnna.pruning`, by rows of `--part constants`;
the page's rows are of the three others. Rows of another part are printed alone. With --rtl it also runs the whole and the pruned
network on the RTL with one sample, and writes the clocks down: that takes minutes a network. Rows of fine-tuned networks are kept
as they are where torch is missing. Of the face detector, which has no labels, the shares are those of the whole float network's
faces that are found.
"""

import argparse
import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import trained
from faces import recall
from measured_files import DATA, files_of
from trained import FLOAT, Trained

import cnna
from cnna.cli.main import main as command
from cnna.spec.artifact import save

CALIB, TRAIN, PRUNED, FIGURES = "calib.npz", "train.npz", "pruned.onnx", "prune.json"
OUT = Path(__file__).resolve().parent.parent / "docs" / "pruning.md"
BEGIN, END = "<!-- measured by tools/pruned_networks.py -->", "<!-- end of measured -->"
HEAD = (
    "| model | configuration | clocks | left | fewer | by the RTL | float | pruned | int8 | pruned | points lost"
    " | one alone right | p | agrees | seconds |",
    f"|{'---|' * 15}",
)
PARTS: Mapping[str, Callable[[int], np.ndarray]] = {
    "row": lambda count: np.arange(count) % 4 != 0,
    "constants": lambda count: np.arange(count) % 4 == 0,
    "all": lambda count: np.ones(count, bool),
}
DIGITS, FACES, TUNED = "digits", "ultraface_slim320", ", fine-tuned"


class Wanted(NamedTuple):
    """How a model is pruned. finetune: the file that it is then trained on, and for how many epochs."""

    config: str
    fewer: str
    finetune: tuple[str, int] | None = None

    def options(self, folder: Path | None = None) -> list[str]:
        """Of the command. folder: of the files."""
        tuned = [] if self.finetune is None else ["--finetune", _in(folder, self.finetune[0]), "--epochs", str(self.finetune[1])]
        return ["--config", self.config, "--fewer-clocks", self.fewer, *tuned]


def _in(folder: Path | None, name: str) -> str:
    return name if folder is None else str(folder / name)


WANTED: Mapping[str, Wanted] = {
    DIGITS: Wanted("tiny", "50%"),
    DIGITS + TUNED: Wanted("tiny", "50%", (TRAIN, 20)),
    "resnet_large_cifar10": Wanted("zcu102", "25%"),
    "resnet20_cifar10": Wanted("zcu102", "15%"),
    "resnet20_cifar10" + TUNED: Wanted("zcu102", "15%", (CALIB, 100)),
    "mobilenet_v1_025_128": Wanted("zcu102", "10%"),
    "squeezenet": Wanted("zcu102", "10%"),
    "ultraface_slim320": Wanted("zcu102", "10%"),
}


def write_files(name: str, root: Path | None, folder: Path, part: str) -> None:
    """A model with its samples for calibration, and a part of those for judging."""
    _write_all(name, root, folder)
    with np.load(folder / DATA) as data:
        found = dict(data)
    chosen = PARTS[part](len(found["x"]))
    np.savez(folder / DATA, **{key: value[chosen] for key, value in found.items()})


def _write_all(name: str, root: Path | None, folder: Path) -> None:
    if name.removesuffix(TUNED) == DIGITS:
        files = {"-o": FLOAT, "--calib": CALIB, "--test": DATA, "--train": TRAIN}
        command(["models", DIGITS, *(text for option, file in files.items() for text in (option, str(folder / file)))])
        return
    assert root is not None
    model = Trained(root / name.removesuffix(TUNED), FLOAT)
    copyfile(model.path, folder / FLOAT)
    for split, file in (("calib", CALIB), ("test", DATA)):
        found = trained.samples(model, split)
        np.savez(folder / file, x=found.x, **({} if found.classes is None or split == "calib" else {"y": found.classes}))


def pruned(name: str, folder: Path) -> dict[str, Any]:
    """What `cnna prune` writes about a model in the folder, and its processor seconds. SystemExit: it failed, and has said why."""
    printed, given = (
        [
            "prune",
            _in(at, FLOAT),
            "--calib",
            _in(at, CALIB),
            "--test",
            _in(at, DATA),
            *WANTED[name].options(at),
            "-o",
            _in(at, PRUNED),
        ]
        for at in (None, folder)
    )
    print(f"$ {shlex.join(['cnna', *printed])}", flush=True)
    began = time.process_time()
    if command([*given, "--json", str(folder / FIGURES)]) == 2:
        raise SystemExit(2)
    found: dict[str, Any] = json.loads((folder / FIGURES).read_text())
    seconds = time.process_time() - began
    return {**found, **(by_faces(folder) if name == FACES else {}), "seconds": seconds}


def by_faces(folder: Path) -> dict[str, Any]:
    """Of the faces that the whole float network finds, the share that each network finds, in place of right classes."""
    with np.load(folder / CALIB) as calib, np.load(folder / DATA) as data:
        samples, tests = calib["x"], data["x"]
    whole, narrow = (folder / file for file in (FLOAT, PRUNED))
    networks = {"float": whole.read_bytes(), "pruned_float": narrow.read_bytes()}
    for key, file in (("int8", whole), ("pruned_int8", narrow)):
        cnna.quantize(file, samples).save(folder / f"{key}.onnx")
        networks[key] = (folder / f"{key}.onnx").read_bytes()
    answers = {key: _answers(model, tests) for key, model in networks.items()}
    shares, precise = {}, {}
    for key, found in answers.items():
        (common, wanted), (right, made) = recall(found, answers["float"]), recall(answers["float"], found)
        shares[key], precise[key] = common / wanted, right / max(made, 1)
        print(f"{key}: {common} of {wanted} faces, {made - right} of {made} are others", flush=True)
    return {"top1": shares, "agreement": {"pruned_int8": precise["pruned_int8"]}}


def _answers(model: bytes, tests: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names, key = [value.name for value in session.get_outputs()], session.get_inputs()[0].name
    made = [session.run(names, {key: one[None]}) for one in tests]
    return {name: np.concatenate([np.asarray(one[place]) for one in made]) for place, name in enumerate(names)}


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
    cells += [*_paired(found), _share(found["agreement"].get("pruned_int8")), f"{found['seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _paired(found: Mapping[str, Any]) -> list[str]:
    """Points lost in int8 with their standard error, samples that one network alone has right, how likely that is by chance."""
    if not found["right_alone"]:
        return ["-", "-", "-"]
    whole, narrow = found["right_alone"]
    return [f"{found['lost']:.1f} ± {found['lost_error']:.1f}", f"{whole}, {narrow}", f"{mcnemar(whole, narrow):.2g}"]


def mcnemar(one: int, other: int) -> float:
    """How likely two networks that are equally good differ as much: the exact test, of both sides."""
    pairs = one + other
    return min(1.0, 2 * sum(math.comb(pairs, few) for few in range(min(one, other) + 1)) / 2**pairs)


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


def measured(names: Sequence[str], root: Path | None, keep: Path | None, rtl: bool, part: str) -> Iterator[tuple[str, str]]:
    """Name and row of each model."""
    for name in names:
        if WANTED[name].finetune and find_spec("torch") is None:
            print(f"{name}: the row stays as it is; torch is missing", flush=True)
            continue
        with files_of(name, keep) as folder:
            write_files(name, root, folder, part)
            found = pruned(name, folder)
            yield name, row(name, found, by_rtl(found, folder) if rtl else None)


def main() -> None:
    """Measures row by row and writes after each row, so it can be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, metavar="DIR", help="trained models (default: the digits network alone)")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=WANTED, help="models to measure (default: all)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files in DIR/MODEL")
    parser.add_argument("--rtl", action="store_true", help="count the clocks of one sample on the RTL too")
    parser.add_argument("--part", choices=PARTS, default="row", help="of the labelled samples (default: row, that of the page)")
    args = parser.parse_args()
    known = [name for name in WANTED if name.removesuffix(TUNED) == DIGITS or args.models is not None]
    names = [name for name in known if not args.only or name in args.only]
    for name, line in measured(names, args.models, args.keep, args.rtl, args.part):
        print(line, flush=True)
        if args.part == "row":
            OUT.write_text(page_of(OUT.read_text(), {**rows_of(OUT.read_text()), name: line}))


if __name__ == "__main__":
    main()
