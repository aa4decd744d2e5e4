"""The page stands alone, and a browser draws all of it: charts that follow each other, and a table that sorts."""

import re
from html.parser import HTMLParser

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.report import report
from cnna.compiler.report.charts import charts
from cnna.compiler.report.html import html, library
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of
from ...browser import drawn, needs_browser

USED = """<script>
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
function rects(item) {
  const own = item.marktype === "rect" && item.role === "mark" ? item.items : [];
  return [...own, ...(item.items || []).flatMap((part) => rects(part))];
}
// Presses the mouse on the first bar, and releases it some pixels on. Says which layer is marked, and whether the page scrolled.
async function press(across, times) {
  const place = document.querySelector("#engines canvas"), { left, top } = place.getBoundingClientRect();
  const { bounds } = rects(views.engines.scenegraph().root)[0], [x, y] = views.engines.origin();
  const at = { clientX: left + x + (bounds.x1 + bounds.x2) / 2, clientY: top + y + (bounds.y1 + bounds.y2) / 2, bubbles: true };
  const to = { ...at, clientX: at.clientX + across };
  let shown = 0;
  Element.prototype.scrollIntoView = () => { shown++; };
  for (let time = 0; time < times; time++) {
    const kinds = { move: at, down: at, up: to };
    for (const [kind, where] of Object.entries(kinds)) place.dispatchEvent(new PointerEvent(`pointer${kind}`, where));
    for (const [kind, where] of Object.entries(kinds)) place.dispatchEvent(new MouseEvent(`mouse${kind}`, where));
    place.dispatchEvent(new MouseEvent("click", to));
  }
  await pause(500);
  const answer = `${views.engines.signal("chosen")}:${shown}`;
  choose(0);
  return answer;
}
const until = setInterval(async () => {
  if (!document.body.dataset.drawn) return;
  clearInterval(until);
  document.body.dataset.pressed = [await press(0, 1), await press(60, 1), await press(0, 2)].join(" ");
  await views.engines.signal("zoom_begin", [100, 200]).runAsync();
  await new Promise((done) => setTimeout(done, 200));
  document.body.dataset.shown = JSON.stringify(views.memory.signal("zoom_begin"));
  document.querySelectorAll("table.layers th.sorts")[5].click();
  document.body.dataset.first = document.querySelector("table.layers tbody tr").dataset.layer;
  document.querySelector('table.layers tr[data-layer="2"]').click();
  document.body.dataset.chosen = views.roofline.signal("chosen");
  document.querySelector('#graph g[data-layer="3"]').dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const marked = [...document.querySelectorAll("#graph g.chosen, table.layers tr.chosen")].map((one) => one.dataset.layer);
  document.body.dataset.boxed = [views.roofline.signal("chosen"), views.engines.signal("chosen"), ...marked].join(" ");
  const cut = [];
  for (const view of Object.values(views)) {
    const titles = new DOMParser().parseFromString(await view.toSVG(), "image/svg+xml").querySelectorAll(".role-legend-title text");
    cut.push(...[...titles].map((title) => title.textContent).filter((title) => title.includes("…")));
  }
  document.body.dataset.cut = cut.join() || "none";
  document.body.dataset.used = "all";
}, 50);
</script>"""


@pytest.fixture(scope="module")
def found():
    figures = report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece()))
    figures["layers"][0]["name"] = "<script>alert(1)</script>"
    return figures


def test_the_page_stands_alone_and_is_closed(found):
    """A tag would be open, something fetched from the network, or the name of a layer not escaped."""
    page, open_tags = html(found, "window.vegaEmbed = null;"), []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert not any(key in ("src", "href") for key, _ in attrs)
            if tag != "meta":
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Tags().feed(page)
    assert not open_tags
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in page


@needs_browser
def test_a_browser_draws_all_charts_and_they_follow_each_other(found, tmp_path):
    """A chart would be empty, an error stand in the console, or zoom, click and sorting do nothing."""
    path = tmp_path / "r.html"
    page, end, rest = html(found, library(tmp_path / "cache")).rpartition("</body>")
    path.write_text(page + USED + end + rest)
    body = drawn(path.as_uri(), 20000)
    data = dict(re.findall(r'data-(drawn|used|shown|first|chosen|boxed|pressed|cut)="([^"]*)"', body[: body.index(">")]))
    smallest = min(range(len(found["layers"])), key=lambda number: found["layers"][number]["macs"]) + 1
    assert data.pop("cut") == "none", "titles of legends are cut off"
    assert data.pop("pressed") == "1:1 0:0 0:0", "a click marks and shows the layer; dragging and a double click do neither"
    assert data == {"drawn": "all", "used": "all", "shown": "[100,200]", "first": str(smallest), "chosen": "2", "boxed": "3 3 3 3"}
    for name in charts(found):
        place = re.search(rf'id="{name}"[^>]*data-marks="(\d+)"|data-marks="(\d+)"[^>]*id="{name}"', body)
        assert place, f"{name} is not drawn"
        assert int(place[1] or place[2]) > 0, f"{name} is empty"
    assert re.search(r'<p id="problem" hidden', body)
