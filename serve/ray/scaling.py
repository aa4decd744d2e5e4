"""How many replicas there shall be: one for each board that a host of the cluster offers now. Ray's controller asks it.

So a host that joins later serves a moment after, and nothing waits for the boards of a host that has left. Ray carries this module
to its controller whole, so it imports nothing of cnna.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

BOARD = "cnna_board"  # the resource of which each host has as many as boards
LOOK_SECONDS = 1.0  # between two looks at the hosts; the controller asks some ten times a second


def boards_offered(nodes: Iterable[Mapping[str, Any]]) -> int:
    """The boards of the nodes that are there. nodes: as `ray.nodes` lists them."""
    return int(sum(node["Resources"].get(BOARD, 0) for node in nodes if node["Alive"]))


def replicas_wanted(
    context: Any,
    nodes: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[int, dict[str, Any]]:
    """A policy of Ray Serve: the replicas, and what it wants to be told the next time."""
    if nodes is None:
        import ray

        nodes = ray.nodes
    state = dict(context.policy_state)
    now = clock()
    if "boards" not in state or now - state["looked"] >= LOOK_SECONDS:
        state = {**state, "looked": now, "boards": boards_offered(nodes())}
    return max(state["boards"], 1), state
