"""Two network namespaces with a link between them whose speed `tc` sets, both ways. It needs root and iproute2."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EDGE, CLOUD = "10.77.0.1", "10.77.0.2"
BURST_BYTES = 1600  # a frame: what the link lets through at once after a pause
QUEUE = "4s"  # how long a packet may wait in the link


@dataclass(frozen=True)
class Link:
    """The namespaces. Each has one end of the link, called as the namespace is."""

    edge: str
    cloud: str

    def shape(self, mbit: float) -> None:
        """Millions of bits a second, of whole Ethernet frames, each way."""
        for name in (self.edge, self.cloud):
            rate = f"{mbit * 1e6:.0f}bit"
            words = ["tc", "-n", name, "qdisc", "replace", "dev", name, "root", "tbf", "rate", rate]
            run([*words, "burst", str(BURST_BYTES), "latency", QUEUE])


def able() -> str:
    """Why no link can be made here; "": one can."""
    if missing := [name for name in ("ip", "tc") if not shutil.which(name)]:
        return f"{', '.join(missing)} is missing: apt install iproute2"
    return "" if os.geteuid() == 0 else "making network namespaces needs root"


@contextmanager
def link() -> Iterator[Link]:
    """A link that is gone at the end, with both namespaces."""
    made = Link(f"edge{os.getpid()}", f"cloud{os.getpid()}")
    names = (made.edge, made.cloud)
    try:
        for name in names:
            run(["ip", "netns", "add", name])
        run(["ip", "link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1]])
        for name, address in zip(names, (EDGE, CLOUD), strict=True):
            run(["ip", "-n", name, "address", "add", f"{address}/24", "dev", name])
            run(["ip", "-n", name, "link", "set", "lo", "up"])
            run(["ip", "-n", name, "link", "set", name, "gso_max_size", "1514"])  # frames as a wire has them: tbf drops larger ones
            run(["ip", "-n", name, "link", "set", name, "up"])
        yield made
    finally:
        for name in names:
            if (Path("/run/netns") / name).exists():
                run(["ip", "netns", "delete", name])


def inside(namespace: str, line: Sequence[str]) -> list[str]:
    """A command line that runs there."""
    return ["ip", "netns", "exec", namespace, *line]


def run(line: Sequence[str]) -> None:
    """RuntimeError: it failed; with its words."""
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)}: {done.stderr.strip()}")
