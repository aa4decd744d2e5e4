"""The notebooks, each run whole by nbclient against a virtual board, as a user would in Jupyter."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..sim.board import stock
from ..sim.board.served import serving

NAMES = ("1_classify", "2_inside_a_layer", "3_your_own_model")
PLAY = """
import os, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), *output.get("data", {}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lies beside the notebooks."""
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
    [("ps", name) for name in NAMES]
    + [pytest.param("pl", name, marks=pytest.mark.slow if name != NAMES[0] else ()) for name in NAMES],
    indirect=["served"],
)
def test_it_runs_from_the_first_cell_to_the_last(name: str, served: str, folder: Path, root: Path) -> None:
    """A cell that fails is what a user remembers; on either variant, with nothing changed."""
    notebook = root / "host" / "notebooks" / f"{name}.ipynb"
    said = stock.execute(served, [sys.executable, "-W", "ignore", "-c", PLAY, str(notebook), str(folder)])
    wanted = {
        "1_classify": ("of 10", "images/s by the clock on the wall", "image/png", "no power sensors here"),
        "2_inside_a_layer": ("(16, 8, 8)", "image/png", "clocks; counted None"),
        "3_your_own_model": ("same class: 8 of 8", "clocks predicted"),
    }
    for part in wanted[name]:
        assert part in said, said


def test_pynq_delivers_them(tmp_path: Path) -> None:
    """`pynq get-notebooks cnna`, by the entry point of this package."""
    line = [sys.executable, "-W", "ignore", "-c", "from pynq._cli.get_notebooks import main; main()"]
    environment = {**os.environ, "PYNQ_REMOTE_DEVICES": ""}
    options = ["cnna", "--ignore-overlays", "--quiet", "--path", str(tmp_path / "nb")]
    subprocess.run([*line, *options], env=environment, check=True, timeout=stock.PATIENCE_SECONDS, capture_output=True)
    assert {path.stem for path in (tmp_path / "nb").rglob("*.ipynb")} == set(NAMES)
