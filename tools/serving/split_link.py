"""Measures all cuts of some networks between two engines with a shaped link between them, beside the choice of `cnna split`.

.venv/bin/python tools/serving/split_link.py [--models DIR] [--only "random 1" ...] [--rounds 11] [--link 1 10 100] [--page]

It needs root and iproute2. Both engines are packed as by `cnna pack --as image`, and run as the image's ENTRYPOINT would, each in a
network namespace of its own, from the contexts' models and boards.yaml, by this environment's Python. The edge has a paced
accelerator, which answers after the predicted clocks. The cloud is one thread of this computer. Results are kept in build/split;
--page writes docs/cluster.md's table of them.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import onnx
from shaped_link import CLOUD, Link, able, inside, link
from split_networks import Network, networks
from split_table import write_page

import cnna
from cnna.compiler.split.costs import Cost
from cnna.compiler.split.cuts import Cuts
from cnna.compiler.split.halves import halves_of
from cnna.compiler.split.repositories import write
from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.image import make_image

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "split"
LINKS = (1.0, 10.0, 100.0)  # millions of bits a second
ADDRESS, EDGE_ADDRESS = f"{CLOUD}:8001", "127.0.0.1:8001"
LISTENING = {"cloud": ["--grpc", ADDRESS, "--insecure"], "edge": ["--grpc", EDGE_ADDRESS]}
BOARD = "edge=paced"


def main() -> int:
    """Measures what has no result yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, metavar="DIR", help="a folder of trained networks, NAME/model.onnx")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks alone, measured again")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--link", type=float, nargs="+", default=LINKS, metavar="MBIT")
    parser.add_argument("--page", action="store_true", help="write the table of docs/cluster.md")
    args = parser.parse_args()
    if why := able():
        parser.error(why)
    (FOLDER / "results").mkdir(parents=True, exist_ok=True)
    for network in networks(args.models, lambda name: name in args.only if args.only else not kept(name).exists()):
        found = measured(network, args.link, args.rounds)
        kept(network.name).write_text(json.dumps(found, indent=1) + "\n")
        for row in found["links"]:
            print(f"{network.name}: {row['mbit']:g} Mbit/s: {row['chosen']}, {row['over']:+.1%} over {row['best']}", flush=True)
    if args.page:
        write_page(ROOT / "docs" / "cluster.md", sorted((FOLDER / "results").glob("*.json")))
    return 0


def kept(name: str) -> Path:
    """Where a network's result is."""
    return FOLDER / "results" / f"{name.replace(' ', '-')}.json"


def measured(network: Network, links: list[float], rounds: int) -> dict[str, Any]:
    """Every cut of a network at every speed: the median seconds, and what `cnna split` chose."""
    root = FOLDER / network.name.replace(" ", "-")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    onnx.save(network.model, root / "q.onnx")
    costs = {mbit: cnna.split(root / "q.onnx", mbit, root / f"chosen{mbit:g}", config=network.config).costs for mbit in links}
    names = repositories(network, root)
    rows = []
    with ExitStack() as stack:
        wire = stack.enter_context(link())
        for side, namespace in (("cloud", wire.cloud), ("edge", wire.edge)):
            stack.enter_context(engine(root, side, namespace))
        for mbit in links:
            rows.append(compared(mbit, costs[mbit], seconds(wire, mbit, root, rounds, names)))
    return {"network": network.name, "config": network.config, "cuts": len(names), "links": rows}


def repositories(network: Network, root: Path) -> dict[str, str]:
    """Both sides' repositories with all cuts, and what each cut's model is called there, by its node."""
    cuts, names = Cuts(network.model), {}
    for number, cut in enumerate(cuts.all(1)):
        name, halves = f"cut{number}", halves_of(cuts, cut)
        write(root / "all", f"grpc://{ADDRESS}", name, cuts, cut, halves)
        cnna.publish(root / "all" / "edge.onnx", root / "all" / "edge", f"{name}-edge", network.config, batches=[1], limit=1)
        names[cut.node] = name
    return names


@contextmanager
def engine(root: Path, side: str, namespace: str) -> Iterator[None]:
    """Packs a side's repository, and serves what was packed."""
    context = root / f"image-{side}"  # as of cnna pack --as image
    make_image(contents_of(root / "all" / side), context, wheel(), [BOARD] if side == "edge" else [])
    serve = [sys.executable, "-m", "cnna", "serve", str(context / "models"), "--boards", str(context / "boards.yaml")]
    with (root / f"{side}.log").open("w") as log:
        process = subprocess.Popen(inside(namespace, [*serve, *LISTENING[side]]), stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def wheel() -> Path:
    """A folder with the wheel of cnna."""
    folder = FOLDER / "wheels"
    if not folder.exists():
        line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
        subprocess.run(line, check=True)
    return folder


def seconds(wire: Link, mbit: float, root: Path, rounds: int, names: dict[str, str]) -> dict[str, list[float]]:
    """Those of the requests, by node."""
    wire.shape(mbit)
    client = Path(__file__).with_name("split_client.py")
    line = [sys.executable, str(client), EDGE_ADDRESS, str(root / "all" / "edge"), str(rounds), *names.values()]
    done = subprocess.run(inside(wire.edge, line), stdout=subprocess.PIPE, text=True, check=True)
    seen = json.loads(done.stdout)
    return {node: seen[name] for node, name in names.items()}


def compared(mbit: float, costs: Sequence[Cost], taken: dict[str, list[float]]) -> dict[str, Any]:
    """What is chosen beside the best. costs: the chosen one first. over: how far its median is above the best one's."""
    chosen = costs[0].cut.node
    medians = {node: statistics.median(each) for node, each in taken.items()}
    best = min(medians, key=lambda node: medians[node])
    cuts = {cost.cut.node: {**cost.figures(), "measured_seconds": medians[cost.cut.node]} for cost in costs}
    return {"mbit": mbit, "chosen": chosen, "best": best, "over": medians[chosen] / medians[best] - 1, "cuts": cuts}


if __name__ == "__main__":
    sys.exit(main())
