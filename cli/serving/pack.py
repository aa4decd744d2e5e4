"""`cnna pack`: makes of a repository what carries it to where it runs, as a library, a service or an image (docs/cluster.md)."""

import argparse
from pathlib import Path

from cnna.cli.main import Outcome
from cnna.cli.progress import Progress
from cnna.serve.packages.contents import Contents, contents_of
from cnna.spec.errors import UserError

LIBRARY, SERVICE, IMAGE = "library", "service", "image"
KINDS = {
    LIBRARY: "an archive and headers for an application in C or C++",
    SERVICE: "a Debian package with a systemd unit",
    IMAGE: "what a container is built of, and Kubernetes' objects for it",
}
OWN = {  # options of some kinds alone
    "config": (LIBRARY,),
    "compiler": (LIBRARY,),
    "wheels": (SERVICE, IMAGE),
    "board": (SERVICE, IMAGE),
    "base": (IMAGE,),
    "tag": (IMAGE,),
    "independent": (IMAGE,),
}


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
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="service, image: the wheel of cnna, and those that it needs")
    boards = "service, image: a board, as of cnna serve; may be repeated"
    parser.add_argument("--board", action="append", metavar="NAME=KIND[,OPTION=VALUE...]", help=boards)
    base = "image: what it stands on, with Python and venv (default: python:3.11-slim-bookworm)"
    parser.add_argument("--base", metavar="IMAGE", help=base)
    parser.add_argument("--tag", metavar="IMAGE", help="image: its own name, for Kubernetes (default: cnna:latest)")
    independent = "image: without models, which a volume at /mnt/models gives"
    parser.add_argument("--independent", action="store_true", default=None, help=independent)


def run(args: argparse.Namespace) -> Outcome:
    """Packs, and says what was made."""
    for option, kinds in OWN.items():
        if getattr(args, option) is not None and args.kind not in kinds:
            raise UserError(f"--{option}: is for --as {' and --as '.join(kinds)} alone; leave it out")
    with Progress("reading the repository") as progress:
        contents = contents_of(args.repository)
        progress.step(0, 0, f"packing {args.kind}")
        return {LIBRARY: _library, SERVICE: _service, IMAGE: _image}[args.kind](args, contents)


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


def _image(args: argparse.Namespace, contents: Contents) -> Outcome:
    from cnna.serve.packages.image import BASE, TAG, make_image

    made = make_image(
        *(contents, args.output, args.wheels, args.board or []), args.base or BASE, args.tag or TAG, bool(args.independent)
    )
    what = "models come from /mnt/models" if made.independent else ", ".join(made.models)
    print(f"{made.folder}: {what}; podman build -t {args.tag or TAG} {made.folder}")
    return Outcome({"independent": made.independent, "models": list(made.models)}, written=(made.folder / "Dockerfile",))
