"""A replica of Ray Serve: one board of its node, with an engine of its own."""

import asyncio
import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any

from cnna.serve.fronts.json_log import json_log
from cnna.serve.ray.engine_host import EngineHost
from cnna.serve.ray.host_boards import boards_of, claim, host_name
from cnna.serve.ray.orders import COUNTS_SECONDS, PERIOD_SECONDS
from cnna.serve.ray.retries import Answered, Asked
from cnna.spec.errors import RunError

CLAIM_SECONDS = 30.0  # a replica that dies keeps its board until its process has ended


class Replica:
    """Its methods are called by Ray Serve. orders: the actor with `Orders`."""

    async def __init__(self, repository: str, orders: Any, version: str) -> None:  # type: ignore[misc] # Ray Serve awaits it
        import ray
        from ray import serve

        context = ray.get_runtime_context()
        nodes = ray.nodes()
        node = next(one for one in nodes if one["NodeID"] == context.get_node_id())
        board = await _claimed(node["Resources"], node["NodeID"])
        name = serve.get_replica_context().replica_id.unique_id
        host = f"{host_name(nodes, node['NodeID'])}/{board.spec.name}"
        self._claim, self._orders = board, orders  # the claim is held as long as this process lives
        self._engine = EngineHost(Path(repository), board.spec, name, host, version, json_log())
        await self._engine.start((await orders.exchange.remote(self._engine.report()))[0])
        await self._exchange()
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def answer(self, asked: Asked) -> Answered:
        """What `cnna serve` would answer."""
        return await self._engine.answer(asked)

    async def check_health(self) -> None:
        """Ray Serve replaces a replica of which this raises."""
        if why := self._engine.why_out():
            raise RunError(why)

    async def __del__(self) -> None:  # Ray Serve awaits it before it ends a replica
        following = getattr(self, "_following", None)
        if following is not None:
            following.cancel()
            await self._engine.close()

    async def _exchange(self) -> None:
        orders, self._engine.differs = await self._orders.exchange.remote(self._engine.report())
        await self._engine.obey(orders)

    async def _follow(self) -> None:
        """Asks for orders. The actor may be away for a while: then the engine goes on as it is."""
        for turn in itertools.count():
            with suppress(Exception):
                await self._exchange()
                if turn % int(COUNTS_SECONDS / PERIOD_SECONDS) == 0:
                    await self._orders.counted.remote(self._engine.name, self._engine.counts())
            await asyncio.sleep(PERIOD_SECONDS)


async def _claimed(offered: dict[str, float], node: str) -> Any:
    """A board of this node. BusyError: all are taken, and stay so."""
    specs = boards_of(offered)
    for _ in range(int(CLAIM_SECONDS / PERIOD_SECONDS)):
        with suppress(RunError):
            return claim(specs, node)
        await asyncio.sleep(PERIOD_SECONDS)
    return claim(specs, node)
