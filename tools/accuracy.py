"""Measures every trained model in a folder and writes docs/accuracy.md. The whole folder takes an hour on two cores.

    .venv/bin/python tools/accuracy.py --models DIR [--only NAME ...] [--variants]

With --only it replaces the rows of these models and keeps the others. With --variants it measures the second table
instead of the first.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import accuracy_variants
import numpy as np
import trained
from faces import recall
from numpy.typing import NDArray
from trained import FLOAT, Trained

from cnna.compiler.frontend.onnx_import import load_model
from cnna.evaluate.evaluate import evaluate
from cnna.evaluate.result import Difference, Evaluation, difference_of
from cnna.evaluate.standard_errors import Estimate
from cnna.spec.artifact import Artifact, save
from cnna.spec.config import preset

OURS = "model.cnna"
OUT = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
CONFIG, BATCH = "zcu102", 4  # the emulator gives the same answers at every size; it is quickest at this one
HEAD = """# Accuracy

The table has the top-1 accuracy of trained networks that others published, measured by [`cnna eval`](eval.md) on all test samples.
Each network has three files: its float model, and two that onnxruntime quantised.

- *float* is the accuracy in float32 by onnxruntime. *int8* is the accuracy by the emulator, which equals the RTL to the bit.
- *As float* is the share of samples whose top-1 class is the same as the float network's.
- *As onnxruntime* is the share of samples whose top-1 class is the same as onnxruntime's for the same file, without graph
  optimisations.
- `model` is quantised by `cnna quantize` (min-max, 100 calibration samples, per-channel weights). `model_ort_qdq_*` were
  quantised by onnxruntime (`sym`: without zero points), and the compiler takes them as they are.
- `ultraface_slim320` is a detector; its rows count faces.

The standard error of a top-1 accuracy is 1.3 points at 1,000 samples, 2.5 at 400 and 3 at 128. Models and data are not part
of the project. This command measures a row again:

    .venv/bin/python tools/accuracy.py --models DIR --only MODEL

`pytest tests/test_models.py --models DIR` compares the figures with bounds. It also runs five samples of each model on the RTL.

| model | samples | float | int8 | as float | as onnxruntime |
|---|---|---|---|---|---|
"""


def measure(model: Trained) -> str:
    """Measures one model as `cnna eval` does; returns its row of the table. Faces have no classes, so they are counted here."""
    samples = trained.samples(model, "test")
    artifact = trained.artifact(model, preset(CONFIG), BATCH)
    if samples.classes is None:
        return _faces(model, artifact, samples.x)
    with TemporaryDirectory() as name:
        folder = Path(name)
        save(artifact, folder / OURS)
        np.savez(folder / "test.npz", x=samples.x, y=samples.classes)
        files = [folder / OURS, *dict.fromkeys((model.folder / FLOAT, model.path))]
        found = evaluate(files, folder / "test.npz", base=FLOAT, cache=folder)
    ours, in_float = found.model(OURS), found.model(FLOAT)
    theirs = None if model.file == FLOAT else difference_of(found.task, ours, found.model(model.file))
    cells = [_share(in_float.estimates["top1"]), _share(ours.estimates["top1"]), _share(_difference(found).same)]
    again = "-" if theirs is None else _share(theirs.same)
    return f"| {model.name} | {found.samples} | {' | '.join(cells)} | {again} |"


def _difference(found: Evaluation) -> Difference:
    """The accelerator's answers beside the float network's."""
    return next(one for one in found.differences if one.model == OURS)


def _share(one: Estimate | None) -> str:
    assert one is not None
    return f"{one.value:.1%}"


def _faces(model: Trained, artifact: Artifact, x: NDArray[np.float32]) -> str:
    """The row of a detector: how many of the float network's faces are found."""
    in_float = trained.onnxruntime_answers(load_model(model.folder / FLOAT), x)
    ours = trained.emulated(artifact, x)
    theirs = None if model.file == FLOAT else trained.onnxruntime_answers(load_model(model.path), x, optimised=False)
    found, total = recall(ours, in_float)
    again = "-" if theirs is None else f"{np.divide(*recall(ours, theirs)):.1%} of its faces"
    return f"| {model.name} | {len(x)} | {total} faces | {found} of them | {found / total:.1%} | {again} |"


def sources(root: Path) -> str:
    """A table that says where each model comes from, according to the README in its folder."""
    lines = ["", "## Sources", "", "| model | task | published in | licence |", "|---|---|---|---|"]
    for folder in sorted({model.folder for model in trained.find(root)}):
        text = (folder / "README.md").read_text()
        found = [re.search(rf"^{key}[^:]*: (.*)$", text, re.MULTILINE) for key in ("Task", "Source", "Licence")]
        lines.append("| " + " | ".join([folder.name, *(match.group(1) if match else "-" for match in found)]) + " |")
    return "\n".join(lines) + "\n"


def rows_of(page: str) -> dict[tuple[str, ...], str]:
    """The rows that a page has, by the cells that name them: the model, in the second table the variant too."""
    found: dict[tuple[str, ...], str] = {}
    for line in page.split("\n## Sources")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) > 1 and ("/model" in cells[0] or cells[1] in accuracy_variants.ROWS):
            found[(cells[0],) if "/model" in cells[0] else (cells[0], cells[1])] = line
    return found


def page_of(rows: dict[tuple[str, ...], str], root: Path) -> str:
    """Both tables, each in the order of its models, and where the models are from."""
    first = [rows[(one.name,)] for one in trained.find(root) if (one.name,) in rows]
    names = [network.name for network in accuracy_variants.networks(root)]
    second = [rows[name, variant] for name in names for variant in accuracy_variants.ROWS if (name, variant) in rows]
    return HEAD + "\n".join(first) + "\n" + accuracy_variants.HEAD + "\n".join(second) + "\n" + sources(root)


def measured(root: Path, only: list[str] | None, variants: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """Key and line of each row that was asked for."""
    if variants:
        for network in accuracy_variants.networks(root):
            if not only or network.name in only:
                yield from accuracy_variants.measure(network)
        return
    for model in trained.find(root):
        if not only or {model.name, model.folder.name} & set(only):
            yield (model.name,), measure(model)


def main() -> None:
    """Measures row by row and writes after each row, so it can be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models to measure, as MODEL or MODEL/FILE (default: all)")
    parser.add_argument("--variants", action="store_true", help="measure the table of variants")
    args = parser.parse_args()
    rows = rows_of(OUT.read_text()) if OUT.exists() else {}
    for key, line in measured(args.models, args.only, args.variants):
        rows[key] = line
        print(line, flush=True)
        OUT.write_text(page_of(rows, args.models))


if __name__ == "__main__":
    main()
