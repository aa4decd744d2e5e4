"""`cnna pack`: makes of a repository what carries it to where it runs, as a library, a service or an image (docs/cluster.md)."""

import argparse
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.cli.progress import Progress
from cnna.serve.packages.contents import Contents, contents_of
from cnna.spec.errors import UserError

LIBRARY, SERVICE = "library", "service"
KINDS = {
    LIBRARY: "an archive and headers for an application in C or C++",
    SERVICE: "a Debian package with a systemd unit",
}
OWN = {"config": (LIBRARY,), "compiler": (LIBRARY,), "wheels": (SERVICE,), "board": (SERVICE,)}  # options of some kinds alone


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("repository", type=Path, metavar="REPO", help="a folder of models, or one .cnna")
    kinds = "; ".join(f"{name}: {what}" for name, what in KINDS.items())
    parser.add_argument("--as", dest="kind", choices=list(KINDS), required=True, help=kinds)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write, which must be empty or missing"
    )
    parser.add_argument("--config", metavar="C", help="library: the accelerator, where models were compiled for several")
    parser.add_argument(
        "--compiler", metavar="CXX", help="library: the C++ compiler, such as aarch64-linux-gnu-g++ (default: $CXX, else g++)"
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="service: the wheel of cnna, and those that it needs")
    parser.add_argument(
        "--board",
        action="append",
        metavar="NAME=KIND[,OPTION=VALUE...]",
        help="service: a board, as of cnna serve; may be repeated",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Packs, and says what was made."""
    for option, kinds in OWN.items():
        if getattr(args, option) is not None and args.kind not in kinds:
            raise UserError(f"--{option}: is for --as {' and --as '.join(kinds)} alone; leave it out")
    with Progress("reading the repository") as progress:
        contents = contents_of(args.repository)
        progress.step(0, 0, f"packing {args.kind}")
        return {LIBRARY: _library, SERVICE: _service}[args.kind](args, contents)


def _library(args: argparse.Namespace, contents: Contents) -> Outcome:
    from cnna.serve.packages.library import make_library

    made = make_library(contents, args.output, args.config, args.compiler)
    print(f"{made.archive}: {', '.join(made.models)} for {made.config}, {made.archive_bytes / 1e3:,.0f} kB; link it with -pthread")
    figures = {"config": made.config, "models": list(made.models), "archive_bytes": made.archive_bytes}
    return Outcome(figures, written=(made.archive, *made.headers))


def _service(args: argparse.Namespace, contents: Contents) -> Outcome:
    from cnna.serve.packages.service import make_service

    made = make_service(contents, args.output, args.wheels, args.board or [])
    print(f"{made.package}: {', '.join(made.models)} for {made.architecture}, {made.package_bytes / 1e6:.1f} MB; apt install it")
    figures = {"architecture": made.architecture, "models": list(made.models), "package_bytes": made.package_bytes}
    return Outcome(figures, written=(made.package,))
