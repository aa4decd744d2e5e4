"""Pages on a telephone and on a small screen: whole words and rows of few lines, no wider than the page; numbers stay apart."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.page import html as exploration
from cnna.compiler.explore.point import Point
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.report import report
from cnna.compiler.report.compare import Side, compared
from cnna.compiler.report.compare import html as comparison
from cnna.compiler.report.html import html, library
from cnna.compiler.report.noise_page import noise_page
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of
from ...browser import drawn, needs_browser
from ..explore.points import point

ROW, NARROW, SMALL = 60, 400, 1200  # pixels: two lines of a table, a telephone's page, a small screen's
LONG = "/data/" + "a_long_folder_without_a_space_" * 4 + "model.onnx"
MEASURED = """<script>
// The gaps between neighbouring numbers of horizontal axes.
function numbers(item) {
  if (item.role !== "axis-label") return (item.items || []).flatMap(numbers);
  const shown = item.items.filter((one) => one.opacity !== 0 && one.text).map((one) => one.bounds);
  const across = shown.every((box) => Math.abs(box.y1 - shown[0].y1) < 2);
  return across ? shown.sort((a, b) => a.x1 - b.x1).slice(1).map((box, place) => box.x1 - shown[place].x2) : [];
}
setInterval(() => {
  if (typeof charts !== "undefined" && !document.body.dataset.drawn) return;
  const most = (what, size) => Math.max(0, ...[...document.querySelectorAll(what)].map(size));
  document.body.dataset.row = most("tbody tr", (row) => row.offsetHeight);
  document.body.dataset.page = document.documentElement.scrollWidth;
  document.body.dataset.chart = most(".chart", (chart) => chart.scrollWidth);
  const hidden = (box) => box.scrollWidth - box.clientWidth;
  document.body.dataset.title = most("h1", hidden);
  document.body.dataset.hidden = most(".wide", hidden);
  document.body.dataset.totals = most("table.totals", (table) => hidden(table.parentElement));
  document.body.dataset.broken = most(".key i, p > .entry", (swatch) => swatch.closest(".entry")?.getClientRects().length ?? 9);
  const gaps = (typeof charts === "undefined" ? [] : Object.values(views)).flatMap((view) => numbers(view.scenegraph().root));
  document.body.dataset.gap = Math.floor(Math.min(99, ...gaps));
  document.body.dataset.measured = "yes";
}, 50);
</script>"""


def noise() -> str:
    """The page of what quantisation costs, of forty layers with long names."""
    layer = {"op": "GlobalAveragePool", "int8": True, "snr_db": 31.0, "clipped": 0.001, "cost": 0.1}
    layers = [{**layer, "name": f"backbone/stage{number}/block/unit/convolution"} for number in range(40)]
    about = {"method": "minmax", "effort": 0, "calibration_samples": 100, "held_out": True, "samples": 9, "agreement": 0.99}
    judged = {
        "name": "scores",
        "samples": 8,
        "said": "99.00 % of classes agree",
        "verdict": "good",
        "why": "top-1, since it has a score for each class",
    }
    scores = {"classified": ["scores"], "float_top1": 0.9, "int8_top1": 0.89, "outputs": [judged]}
    return noise_page(
        {"model": LONG, "name": "m", **about, **scores, "layers": layers, "worst": [one["name"] for one in layers[:7]]}
    )


def measured_report(scripts: str) -> str:
    """The report of a run on the RTL, with stalls of two causes in each layer."""
    artifact = artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece())
    layers = [
        {"name": layer["name"], "cycles": 1234, "mac_utilization": 0.25, "stalls": {"write_back": 1508, "feature": 1203}}
        | {"ddr_read_bytes": 110_112, "ddr_write_bytes": 110_096}
        for layer in artifact.program.manifest["layers"]
    ]
    run = {"config": "tiny", "batch": 2, "device": "rtl", "cycles": 1234 * len(layers), "layers": layers}
    return html(report.figures(artifact, run), scripts)


def explored() -> list[Point]:
    """Configurations with long texts for `--config`, and speeds whose numbers are long."""
    sizes = [replace(preset("zcu102"), pix=16, ci=8, co=co, bank_words=1024, ring_words=512) for co in (8, 16, 64)]
    return [point(size, 4, (704 * n, 248.5 * n, 0, 191_856), 1_000 * n, 33_040) for n, size in enumerate(sizes, 1)]


def pages(scripts: str) -> dict[str, str]:
    """Each kind of page."""
    sides = [
        Side(f"{name}.json", "digits", "predicted", 9e3 + n, {f"l{i}": 1e4 * i + 180 * n * i for i in range(9)})
        for n, name in enumerate("ab")
    ]
    return {
        "noise": noise(),
        "report": measured_report(scripts),
        "exploration": exploration("net", explored(), Budget(2520, 912), scripts),
        "comparison": comparison(compared(*sides), scripts),
    }


def sizes_of(name: str, wide: int, folder: Path) -> dict[str, int]:
    """What `MEASURED` finds of a page in a window so wide."""
    page, end, rest = pages(library(folder / "cache"))[name].rpartition("</body>")
    (folder / "p.html").write_text(page + MEASURED + end + rest)
    body = drawn((folder / "p.html").as_uri(), 20000, f"--window-size={wide},2000")
    return {key: int(value) for key, value in re.findall(r'data-(\w+)="(-?\d+)"', body[: body.index(">")])}


@needs_browser
@pytest.mark.parametrize("name", ["noise", "report", "exploration", "comparison"])
def test_a_page_fits_a_telephone(name: str, tmp_path: Path) -> None:
    """Words would be broken letter by letter, rows be as high as the screen, and titles, charts and results hang over its edge."""
    sizes = sizes_of(name, NARROW, tmp_path)
    assert sizes["row"] <= ROW * (2 if name == "report" else 1), "a row is high because its words are broken"
    assert sizes["page"] <= max(NARROW, 500), "the page itself scrolls sideways"
    assert sizes["chart"] <= max(NARROW, 500)
    assert (sizes["title"], sizes["totals"]) == (0, 0)
    assert sizes["broken"] <= 1, "a swatch stands at the end of a line, and its word on the next"
    assert sizes["gap"] >= 6, "numbers of an axis run together"


@needs_browser
@pytest.mark.parametrize("name", ["noise", "report", "exploration", "comparison"])
def test_tables_fit_a_small_screen(name: str, tmp_path: Path) -> None:
    """The column that one looks for, the causes of stalls or the text for `--config`, would lie right of the edge."""
    sizes = sizes_of(name, SMALL, tmp_path)
    assert sizes["hidden"] == 0
    assert sizes["row"] <= ROW
    assert sizes["gap"] >= 6, "numbers of an axis run together"


def test_one_name_for_a_model(tmp_path: Path) -> None:
    """A title would be a path of three lines on one page, and a name on the next."""
    assert "<h1>m in int8</h1>" in noise()
    assert f"<p>{LONG}, quantised with" in noise()
