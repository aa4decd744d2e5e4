"""The folder of `cnna compile --dump`: a file for each step, whatever the model calls itself."""

from pathlib import Path

import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.graph.dump import GraphWriter
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset

from ..written import images, written

NAMES = ("/nets/net", "../../up", "..", "a" * 400, "nul\0byte", "Netz für Bäume 木", "con:1*?", ".hidden", "\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_graphs_name_is_no_path(tmp_path: Path, name: str) -> None:
    """Files would be written outside of the folder, or a model could not be compiled because of its name."""
    model = written("g (float[N,3,6,6] x) => (float[N,4,4,4] y) { a = Conv (x, w) y = Relu (a) }", {"w": (4, 3, 3, 3)})
    model.graph.name, model.graph.node[0].name = name, name
    quantised, _ = quantise(load_model(model.SerializeToString()), images(model))
    quantised.graph.name = name
    folder = tmp_path / "deep" / "dump"
    compile_model(load_model(quantised.SerializeToString()), preset("tiny"), dump=folder)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != folder] == []
    files = sorted(path.name for path in folder.iterdir())
    assert any("_piece" in file for file in files)
    assert [int(file.split("_")[0]) for file in files] == list(range(len(files)))
    assert all(len(file) < 80 and file.isascii() and file.isprintable() for file in files)


def test_titles_that_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    """The second would take the first one's place, on file systems that take capitals for small letters too."""
    writer = GraphWriter(tmp_path)
    for title in ("Net", "net", "n/et", "n:et"):
        writer.text(title, title)
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["Net", "net", "n/et", "n:et"]
