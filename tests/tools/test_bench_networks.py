"""The digest that names the cached networks changes with every module that takes part in making them."""

from pathlib import Path

import bench_networks
import pytest


def test_the_digest_follows_imports_into_every_room() -> None:
    """If a module were left out, the bench would go on measuring yesterday's networks after a change."""
    found = set(bench_networks.sources(bench_networks.ROOT, bench_networks.ROOTS))
    rooms = {Path(name).parent.name for name in found}
    assert {"quantise", "zoo", "frontend", "passes", "graph"} <= rooms
    assert {"compiler/quantise/ranges.py", "compiler/graph/ir.py", "compiler/passes/fusion/fuse_affine.py"} <= found


@pytest.mark.parametrize("gone", ["compiler/zoo/a.py", "compiler/zoo/b.py", "compiler/graph/c.py"])
def test_a_module_without_a_file_is_an_error(tmp_path: Path, gone: str) -> None:
    """After a move the digest might cover no file at all, and would never change."""
    texts = {
        "compiler/zoo/a.py": "from cnna.compiler.zoo import (\n    b,\n)\n",
        "compiler/zoo/b.py": "def f():\n    from cnna.compiler.graph.c import g\n",
        "compiler/graph/c.py": "import onnx\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert bench_networks.sources(tmp_path, ("compiler/zoo/a.py",)) == texts
    (tmp_path / gone).unlink()
    with pytest.raises(FileNotFoundError, match=Path(gone).name):
        bench_networks.sources(tmp_path, ("compiler/zoo/a.py",))
