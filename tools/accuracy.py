"""Measures every trained model in a folder and writes docs/accuracy.md. The whole folder takes an hour on two cores.

    .venv/bin/python tools/accuracy.py --models DIR [--only NAME ...] [--variants] [--keep DIR]

With --only it replaces the rows of these models and keeps the others. With --variants it measures the second table
instead of the first. Every figure is one of `cnna eval`, whose commands it prints; --keep keeps the files that they measure.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import accuracy_variants
import numpy as np
import trained
from measured_files import DATA, evaluated, figures_of, files_of, judged_by
from trained import FLOAT, Trained

from cnna.spec.artifact import save
from cnna.spec.config import preset

OURS, JOURNAL = "model.cnna", "answers"
OUT = Path(__file__).resolve().parent.parent / "docs" / "accuracy.md"
FACES = judged_by("faces")
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
- `ultraface_slim320` is a detector, and its data have no labels: its rows count the faces that the float network finds too.

The standard error of a top-1 accuracy is 1.3 points at 1,000 samples, 2.5 at 400 and 3 at 128. Models and data are not part
of the project. The first command measures a row again. It keeps the model's files, and prints the commands below it, which
measure them; the last ones are for faces:

    .venv/bin/python tools/accuracy.py --models DIR --only MODEL --keep FILES
    cnna eval model.cnna model.onnx model_ort_qdq_minmax.onnx --data test.npz --journal answers --base model.onnx
    cnna eval model.cnna model.onnx model_ort_qdq_minmax.onnx --data test.npz --journal answers --base model_ort_qdq_minmax.onnx
    cnna eval model.cnna model.onnx --data test.npz --metric tools/near_float.py:faces --truth model.onnx

`pytest tests/test_models.py --models DIR` compares the figures with bounds. It also runs five samples of each model on the RTL.

| model | samples | float | int8 | as float | as onnxruntime |
|---|---|---|---|---|---|
"""


def measure(model: Trained, folder: Path) -> str:
    """Measures one model by `cnna eval`, on files in the folder; returns its row of the table."""
    samples = trained.samples(model, "test")
    save(trained.artifact(model, preset(CONFIG), BATCH), folder / OURS)
    for file in {FLOAT, model.file}:
        copyfile(model.folder / file, folder / file)
    np.savez(folder / DATA, x=samples.x, **({} if samples.classes is None else {"y": samples.classes}))
    files = list(dict.fromkeys((OURS, FLOAT, model.file)))
    cells = _faces(model, files, folder) if samples.classes is None else _classes(model, files, folder)
    return f"| {model.name} | {len(samples.x)} | {' | '.join(cells)} |"


def _classes(model: Trained, files: list[str], folder: Path) -> list[str]:
    """The cells of a classifier: accuracies, and the share of samples with the class of the others."""
    journal = folder / JOURNAL  # answers do not depend on the base, so that the second evaluation finds them here
    journal.unlink(missing_ok=True)
    kept = "--journal", str(journal), "--base"
    found = evaluated(files, folder, *kept, FLOAT)
    in_float, ours = (figures_of(found, name)["top1"]["value"] for name in (FLOAT, OURS))
    again = "-" if model.file == FLOAT else _share(_same(evaluated(files, folder, *kept, model.file)))
    return [_share(in_float), _share(ours), _share(_same(found)), again]


def _faces(model: Trained, files: list[str], folder: Path) -> list[str]:
    """The cells of a detector without labelled data: how many of the float network's faces are found, and of onnxruntime's."""
    total, found = _counted(evaluated(files, folder, *FACES, "--truth", FLOAT))
    again = "-"
    if model.file != FLOAT:
        theirs, ours = _counted(evaluated(files, folder, *FACES, "--truth", model.file))
        again = f"{ours / theirs:.1%} of its faces"
    return [f"{total} faces", f"{found} of them", _share(found / total), again]


def _counted(found: dict[str, Any]) -> tuple[int, int]:
    """The faces of the model that is right, and those of them that ours finds; eval gives means over pictures."""
    metrics = figures_of(found, OURS)
    faces, ours = (round(metrics[name]["value"] * metrics[name]["samples"]) for name in ("faces", "found"))
    return faces, ours


def _same(found: dict[str, Any]) -> float:
    """The share of samples with the base's class."""
    same: float = next(one["same"]["value"] for one in found["differences"] if one["model"] == OURS)
    return same


def _share(value: float) -> str:
    return f"{value:.1%}"


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


def measured(root: Path, only: list[str] | None, variants: bool, keep: Path | None) -> Iterator[tuple[tuple[str, ...], str]]:
    """Key and line of each row that was asked for."""
    if variants:
        for network in accuracy_variants.networks(root):
            if not only or network.name in only:
                with files_of(network.name, keep) as folder:
                    yield from accuracy_variants.measure(network, folder)
        return
    for model in trained.find(root):
        if not only or {model.name, model.folder.name} & set(only):
            with files_of(model.name, keep) as folder:
                yield (model.name,), measure(model, folder)


def main() -> None:
    """Measures row by row and writes after each row, so it can be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="models to measure, as MODEL or MODEL/FILE (default: all)")
    parser.add_argument("--variants", action="store_true", help="measure the table of variants")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files that cnna eval measures in DIR/MODEL")
    args = parser.parse_args()
    rows = rows_of(OUT.read_text()) if OUT.exists() else {}
    for key, line in measured(args.models, args.only, args.variants, args.keep):
        rows[key] = line
        print(line, flush=True)
        OUT.write_text(page_of(rows, args.models))


if __name__ == "__main__":
    main()
