"""What PYNQ.remote's four services have in common on a `Board`: who asks is noted, and a refusal becomes a gRPC status."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from cnna.sim.board.board import Board
from cnna.sim.board.connections import Connections
from cnna.sim.board.refused import RefusedError

Context = Any  # grpc.ServicerContext


class Service:
    """The board, and who is connected to it."""

    def __init__(self, board: Board, connections: Connections) -> None:
        self.board, self.connections = board, connections

    @contextmanager
    def answering(self, context: Context) -> Iterator[None]:
        """Notes that the client lives; makes a gRPC status of a refusal."""
        self.connections.seen(context.peer())
        try:
            yield
        except RefusedError as error:
            context.abort(grpc.StatusCode[error.code], str(error))
