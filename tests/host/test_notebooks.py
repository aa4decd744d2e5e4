"""Each notebook is run completely by nbclient against a virtual board, as a user would run it in Jupyter."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import nbformat
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.quantise.quantise import quantise
from cnna.evaluate.speed.published import DPU
from cnna.host.model.model import Model
from cnna.host.samples import pictures
from cnna.spec.artifact import load, save
from cnna.spec.config import preset
from cnna.spec.manifest import Manifest

from ..sim.board import stock
from ..sim.board.served import serving
from .hand_made import requantised_copy

SHAPE, CLASSES = (3, 48, 48), 20
ON_A_BOARD = ("1_classify", "2_inside_a_layer", "3_your_own_model", "4_detector", "5_camera")
NAMES = (*ON_A_BOARD, "6_tune_a_design", "7_compare_with_a_peer")
OPTIONAL = ("import cv2",)  # of extras that these tests need not have
PLAY = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
next(cell for cell in notebook.cells if cell.cell_type == "code").source += sys.argv[3]
NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), *output.get("data", {}))
"""


def test_what_they_import_is_there(root: Path) -> None:
    """If a module moves, a notebook that uses its old name would fail in its first cell."""
    for name in NAMES:
        cells = nbformat.read(root / "host" / "notebooks" / f"{name}.ipynb", as_version=4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert any("cnna" in ast.unparse(node) for node in imports)
        for node in imports:
            if ast.unparse(node) not in OPTIONAL:
                exec(ast.unparse(node), {})


def test_they_import_the_public_interface_alone(root: Path) -> None:
    """A user copies these cells. What they import from rooms inside may move or change without a word."""
    public = {"cnna", *(f"cnna.{path.stem}" for path in (root / "api").glob("[a-z]*.py"))}
    for name in NAMES:
        cells = nbformat.read(root / "host" / "notebooks" / f"{name}.ipynb", as_version=4).cells
        tree = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
        named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        named += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert {each for each in named if each.partition(".")[0] == "cnna"} <= public, name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what lies beside the notebooks."""
    made = tmp_path_factory.mktemp("notebooks")
    stock.digits(made)
    return made


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, address: str, folder: Path) -> Iterator[str]:
    """The address of an emulated board, whose image lies beside the notebooks."""
    stock.images(folder, variant=request.param)
    with serving(address, request.param):
        yield address


@pytest.mark.parametrize(
    ("served", "name"),
    [("ps", name) for name in ON_A_BOARD]
    + [pytest.param("pl", name, marks=pytest.mark.slow if name != NAMES[0] else ()) for name in ON_A_BOARD],
    indirect=["served"],
)
def test_it_runs_from_the_first_cell_to_the_last(name: str, served: str, folder: Path, root: Path) -> None:
    """A cell would fail, on either variant, in an unchanged notebook."""
    said = play(root, name, served, folder)
    wanted = {
        "1_classify": ("of 10", "every answer the same", "image/png", "no power sensors here", "this board counts no clocks"),
        "2_inside_a_layer": ("(16, 8, 8)", "image/png", "predicted: stem", "counted:   nothing"),
        "3_your_own_model": ("same class: 8 of 8", "clocks predicted", "image/png"),
        "4_detector": ("on the CPU: ", "clocks predicted", "their overlap (IoU): 0.9", "image/png"),
        "5_camera": ("detector YOLOX: 144 boxes", "8 frames, ", " frames a second from picture to answer", "image/png"),
    }
    for part in wanted[name]:
        assert part in said, said


def test_a_design_is_tuned(folder: Path, root: Path) -> None:
    """The smallest design that reaches the target must be compiled, with choices that make it no slower."""
    said = play(root, "6_tune_a_design", "", folder, "\nDSP, TRIES = 64, 3")
    assert "least DSP48E2" in said
    assert "reach 20,000 images a second from picture to answer" in said
    assert "image/png" in said
    assert "counted:   nothing" in said
    found = re.search(r"kv260\S*, batch (\d): ([\d,]+) clocks predicted, ([\d,]+) with these choices", said)
    assert found, said
    usual, tuned = (int(clocks.replace(",", "")) for clocks in found.groups()[1:])
    assert tuned <= usual
    assert load(folder / "tuned.cnna").predicted_clocks() == tuned


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ('\nPUBLISHED, CONFIG = {"digits": 1000.0}, "tiny"\nNETWORKS = tuple(PUBLISHED)', ["digits"]),
        pytest.param("", ["squeezenet"], marks=pytest.mark.slow),
    ],
)
def test_a_peer_is_compared(changes: str, rows: list[str], root: Path, tmp_path: Path) -> None:
    """What is published, modelled and counted must have a column each, and a row for each network and batch."""
    said = play(root, "7_compare_with_a_peer", "", tmp_path, changes)
    head = next(line for line in said.splitlines() if line.startswith("network"))
    assert re.split(r"  +", head) == [
        "network",
        "batch",
        "published",
        "modelled, slow to quick",
        "modelled / published",
        "counted clocks",
    ]
    for name in rows:
        for batch in (1, 4):
            row = next(line for line in said.splitlines() if re.match(rf"{name} +{batch} ", line))
            slow, quick = re.findall(r"([\d.]+) to ([\d.]+)", row)[-1]
            assert float(slow) <= float(quick)
            assert row.endswith(" none")
    assert "image/png" in said


def test_a_peer_is_given_what_is_published(root: Path) -> None:
    """The notebook's figures of the DPU would differ from those of `cnna bench`."""
    cells = nbformat.read(root / "host" / "notebooks" / "7_compare_with_a_peer.ipynb", as_version=4).cells
    code = next(cell.source for cell in cells if cell.cell_type == "code")
    published = next(
        node for node in ast.parse(code).body if isinstance(node, ast.Assign) and "PUBLISHED" in ast.unparse(node.targets[0])
    )
    assert ast.literal_eval(published.value).items() <= DPU.items()


@pytest.mark.parametrize("served", ["ps"], indirect=True)
@pytest.mark.parametrize("stored", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_photographs_are_classified(stored: bool, served: str, folder: Path, root: Path, tmp_path: Path) -> None:
    """A network like ImageNet's, with pictures of any size, must give the same five classes as without notebook and board."""
    rng = np.random.default_rng(3)
    for name, (height, width) in {"cat.jpg": (60, 90), "dog.png": (100, 64), "moon.PNG": (48, 48)}.items():
        smooth = np.kron(rng.integers(0, 256, (4, 4, 3)), np.ones((height // 4, width // 4, 1))).astype(np.uint8)
        Image.fromarray(smooth).save(tmp_path / name)
    labels = [f"class of {number}" for number in range(CLASSES)]
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    calibration = rng.integers(0, 256, (8, *SHAPE), np.uint8)
    preprocess = Preprocess(1 / 255, pictures.MEAN, pictures.STD) if stored else None
    unprepared: Manifest = {**requantised_copy().manifest, "preprocess": None}
    floats = calibration if stored else pictures.taken(calibration.transpose(0, 2, 3, 1), unprepared)
    save(compile_model(quantise(photographed(), {"x": floats}, preprocess=preprocess)[0], preset("tiny")), tmp_path / "m.cnna")
    changes = f"""
MODEL, IMAGES, LABELS = "{tmp_path}/m.cnna", "{tmp_path}", "{tmp_path}/labels.txt"
"""
    said = play(root, "1_classify", served, folder, changes)
    with Model(tmp_path / "m.cnna", "emulator") as model:
        answers = model.run(pictures.taken(pictures.read(pictures.find(tmp_path), SHAPE), model.manifest))
    assert "3 images, " + ("uint8 [48, 48, 3]" if stored else "float32 [3, 48, 48]") in said
    for name, answer in zip(("cat", "dog", "moon"), answers, strict=True):
        best = np.argsort(-answer, kind="stable")[:5]
        assert f"{name:16} " + ", ".join(f"{labels[c]} {answer[c]:.1%}" for c in best) in said, said
    assert "image/png" in said


@pytest.mark.cosim
@pytest.mark.parametrize("served", ["ps"], indirect=True)
def test_layers_are_measured_in_a_simulation(served: str, folder: Path, root: Path) -> None:
    """The measured figures must stand beside the predicted ones if the user asks for them."""
    said = play(root, "2_inside_a_layer", served, folder, "\nSIMULATE = True")
    predicted, simulated = (
        next(line for line in said.splitlines() if line.startswith(kind)) for kind in ("predicted: s", "simulated: s")
    )
    assert len(predicted.split(")")) == len(simulated.split(")")) == 10, "nine layers"
    assert predicted != simulated.replace("simulated", "predicted")


def play(root: Path, name: str, address: str, folder: Path, changes: str = "") -> str:
    """What a notebook prints, run in a folder with `changes` to its settings; and the kinds of its other outputs."""
    notebook = root / "host" / "notebooks" / f"{name}.ipynb"
    return stock.execute(address, [sys.executable, "-W", "ignore", "-c", PLAY, str(notebook), str(folder), changes])


def photographed() -> onnx.ModelProto:
    """From [N, 3, 48, 48] to the shares of `CLASSES` classes: two convolutions, the mean, a fully connected layer, softmax."""
    rng = np.random.default_rng(2)
    weights = {"a": (8, 3, 3, 3), "b": (16, 8, 3, 3), "c": (CLASSES, 16)}
    arrays = [numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name) for name, shape in weights.items()]
    arrays.append(numpy_helper.from_array(rng.normal(0, 1, CLASSES).astype(np.float32), "d"))
    half = partial(helper.make_node, "Conv", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    nodes = [
        half(["x", "a"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        half(["q", "b"], ["r"]),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["t"]),
        helper.make_node("Flatten", ["t"], ["u"]),
        helper.make_node("Gemm", ["u", "c", "d"], ["v"], transB=1),
        helper.make_node("Softmax", ["v"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", *s]) for n, s in (("x", SHAPE), ("y", (CLASSES,)))]
    graph = helper.make_graph(nodes, "photographed", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_pynq_delivers_them(tmp_path: Path) -> None:
    """`pynq get-notebooks cnna` must find them by this package's entry point."""
    line = [sys.executable, "-W", "ignore", "-c", "from pynq._cli.get_notebooks import main; main()"]
    environment = {**os.environ, "PYNQ_REMOTE_DEVICES": ""}
    options = ["cnna", "--ignore-overlays", "--quiet", "--path", str(tmp_path / "nb")]
    subprocess.run([*line, *options], env=environment, check=True, timeout=stock.PATIENCE_SECONDS, capture_output=True)
    assert {path.stem for path in (tmp_path / "nb").rglob("*.ipynb")} == set(NAMES)
