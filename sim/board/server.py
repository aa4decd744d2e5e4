"""`serve` serves a `VirtualBoard` on PYNQ.remote's port until the process ends. `Server` does so in the background of a program."""

import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from cnna.sim.board.board import VirtualBoard
from cnna.sim.board.connections import Connections
from cnna.sim.board.services import add_services
from cnna.spec.errors import UserError

PORT = 7967  # PYNQ.remote's port; stock clients use no other
THREADS = 16
MESSAGE_BYTES = 4 << 20  # the longest request: pynq sends pieces of 2 MiB, and gRPC holds a whole message in memory
MOST_REQUESTS = 64  # at the same time, including those that wait for a thread
GRACE_SECONDS = 1.0  # for requests that are being answered when the server ends


class Server:
    """Answers requests until `close`. port: the port in use; 0 asks for any free one. UserError: the port is not free."""

    def __init__(self, board: VirtualBoard, address: str = "127.0.0.1", port: int = PORT) -> None:
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_BYTES)]
        self._server: Any = grpc.server(ThreadPoolExecutor(THREADS), options=options, maximum_concurrent_rpcs=MOST_REQUESTS)
        try:
            self.port = int(self._server.add_insecure_port(f"[{address}]:{port}" if ":" in address else f"{address}:{port}"))
        except RuntimeError:
            raise UserError(f"cannot listen on {address}:{port}: {_why(address, port)}") from None
        self.connections = Connections(board.dram, self.port, address, board.busy)
        add_services(self._server, board, self.connections)
        self._server.start()

    def close(self) -> None:
        """Lets running requests end, and refuses new ones. The caller closes the board."""
        self._server.stop(GRACE_SECONDS).wait()
        self.connections.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _why(address: str, port: int) -> str:
    """Why the kernel refuses an address, and the remedy. gRPC tells neither."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, port))
    except PermissionError:
        return "only root may use ports below 1024; give another --port"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            elsewhere = f"give another --address, such as 127.0.0.2 (stock pynq insists on port {PORT}), or another --port"
            return f"another program uses it; end that one, or {elsewhere}"
    return "this machine has no such address; `ip address` lists its addresses"


def serve(board: VirtualBoard, address: str, port: int) -> None:
    """Prints `ready ADDRESS:PORT` when clients may connect. Serves until an exception, which a signal raises."""
    with Server(board, address, port) as server:
        print(f"ready {address}:{server.port}", flush=True)
        threading.Event().wait()
