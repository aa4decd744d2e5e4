"""Listens for gRPC."""

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from cnna.serve.engine.core import Core
from cnna.serve.fronts.listening import MOST_CONNECTIONS, Listening, refusal
from cnna.serve.grpc.service import Service

if TYPE_CHECKING:
    from cnna.serve.traces.tracing import Tracing

MOST_BYTES = 64 << 20  # of a message
IDENTITY = 1 << 0  # messages as they are
MOST_CALLS = 1000  # of a connection, at once; others wait at the client
GRACE_SECONDS = 5.0


class GrpcFront:
    """A server of one engine."""

    def __init__(self, core: Core, listening: Listening, version: str, tracing: "Tracing | None" = None) -> None:
        self._listening, self._service = listening, Service(core, version, listening.token, tracing)
        options = [
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),  # it closes others; a client tries again
            ("grpc.max_concurrent_streams", MOST_CALLS),
            ("grpc.compression_enabled_algorithms_bitset", IDENTITY),  # gRPC would unpack a message whole, and measure it then
        ]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self._service.handler(),))

    async def start(self) -> str:
        """Listens, and returns the address. UserError: it cannot."""
        place = self._listening.place
        try:
            if self._listening.certificate and self._listening.key:
                pair = (_read(self._listening.key), _read(self._listening.certificate))
                port = self._server.add_secure_port(place, grpc.ssl_server_credentials([pair]))
            else:
                port = self._server.add_insecure_port(place)
        except RuntimeError as error:
            reason = " ".join(str(error).partition(";")[0].split())  # what follows is for those who debug gRPC
            raise refusal("--grpc", self._listening, reason) from None
        await self._server.start()
        return f"grpc{'s' if self._listening.certificate else ''}://{self._listening.host}:{port}"

    async def stop(self) -> None:
        """Ends calls that are open, after GRACE_SECONDS at most."""
        await self._server.stop(GRACE_SECONDS)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
