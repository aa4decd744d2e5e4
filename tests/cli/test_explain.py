"""`cnna explain` as a user calls it: its figures compared with other commands', its exit codes, its words."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from cnna.cli.main import main
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY, modelled

from ..browser import drawn, needs_browser

HEADER = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'


def _model(path: Path, nodes: str, channels: int = 4) -> Path:
    weights = "float[4,3,1,1] w = {" + ",".join(["0.5"] * 12) + "}"
    text = f"{HEADER} g (float[N,3,8,8] x) => (float[N,{channels},8,8] y) <{weights}> {{ {nodes} }}"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_explain_compile_and_report_have_one_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three different sums would be three answers to a user's first question; samples must not change them."""
    model = _model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [act] y = Sin (a)")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(3).normal(0, 9, (4, 3, 8, 8)).astype(np.float32))
    quantised, artifact, figures = tmp_path / "q.onnx", tmp_path / "m.cnna", tmp_path / "figures.json"
    found = {}
    for command in (
        ["quantize", str(model), "--calib", str(tmp_path / "x.npz"), "-o", str(quantised)],
        ["explain", str(model), "--config", "tiny"],
        ["compile", str(quantised), "--config", "tiny", "-o", str(artifact)],
        ["report", str(artifact)],
    ):
        capsys.readouterr()
        assert main([*command, "--json", str(figures)]) == 0
        found[command[0]] = json.loads(figures.read_text())
    speed = found["explain"]["predicted_end_to_end"]
    assert speed["fps_end_to_end"] > 0
    assert speed == found["compile"]["predicted_end_to_end"]
    assert speed.items() <= found["report"]["predicted"].items()
    assert f"{modelled(speed)} from picture to answer (modelled, {NATIVELY})" in capsys.readouterr().out
    assert [node["side"] for node in found["explain"]["nodes"]] == ["accelerator", "cpu"]


def test_the_tutorial_shows_what_is_printed(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody's first command would answer otherwise than the page says, or than `compile` counts pieces."""
    assert main(["models", "digits", "-o", str(tmp_path / "digits.onnx")]) == 0
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "digits.onnx"), "--config", "tiny"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "nodes: " in line)
    assert f"\n{line}\n" in (root / "docs" / "tutorials" / "first-run.md").read_text()


def test_a_report_of_the_cpu_alone(tmp_path: Path) -> None:
    """It has no clocks to divide by, and no engine to draw."""
    model = _model(tmp_path / "m.onnx", "[act] y = Sin (x)", channels=3)
    assert main(["compile", str(model), "--config", "tiny", "-o", str(tmp_path / "m.cnna")]) == 0
    assert main(["report", str(tmp_path / "m.cnna"), "--html", str(tmp_path / "m.html")]) == 0
    assert f"images a second from picture to answer, modelled, {IN_PYTHON}" in (tmp_path / "m.html").read_text()


def test_the_default_configuration_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures for another accelerator would be taken for the user's own."""
    model = str(_model(tmp_path / "m.onnx", "[stem] y = Conv (x, w)"))
    assert main(["explain", model]) == 0
    assert "zcu102 (the default" in capsys.readouterr().out
    assert main(["explain", model, "--config", "zcu102"]) == 0
    assert "the default" not in capsys.readouterr().out


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script would go on to `cnna compile`, which refuses the same model with the same code. The rows are there all the same."""
    model = str(_model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [odd] y = com.microsoft.Nothing (a)"))
    assert main(["compile", model, "--config", "tiny", "-o", str(tmp_path / "m.cnna")]) == 2
    capsys.readouterr()
    assert main(["explain", model, "--config", "tiny"]) == 2
    captured = capsys.readouterr()
    assert "1 refused" in captured.out
    assert "cnna compile will refuse it: node 'odd' (Nothing)" in captured.out
    (tmp_path / "text.onnx").write_text("not a model")
    assert main(["explain", str(tmp_path / "text.onnx")]) == 2
    assert main(["explain", str(tmp_path / "none.onnx")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_page_stands_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Users mail it and open it elsewhere: it must fetch nothing, and have a box and a row with a reason for each node."""
    model = str(_model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [act] b = Sin (a) [tail] y = Relu (b)"))
    loaded = onnx.load(model)
    loaded.graph.node[1].name = "<act & co>"
    onnx.save(loaded, model)
    assert main(["explain", model, "--config", "tiny", "--html", str(tmp_path / "m.html")]) == 0
    assert capsys.readouterr().err == f"wrote {tmp_path / 'm.html'}\n"
    page = (tmp_path / "m.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#)|url\(|@import", page)
    for number in range(3):
        assert page.count(f'id="g{number}"') == page.count(f'id="r{number}"') == 1
    assert page.count("the accelerator has no such operator") == 2
    assert "<act" not in page
    root = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.splitlines()[0] for title in titles if title] == ["x", "stem (Conv)", "<act & co> (Sin)", "tail (Relu)", "y"]


USED = """<script>
addEventListener("load", () => {
  const names = () => [...document.querySelectorAll("table.layers")[0].tBodies[0].rows].map((row) => row.cells[0].textContent);
  const said = [names().join()];
  for (const head of ["us", "node", "node"]) {
    [...document.querySelectorAll("table.layers th.sorts")].find((th) => th.textContent === head).click();
    said.push(names().join());
  }
  document.body.dataset.sorted = said.join(" ");
});
</script>"""


def test_the_cpus_rows_come_first_and_constants_are_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What costs would be buried among hundreds of rows about which there is nothing to do."""
    path = _model(
        tmp_path / "m.onnx", "[k] v = Neg (w) [stem] a = Conv (x, v) [wave] b = Sin (a) [tail] c = Atan (b) [end] y = Sin (c)"
    )
    assert main(["explain", str(path), "--config", "tiny", "--html", str(tmp_path / "m.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["node", "stem", "wave", "tail", "end"]
    assert lines[0].split()[:6] == ["node", "operator", "where", "MACs", "clocks", "us"]
    assert any("1 constant" in line for line in lines)
    page = (tmp_path / "m.html").read_text()
    assert [int(number) for number in re.findall(r'<tr id="r(\d+)"', page)] == [2, 3, 4, 1]


@needs_browser
def test_a_click_on_a_heading_sorts(tmp_path: Path) -> None:
    """A table of a hundred nodes would stay in one order."""
    path = _model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [b] b = Sin (a) [c] c = Mod <fmod=1> (b, a) [a] y = Sin (c)")
    assert main(["explain", str(path), "--config", "tiny", "--html", str(tmp_path / "m.html")]) == 0
    page, end, rest = (tmp_path / "m.html").read_text().rpartition("</body>")
    (tmp_path / "m.html").write_text(page + USED + end + rest)
    body = drawn((tmp_path / "m.html").as_uri(), 2000)
    assert re.findall(r'data-sorted="([^"]*)"', body)[:1] == ["c,b,a b,a,c a,b,c c,b,a"]


def test_report_says_what_the_cpu_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The clocks alone would promise thousands of images a second where the CPU bounds them; and all pages be of "main_graph"."""
    model = onnx.load(_model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [act] y = Sin (a)"))
    model.graph.name = "main_graph"
    onnx.save(model, tmp_path / "waves.onnx")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(3).normal(0, 9, (4, 3, 8, 8)).astype(np.float32))
    assert main(["quantize", str(tmp_path / "waves.onnx"), "--calib", str(tmp_path / "x.npz"), "-o", str(tmp_path / "q.onnx")]) == 0
    assert main(["compile", str(tmp_path / "q.onnx"), "--config", "tiny", "-o", str(tmp_path / "m.cnna")]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path / "m.cnna"), "--html", str(tmp_path / "m.html")]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "m.html").read_text()
    assert printed.startswith("waves for tiny")
    assert "<h1>waves on tiny" in page
    for text in (printed, page):
        assert "the host bounds it: accelerator" in text
        assert "modelled)" in text


@pytest.mark.parametrize("factor", [3e38, 1e-45])
def test_a_factor_at_the_ends_of_float32(tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float) -> None:
    """Folded weights would be infinite, or their scales 0: numpy's warnings would come before the table or the one line."""
    path = _model(tmp_path / "m.onnx", "[stem] a = Conv (x, w) [scale] y = Mul (a, k)")
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "k"))
    onnx.save(model, path)
    x = np.full((4, 3, 8, 8), 9, np.float32)
    x[0] = 8  # samples that are one number throughout would be warned of
    np.savez(tmp_path / "x.npz", x=x)
    wanted = 2 if factor == 3e38 else 0
    assert main(["explain", str(path), "--config", "tiny", "--json", str(tmp_path / "m.json")]) == wanted
    explained = capsys.readouterr().err.strip().splitlines()
    if not wanted:
        sides = {node["name"]: node["side"] for node in json.loads((tmp_path / "m.json").read_text())["nodes"]}
        assert sides == {"stem": "accelerator", "scale": "accelerator"}
    code = main(["quantize", str(path), "--calib", str(tmp_path / "x.npz"), "-o", str(tmp_path / "q.onnx")])
    said = capsys.readouterr().err.strip().splitlines()
    assert (code, len(said)) == (wanted, int(wanted > 0)), said
    for line in [*explained, *said] if wanted else []:
        assert "nothing in it is left for the accelerator; node 'stem' (Conv): 'y' holds " in line
