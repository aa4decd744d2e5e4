"""A pipeline, whole: a detector and a classifier on simulated accelerators, and a Python function between them.

    .venv/bin/python examples/pipeline_demo.py

It makes a detector of cards by hand, publishes it and the digits network, and asks the pipeline of examples/pipeline for the digits
in pictures that it draws.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cnna.cli.main import main as cnna
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.serve import Engine

HERE = Path(__file__).resolve().parent / "pipeline"
SIDE, CARD, CELL = 48, 16, 4  # pixels of a picture, of a card, of a cell of the detector
PLACES = [(y, x) for y in (0, 28) for x in (0, 28)]  # whole cells, and cards do not touch


def detector() -> onnx.ModelProto:
    """corners [N, 1, 12, 12]: positive where a card begins. Background is -1; cards have values from 0 to 1.

    The first layer is 1 to 2 in cells of cards and 0 elsewhere; the second takes away twice the cell above and that on the left.
    """
    mean = np.full((1, 1, CELL, CELL), 1 / CELL**2, np.float32)
    corner = np.zeros((1, 1, 3, 3), np.float32)
    corner[0, 0, 1, 1], corner[0, 0, 0, 1], corner[0, 0, 1, 0] = 1, -2, -2
    weights = {"mean": mean, "one": np.ones(1, np.float32), "corner": corner, "zero": np.zeros(1, np.float32)}
    nodes = [
        helper.make_node("Conv", ["picture", "mean", "one"], ["lighter"], "cells", kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
        helper.make_node("Relu", ["lighter"], ["inside"], "inside"),
        helper.make_node("Conv", ["inside", "corner", "zero"], ["beginning"], "corner", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["beginning"], ["corners"], "corners"),
    ]
    cells = SIDE // CELL
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1, size, size])
        for name, size in (("picture", SIDE), ("corners", cells))
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "cards", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def drawn(count: int, seed: int = 1) -> tuple[NDArray[np.float32], list[tuple[int, int, int, int]]]:
    """Pictures [count, 1, 48, 48] with up to four cards, and (picture, row, column, test image) of each card."""
    rng, images = np.random.default_rng(seed), data.load().test.images
    pictures, cards = np.full((count, 1, SIDE, SIDE), -1, np.float32), []
    for number in range(count):
        for place in sorted(rng.choice(len(PLACES), rng.integers(0, len(PLACES) + 1), replace=False).tolist()):
            (y, x), image = PLACES[place], int(rng.integers(len(images)))
            pictures[number, :, y : y + CARD, x : x + CARD] = images[image]
            cards.append((number, y, x, image))
    return pictures, cards


def repository(root: Path) -> Path:
    """R/cards, R/digits and R/reader, the pipeline."""
    work = root / "work"
    work.mkdir(parents=True)
    for name, model, samples in (
        ("cards", detector(), {"picture": drawn(32, seed=2)[0]}),
        ("digits", onnx.load(data.NETWORK), {"image": data.load().calibration.images}),
    ):
        quantised, _ = quantise(model, samples)
        onnx.save(quantised, work / f"{name}.onnx")
        line = ["publish", str(work / f"{name}.onnx"), "--repo", str(root / "models"), "--model", name, "--config", "tiny"]
        if cnna([*line, "--batches", "1,4"]):
            raise RuntimeError(f"{name} was not published")
    shutil.copytree(HERE, root / "models" / "reader", ignore=shutil.ignore_patterns("__pycache__"))
    return root / "models"


def main() -> int:
    """Prints what was found, and how many digits were read rightly. 1: a card was missed, or one is none."""
    pictures, cards = drawn(6)
    labels, boards = data.load().test.classes, ["left=emulator", "right=emulator"]
    with tempfile.TemporaryDirectory() as folder, Engine(repository(Path(folder)), boards) as engine:
        given = engine.infer("reader", {"picture": pictures}).outputs
    read, right = given["logits"].argmax(1), 0
    found = [(number, *place) for number, place in zip(given["number"].tolist(), given["place"].tolist(), strict=True)]
    for (number, y, x), digit in zip(found, read.tolist(), strict=True):
        wanted = next((int(labels[image]) for *place, image in cards if place == [number, y, x]), None)
        right += digit == wanted
        print(f"picture {number}, row {y:2}, column {x:2}: {digit}{'' if digit == wanted else f', but it is {wanted}'}")
    print(f"{len(found)} of {len(cards)} cards found, {right} digits read rightly")
    return 0 if found == [tuple(place) for *place, _ in cards] else 1


if __name__ == "__main__":
    sys.exit(main())
