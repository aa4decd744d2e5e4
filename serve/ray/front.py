"""The front of a cluster, behind Ray's proxy on the head: asks replicas until one answers, and hands orders to all of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cnna.serve.fronts.json_log import json_log
from cnna.serve.http.app import MOST_BYTES, TooLargeError, refused, said
from cnna.serve.ray.cluster_metrics import MEDIA_TYPE, merged
from cnna.serve.ray.orders import PERIOD_SECONDS, Report, difference
from cnna.serve.ray.retries import Asked, Patience, asked_until_answered
from cnna.spec.errors import BusyError, CnnaError, RunError, UnknownError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

ORDER = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
ORDER_SECONDS = 300.0  # to carry out an order on all boards
ONE_BOARD = re.compile(r"/v2/console|/|/console/.*|/v2/boards/.*|.*/stats|/v2/repository/index")  # would show one replica


class Front:
    """Its `__call__` is Ray Serve's. boards: the handle of the replicas. orders: the actor with `Orders`."""

    def __init__(self, boards: Any, orders: Any, patience: Patience | None = None) -> None:
        self._boards, self._orders = boards, orders
        self._patience, self._log = patience or Patience(), json_log()
        self._codes: Counter[int] = Counter()
        self._again = 0

    async def __call__(self, request: "Request") -> "Response":
        """Answers one request."""
        try:
            return await self._answer(request)
        except CnnaError as error:
            return refused(error)

    async def _answer(self, request: "Request") -> "Response":
        path, order = request.url.path, ORDER.fullmatch(request.url.path)
        own = {
            "/v2/health/live": self._live,
            "/v2/health/ready": self._ready,
            "/v2/boards": self._all_boards,
            "/metrics": self._metrics,
        }
        if path in own and request.method == "GET":
            return await own[path]()
        if order is not None and request.method == "POST":
            return await self._order(order[2], order[1], request)
        if ONE_BOARD.fullmatch(path):
            raise UnknownError(f"{path}: is of one server, and not served for a cluster; GET /v2/boards shows all boards")
        return await self._forward(request)

    async def _live(self) -> "Response":
        return said({"live": True})

    async def _ready(self) -> "Response":
        why = why_not_ready(await self._orders.reports.remote())
        return said({"ready": True}) if why is None else said({"ready": False, "error": why}, 503)

    async def _all_boards(self) -> "Response":
        return said([board for report in await self._orders.reports.remote() for board in report.boards])

    async def _metrics(self) -> "Response":
        from starlette.responses import Response

        return Response(merged(await self._orders.counts.remote(), self._codes, self._again), media_type=MEDIA_TYPE)

    async def _order(self, what: str, model: str, request: "Request") -> "Response":
        """Waits until all replicas have carried it out."""
        _check_origin(request)
        number = await self._orders.order.remote(what, model)
        for _ in range(int(ORDER_SECONDS / PERIOD_SECONDS)):
            await asyncio.sleep(PERIOD_SECONDS)
            found = await self._orders.outcome.remote(number)
            if found is not None:
                return said({"error": "; ".join(found)}, 400) if found else said({})
        raise BusyError(f"{what} of model {model}: some boards have not carried it out within {ORDER_SECONDS:g} s")

    async def _forward(self, request: "Request") -> "Response":
        from starlette.responses import Response

        body = await request.body()
        if len(body) > MOST_BYTES:
            raise TooLargeError(f"a body has at most {MOST_BYTES:,} bytes; send fewer samples in a request")
        query = f"?{request.url.query}" if request.url.query else ""
        asked = Asked(request.method, request.url.path + query, tuple(request.headers.raw), body)
        answer = await asked_until_answered(self._ask(asked), lost, self._patience, self._note)
        self._codes[answer.code] += 1
        return Response(answer.body, answer.code, answer.headers)

    def _ask(self, asked: Asked) -> Callable[[], Awaitable[Any]]:
        async def ask() -> Any:
            return await self._boards.answer.remote(asked)

        return ask

    def _note(self, cause: str) -> None:
        self._again += 1
        self._log("warning", "asked again", cause=cause)


def _check_origin(request: "Request") -> None:
    """Any page of a browser may send a POST to this computer."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise RunError("a page of another server must not change what is served")


def lost(error: Exception) -> bool:
    """Whether a replica, or the way to it, was lost. What a replica raised itself comes as RayTaskError: that is our own fault."""
    from ray.exceptions import RayError, RayTaskError
    from ray.serve.exceptions import RayServeException

    return isinstance(error, RayError | RayServeException) and not isinstance(error, RayTaskError)


def why_not_ready(reports: list[Report]) -> str | None:
    """Why the cluster as a whole is not ready. One board is enough. None: it is ready."""
    if not reports:
        return "no board is ready"
    differences = (difference(reports[0], other) for other in reports[1:] if other.done == reports[0].done)
    return next((why for why in differences if why), None)
