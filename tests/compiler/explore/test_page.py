"""The page of an exploration in a browser: plots that follow each other, and a click that copies a configuration."""

import re
from html import unescape
from pathlib import Path

from cnna.compiler.explore.page import html
from cnna.compiler.explore.point import Point, option
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.report.html import library
from cnna.spec.config import preset

from ...browser import drawn, needs_browser
from .points import point

CLICKED = """<script>
const until = setInterval(async () => {
  if (!document.body.dataset.drawn) return;
  clearInterval(until);
  const dots = [];
  const gather = (item) => {
    if (item.marktype === "symbol" && item.role === "mark") dots.push(...item.items);
    else (item.items || []).forEach((part) => (part.items || part.marktype) && gather(part));
  };
  gather(views.dsp.scenegraph().root);
  const dot = dots.find((one) => one.datum.layer === 2), [left, top] = views.dsp.origin(), pad = views.dsp.padding();
  const canvas = document.querySelector("#dsp canvas"), place = canvas.getBoundingClientRect();
  const at = { clientX: place.left + pad.left + left + dot.x, clientY: place.top + pad.top + top + dot.y, bubbles: true };
  for (const kind of ["pointermove", "pointerdown", "pointerup", "click"]) canvas.dispatchEvent(new PointerEvent(kind, at));
  const shown = () => document.getElementById("copied").textContent && document.querySelector("#vg-tooltip-element")?.textContent;
  for (let tries = 0; tries < 100 && !shown(); tries++) await new Promise((done) => setTimeout(done, 100));
  document.body.dataset.chosen = [views.dsp.signal("chosen"), views.bram.signal("chosen")].join(" ");
  document.body.dataset.row = document.querySelector("tr.chosen")?.dataset.layer;
  document.body.dataset.copied = document.getElementById("copied").textContent;
  document.body.dataset.hint = document.querySelector("#vg-tooltip-element")?.textContent || "";
}, 50);
</script>"""


def points() -> list[Point]:
    """Three configurations, of which the first is the quickest."""
    sizes = {"zcu102": (2432, 648.0, 0, 162_538), "tiny": (80, 132.0, 0, 38_986), "zcu104": (1408, 64.0, 0, 150_045)}
    return [
        point(preset(name), 1, taken, 1_000_000 * number, 4_000_000_000) for number, (name, taken) in enumerate(sizes.items(), 1)
    ]


@needs_browser
def test_a_click_on_a_dot_marks_it_everywhere_and_copies_its_configuration(tmp_path: Path) -> None:
    """A plot would be empty, or the text for `--config` be another dot's."""
    made = points()
    path = tmp_path / "e.html"
    page, end, rest = html("net", made, Budget(2520, 912), library(tmp_path / "cache")).rpartition("</body>")
    path.write_text(page + CLICKED + end + rest)
    body = drawn(path.as_uri(), 20000, "--window-size=1400,900")
    told = re.findall(r'data-(drawn|chosen|row|copied|hint)="([^"]*)"', body[: body.index(">")])
    data = {name: unescape(text) for name, text in told}
    second = option(sorted(made, key=lambda point: -point.fps)[1].config)
    assert (data["drawn"], data["chosen"], data["row"]) == ("all", "2 2", "2")
    assert data["copied"] in (f"copied: {second}", f"--config {second}")
    assert second in data["hint"], "a dot under the pointer says what it is"
    assert re.findall(r'id="(?:dsp|bram)"[^>]*data-marks="(\d+)"', body) == ["3", "3"]
    assert re.search(r'<p id="problem" hidden', body)
