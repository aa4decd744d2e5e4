"""Where a front listens, and what it asks of clients."""

import errno
import socket
from dataclasses import dataclass

from cnna.spec.errors import UserError

MOST_CONNECTIONS = 1000  # at once over each protocol: each takes a file, and a process has so many


@dataclass(frozen=True)
class Listening:
    """An address and a port; 0 takes any that is free. certificate, key: files for TLS. token: what clients must show."""

    address: str
    port: int
    token: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def host(self) -> str:
        """The address as it stands before a port."""
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def place(self) -> str:
        """ADDRESS:PORT."""
        return f"{self.host}:{self.port}"


def refusal(option: str, at: Listening, said: str) -> UserError:
    """Why nobody can listen there, and the remedy. option: what gave the place. said: by the library, for what is unknown here."""
    return UserError(f"{option} {at.place}: cannot listen: {_why(option, at) or said}")


def _why(option: str, at: Listening) -> str | None:
    """Tries the place as the system sees it: gRPC tells only that it failed."""
    another = f"{option} {at.host}:PORT with another"
    try:
        family, kind, _, _, place = socket.getaddrinfo(at.address, at.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections that have ended hold no port
            probe.bind(place)
            probe.listen()
    except PermissionError:
        return f"only root may use ports below 1024; give {another}, such as 8000"
    except UnicodeError:
        return None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"another program uses this port; end that one, or give {another} (0 takes any that is free)"
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            return f"this machine has no such address; give {option} ADDRESS:{at.port} with one that `ip address` lists"
    return None
