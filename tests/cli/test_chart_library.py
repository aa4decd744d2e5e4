"""`--cache` of the commands whose pages have charts: a machine's default folder may be read-only, full or somebody else's."""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from cnna.cli.main import main
from cnna.compiler.report.html import PACKAGE

LIBRARY = "window.vegaEmbed = 'kept in the folder that was named';"
MODEL = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,8,8] x) => (float[N,4,8,8] y) '
    f"<float[4,3,1,1] w = {{{','.join(['0.5'] * 12)}}}> {{ [stem] y = Conv (x, w) }}"
)


def test_the_library_of_charts_is_where_the_user_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page could not be written where the user's cache folder cannot be, although a folder was named."""
    cache, page = tmp_path / "cache", tmp_path / "page.html"
    cache.mkdir(mode=0o700)
    (cache / f"vega-{version(PACKAGE)}.js").write_text(LIBRARY)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # no folder can be made here
    model, quantised, artifact, figures = (str(tmp_path / name) for name in ("m.onnx", "q.onnx", "m.cnna", "r.json"))
    onnx.save(onnx.parser.parse_model(MODEL), model)
    assert main(["compile", _quantised(model, quantised), "--config", "tiny", "-o", artifact]) == 0
    assert main(["report", artifact, "--json", figures]) == 0
    for command in (
        ["report", artifact],
        ["compare", figures, figures],
        ["explore", quantised, "--dsp", "60", "--bram", "40", "--batch", "1"],
    ):
        page.unlink(missing_ok=True)
        assert main([*command, "--html", str(page), "--cache", str(cache)]) == 0
        assert LIBRARY in page.read_text()
        assert main([*command, "--html", str(page)]) == 2


def _quantised(model: str, path: str) -> str:
    images = Path(path).with_suffix(".npz")
    np.savez(images, x=np.random.default_rng(3).normal(0, 1, (2, 3, 8, 8)).astype(np.float32))
    assert main(["quantize", model, "--calib", str(images), "-o", path]) == 0
    return path
