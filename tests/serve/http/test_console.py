"""The console: its files are open and show nothing, its data needs the token, and a browser draws what an operator looks for."""

import asyncio
import io
import itertools
import json
import re
import shutil
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cnna.host.selftest.selftest_network import path_of, pictures
from cnna.serve.boards.board_spec import board_specs
from cnna.serve.engine.core import Core
from cnna.serve.http.app import App
from cnna.serve.http.front import Uvicorn
from cnna.serve.models.labels import classes_of
from cnna.serve.models.repository import Repository, open_repository
from cnna.serve.protocol.photographs import decoded
from cnna.serve.requests.history import KEPT_SECONDS, KEPT_TROUBLES, History
from cnna.spec.errors import BusyError

from ...browser import drawn, needs_browser
from ..engine.fakes import ask, core_of
from .asgi import call

Within = Callable[[Coroutine[Any, Any, None]], None]
TOKEN = "a-token-of-the-tests"
USED = """
const until = async (found) => { while (!found()) await new Promise((done) => setTimeout(done, 50)); };
const all = (what) => document.querySelectorAll(what);
await until(() => document.body.dataset.token === "no" || all("form input").length);
if (all("form input").length) {
  all("form input")[0].value = "TOKEN";
  all("form button")[0].click();
}
await until(() => all('tr[data-board="bad"] td.reason')[0]?.textContent);
const transfer = new DataTransfer();
transfer.items.add(new File([await (await fetch("picture.png")).blob()], "picture.png", { type: "image/png" }));
const input = all("input[type=file]")[0];
input.files = transfer.files;
input.dispatchEvent(new Event("change", { bubbles: true }));
await until(() => all("table.classes tbody tr").length);
document.body.dataset.best = all("table.classes tbody td")[0].textContent;
document.body.dataset.named = all("table.classes td.name")[0].textContent;
document.body.dataset.numbers = all(".plot .top").length;
document.body.dataset.cause = all('tr[data-board="bad"] td.reason')[0].textContent;
document.body.dataset.state = all('tr[data-model="tiny"] td.state')[0].textContent;
document.body.dataset.bars = [...all("svg.chart rect.samples")].filter((one) => one.getAttribute("height") > 0).length;
document.body.dataset.troubles = all("table.troubles tbody tr").length;
document.body.dataset.said = all("#said")[0].textContent;
const seen = [...all("button"), ...all("td.reason"), ...all("td.number")].filter((one) => one.textContent);
document.body.dataset.right = Math.ceil(Math.max(...seen.map((one) => one.getBoundingClientRect().right)) - innerWidth);
const values = [...all("svg.chart title")].map((title) => Number(title.textContent.split(": ")[1].split(" ")[0]));
const said = [...all("p.dim")].find((line) => line.textContent.includes("at most")).textContent;
document.body.dataset.highest = `${Math.max(...values).toFixed(1)} ${Number(said.match(/at most ([0-9.]+);/)[1]).toFixed(1)}`;
document.body.dataset.used = "all";
""".replace("TOKEN", TOKEN)


def test_only_the_data_needs_the_token(tmp_path: Path, within: Within) -> None:
    """A stranger would read causes and names; or an operator could not even type the token."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        app = App(core, "9.9", TOKEN).asgi()
        page = await call(app, "GET", "/")
        assert (page.code, b'data-token="yes"' in page.body) == (200, True)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert b'data-token="no"' in (await call(App(core, "9.9").asgi(), "GET", "/")).body
        for name in re.findall(rb'(?:src|href)="(console/[^"]+)"', page.body):
            assert (await call(app, "GET", f"/{name.decode()}")).code == 200
        for name in ("LICENSE.htm", "index.html", "..", "%2e%2e%2fapp.py"):
            assert (await call(app, "GET", f"/console/{name}")).code == 404
        assert (await call(app, "GET", "/v2/console")).code == 401
        assert (await call(app, "GET", "/v2/console", authorization=f"Bearer {TOKEN}")).code == 200

    within(run())


def test_it_says_what_waits_and_what_failed(tmp_path: Path, within: Within) -> None:
    """An operator would see that something is wrong, but not what."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", queue=2)
        app = App(core, "9.9").asgi()
        first = ask(core, 2)
        await board.answer()
        assert first.future.done()
        board.state = "resting"
        ask(core, 2)
        with pytest.raises(BusyError):
            ask(core, 1)
        core.log("error", "board failed", board="a", cause="its worker died (signal 9)")
        core.log("error", "board failed", board="a", cause="its worker died (signal 9)")
        core.log("info", "board ready", board="a")
        found = (await call(app, "GET", "/v2/console")).json
        (model,) = found["models"]
        assert (model["default"], model["queue"], model["versions"][0]["waiting"]) == ("1", 2, 2)
        assert [(one["event"], one["cause"], one["count"]) for one in found["troubles"]] == [
            ("board failed", "its worker died (signal 9)", 2)
        ]
        assert sum(one["samples"] for one in found["throughput"]) == 2
        assert sum(one["refused"] for one in found["throughput"]) == 1

    within(run())


def test_history_is_bounded_and_complete() -> None:
    """A server that runs for a month would keep a month, or the chart would leave out the minutes without requests."""
    now, logged = 0.0, list[str]()
    history = History(lambda level, event, **more: logged.append(event), lambda: now)
    for second in range(0, 4 * KEPT_SECONDS, 7):
        now = second + 0.5
        history.answered("m", 2)
        history.note("error", "request failed", cause=str(second))
    assert len(logged) == len(range(0, 4 * KEPT_SECONDS, 7))
    assert len(history.troubles) == KEPT_TROUBLES
    assert history.troubles[0]["cause"] == str(second)
    assert len(history.seconds) <= KEPT_SECONDS // 7 + 1
    rows = history.series(step=5, count=60)
    assert [later["ts"] - row["ts"] for row, later in itertools.pairwise(rows)] == [5] * 59
    assert {row["samples"] for row in rows} == {0, 2}
    now += 1000
    assert not any(row["samples"] for row in history.series())
    assert history.rate("m") == 0


@needs_browser
@pytest.mark.parametrize(("token", "wide"), [(None, 400), (TOKEN, 1200)])
def test_a_browser_draws_it_and_tries_a_picture(token: str | None, wide: int, within: Within, tmp_path: Path) -> None:
    """A table would be empty, a board's cause not shown, a picture not classified, a class without its name, or an error stand in
    the browser's console.

    On a telephone, the reasons and the buttons would lie right of the edge.
    """
    file = io.BytesIO()
    Image.fromarray(pictures()[0]).save(file, "PNG")

    async def run() -> None:
        core = Core(named_classes(tmp_path), board_specs(["good=emulator", "bad=emulator,kill=1"]))
        app = App(core, "9.9", token).asgi()
        page = bytes((await call(app, "GET", "/")).body).replace(
            b"</head>", b'<script type="module" src="used.js"></script></head>'
        )
        app.router.routes[:0] = [
            route("/", page, "text/html"),
            route("/used.js", USED.encode(), "text/javascript"),
            route("/picture.png", file.getvalue(), "image/png"),
        ]
        server = Uvicorn(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.ensure_future(server.serve(sockets=[listening]))
            try:
                await core.start()
                sent = np.array([file.getvalue()], object)
                inputs = (await decoded(core, "tiny", None, {"picture": sent})).inputs
                wanted = (await core.admit("tiny", inputs).future).outputs
                page_address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
                body = await asyncio.to_thread(drawn, page_address, 8000, f"--window-size={wide},900", timeout_seconds=600)
            finally:
                server.should_exit = True
                await serving
                await core.close()
        data = dict(re.findall(r'data-(\w+)="([^"]*)"', body[: body.index(">")]))
        best = int(np.argmax(next(iter(wanted.values())).reshape(-1)))
        assert {name: data.get(name) for name in ("used", "best", "named", "state", "said")} == {
            "used": "all",
            "best": str(best),
            "named": f"a: {best}",
            "state": "ready",
            "said": "",
        }
        assert "its worker died (signal 9)" in data["cause"]
        assert int(data["right"]) <= 0, "a reason, a figure or a button is off the screen"
        highest, said = map(float, data["highest"].split())
        assert 0 < highest == said, "the line would name another speed than that of the highest bar"
        assert int(data["bars"]) > 0
        assert int(data["numbers"]) > 0, "the highest bar has its number"
        assert int(data["troubles"]) > 0

    within(run())


def named_classes(root: Path) -> Repository:
    """The self-test's network as a repository, whose classes have names with a colon."""
    (root / "tiny" / "1").mkdir(parents=True)
    shutil.copy(path_of("tiny"), root / "tiny" / "1" / "tiny-b1.cnna")
    (output,) = open_repository(path_of("tiny")).version("tiny", "1").signature.outputs
    names = [f"a: {number}" for number in range(classes_of(output) or 0)]
    (root / "tiny" / "1" / "labels.json").write_text(json.dumps({output.name: names}))
    return open_repository(root)


def route(path: str, content: bytes, kind: str) -> Route:
    """A file of the test's own, from the same server: the page may load no other."""

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return Route(path, answer)
