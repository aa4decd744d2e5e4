"""`cnna split`: cuts a quantised model in two, where edge, link and cloud are quickest, and writes both sides' repositories."""

import argparse
import shlex
from pathlib import Path

from cnna.cli.board import is_loopback
from cnna.cli.main import Outcome
from cnna.cli.options import CONFIG_HELP, add_shape_option, configuration, given_shapes, warned
from cnna.cli.progress import Progress
from cnna.cli.serving.serve import GRPC, HTTP
from cnna.jobs.split import ADDRESS, AUTO, CONFIG, split

ANY = {False: "0.0.0.0", True: "[::]"}  # all addresses of a machine, of IPv4 and of IPv6
TLS = "--tls-certificate CERT.pem --tls-key KEY.pem"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("onnx", type=Path, metavar="Q.onnx", help="quantised by cnna quantize, or any model in QDQ form")
    parser.add_argument("--at", default=AUTO, metavar="NODE", help="cut behind this node (default: auto, where it is quickest)")
    parser.add_argument("--link", type=float, required=True, metavar="MBIT", help="the link's speed, in millions of bits a second")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder that does not exist, or is empty")
    parser.add_argument("--config", default=CONFIG, metavar="C", help=f"the edge's accelerator: {CONFIG_HELP} (default: {CONFIG})")
    parser.add_argument("--tensors", type=int, default=1, metavar="N", help="so many tensors may cross (default: 1)")
    parser.add_argument("--name", metavar="M", help="what the model is served as (default: the file's name)")
    parser.add_argument("--address", default=ADDRESS, metavar="URL", help=f"where the cloud's server is (default: {ADDRESS})")
    add_shape_option(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Writes the halves of the quickest cut, or of the one that is named, and prints what comes next."""
    with Progress("reading the model") as progress:
        found = split(
            args.onnx,
            args.link,
            args.out,
            at=args.at,
            config=configuration(args.config),
            tensors=args.tensors,
            name=args.name,
            address=args.address,
            shapes=given_shapes(args),
            progress=progress.step,
            warn=warned,
        )
    print(found)
    edge, there, config = (shlex.quote(f"{text}") for text in (args.out / "edge", args.out / "cloud", args.config))
    print(f"  cnna publish {edge}.onnx --repo {edge} --model {found.name}-edge --config {config}")
    cloud_options, edge_options = listening(args.address)
    print(f"  cnna serve {there}{cloud_options}    # there, at {args.address}")
    print(f"  cnna serve {edge}{edge_options}    # here: {found.name} is the whole")
    return Outcome(found.figures())


def listening(address: str) -> tuple[str, str]:
    """The options with which `cnna serve` listens where the edge asks, there and here. Both can be on one machine.

    HTTP takes the port beside gRPC's, as the defaults do.
    """
    scheme, _, place = address.partition("//")
    host, _, text = place.rpartition(":")
    port, local = int(text), is_loopback(host.removeprefix("[").removesuffix("]"))
    beside = port - 1 if port > 1 else port + 1
    at = f"{host if local else ANY['[' in host]}:{port}"
    cloud = _options(at, f"{host if local else HTTP.rpartition(':')[0]}:{beside}")
    cloud += f" {TLS}" if scheme == "grpcs:" else ""
    if not local:
        return f"{cloud} --insecure", ""
    (here, grpc), http = GRPC.rsplit(":", 1), HTTP.rpartition(":")[2]
    step = next(step for step in range(0, 8, 2) if not {int(http) + step, int(grpc) + step} & {port, beside})
    return cloud, _options(f"{here}:{int(grpc) + step}", f"{here}:{int(http) + step}")


def _options(grpc: str, http: str) -> str:
    """Those that are not the defaults, each after a space."""
    given = (("--grpc", grpc, GRPC), ("--http", http, HTTP))
    return "".join(f" {option} {shlex.quote(place)}" for option, place, usual in given if place != usual)
