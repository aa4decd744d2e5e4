"""An engine with one board inside a replica: answers whole HTTP requests, and carries out orders. It knows nothing of Ray."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.engine.core import Core
from cnna.serve.engine.served import READY
from cnna.serve.http.app import App, refused
from cnna.serve.http.metrics import metrics
from cnna.serve.lifecycle.boards import OUT
from cnna.serve.models.repository import open_repository
from cnna.serve.models.version import Version
from cnna.serve.protocol import described
from cnna.serve.ray.orders import UNLOAD, Order, Report
from cnna.serve.ray.retries import Answered, Asked
from cnna.spec.errors import BusyError, CnnaError, UnknownError


class EngineHost:
    """All methods belong to the loop in which `start` was called. name, host: who it is to others."""

    def __init__(
        self, repository: Path, spec: BoardSpec, name: str, host: str, version: str, log: Callable[..., None] = lambda *a, **b: None
    ) -> None:
        self.core = Core(open_repository(repository), [spec], log=log)
        self._app = App(self.core, version).asgi()
        self.name, self._host, self._version = name, host, version
        self._orders: tuple[Order, ...] = ()
        self._done = 0
        self._refusals: dict[int, str] = {}
        self._hashes: dict[Version, str] = {}
        self.differs: str | None = None  # why it must not answer

    async def start(self, orders: tuple[Order, ...] = ()) -> None:
        """Loads all models, and unloads those that operators have unloaded before."""
        await self.core.start()
        self._done = max((order.number for order in orders if order.what != UNLOAD), default=0)
        self._orders = orders
        for order in orders:
            if order.what == UNLOAD:
                await self._carry_out(order)

    async def obey(self, orders: tuple[Order, ...]) -> None:
        """Carries out the orders that are new, in their order."""
        for order in orders:
            if order.number > self._done:
                await self._carry_out(order)
        self._orders = orders

    async def _carry_out(self, order: Order) -> None:
        try:
            if order.what == UNLOAD:
                await self.core.catalogue.unload(order.model)
            elif bad := await self.core.catalogue.load(order.model):
                why = "; ".join(f"model {one.model}, version {one.name}: {one.reason}" for one in bad)
                self._refusals[order.number] = f"{self._host}: {why}"
        except UnknownError as error:
            self._refusals[order.number] = str(error)
        except CnnaError as error:
            self._refusals[order.number] = f"{self._host}: {error}"
        self._done = max(self._done, order.number)

    def report(self) -> Report:
        """What others must know of it."""
        ready = [one for one in self.core.catalogue.served() if one.state == READY and one.version is not None]
        models = {f"{one.model}/{one.name}": self._hash(one.version) for one in ready if one.version is not None}
        boards = tuple({**board, "host": self._host} for board in described.boards(self.core))
        known = (dict(self._refusals), models, self._orders, boards)
        return Report(self.name, self._host, self._version, os.getpid(), self._done, *known)

    def counts(self) -> str:
        """What `/metrics` of this engine alone says."""
        return metrics(self.core)[0].decode()

    def why_out(self) -> str | None:
        """Why its board will never answer again; None: it may."""
        board = self.core.boards[0] if self.core.boards else None
        return None if board is None or board.state != OUT else f"board {board.spec.name}: {board.life.cause}"

    async def answer(self, asked: Asked) -> Answered:
        """What `cnna serve` would answer. A replica that differs from the others refuses what another one can answer."""
        if self.differs is not None:
            response = refused(BusyError(self.differs, 1.0))
            return Answered(response.status_code, dict(response.headers), bytes(response.body))
        return await called(self._app, asked)

    async def close(self) -> None:
        """Answers nothing more, and ends the board's worker."""
        await self.core.close()

    def _hash(self, version: Version) -> str:
        """Of the files of a version, as they were when it was first asked for."""
        if version not in self._hashes:
            paths = sorted({one.path for many in version.compiled.values() for one in many if one.path.is_file()})
            found = hashlib.sha256()
            for path in paths:
                found.update(path.name.encode() + b"\0" + path.read_bytes())
            self._hashes[version] = found.hexdigest()[:16]
        return self._hashes[version]


async def called(app: Any, asked: Asked) -> Answered:
    """Calls an ASGI application without a network."""
    path, _, query = asked.target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "headers": list(asked.headers),
        "root_path": "",
        "client": None,
        "server": None,
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": asked.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answered(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))
