"""Pages on a telephone: rows of one line, words that are whole, and charts that are no wider than the page."""

import re

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.page import html as exploration
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.report import report
from cnna.compiler.report.html import html, library
from cnna.compiler.report.noise_page import noise_page
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of
from ...browser import drawn, needs_browser
from ..explore.test_page import points

ROW, WIDE = 60, 400  # pixels: two lines of a table, the page
MEASURED = """<script>
setInterval(() => {
  if (typeof charts !== "undefined" && !document.body.dataset.drawn) return;
  const most = (what, size) => Math.max(0, ...[...document.querySelectorAll(what)].map(size));
  document.body.dataset.row = most("tbody tr", (row) => row.offsetHeight);
  document.body.dataset.page = document.documentElement.scrollWidth;
  document.body.dataset.chart = most(".chart", (chart) => chart.scrollWidth);
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
    return noise_page({"model": "m.onnx", **about, **scores, "layers": layers, "worst": [one["name"] for one in layers[:7]]})


def pages(scripts: str) -> dict[str, str]:
    """Each kind of page."""
    artifact = artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece())
    return {
        "noise": noise(),
        "report": html(report.figures(artifact), scripts),
        "exploration": exploration("net", points(), Budget(2520, 912), scripts),
    }


@needs_browser
@pytest.mark.parametrize("name", ["noise", "report", "exploration"])
def test_a_page_fits_a_telephone(name, tmp_path):
    """Words would be broken letter by letter, rows be as high as the screen, and charts hang over its edge."""
    page, end, rest = pages(library(tmp_path / "cache"))[name].rpartition("</body>")
    (tmp_path / "p.html").write_text(page + MEASURED + end + rest)
    body = drawn((tmp_path / "p.html").as_uri(), 20000, f"--window-size={WIDE},2000")
    sizes = {key: int(value) for key, value in re.findall(r'data-(row|page|chart)="(\d+)"', body[: body.index(">")])}
    assert sizes["row"] <= ROW, "a row is high because its words are broken"
    assert sizes["page"] <= max(WIDE, 500), "the page itself scrolls sideways"
    assert sizes["chart"] <= max(WIDE, 500)
