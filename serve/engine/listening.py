"""Where a front listens, and what it asks of clients."""

from dataclasses import dataclass

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
