"""`python -m cnna.serve.ray host|serve`: makes a computer a host of a cluster, and serves a repository on all boards of one."""

import argparse
import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from cnna.serve.models.repository import open_repository
from cnna.spec.errors import CnnaError, ToolError, UserError
from cnna.spec.extras import install

HTTP = "127.0.0.1:8000"


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code; a mistake is one line on standard error."""
    args = _parser().parse_args(words)
    try:
        return _host(args) if args.verb == "host" else _serve(args)
    except ModuleNotFoundError as missing:
        print(f"error: a cluster needs the package {missing.name}: {install('serve', 'cluster')}", file=sys.stderr)
        return ToolError.exit_code
    except CnnaError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cnna.serve.ray", description=__doc__, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    host = verbs.add_parser("host", help="offer this computer's boards to a cluster, until SIGINT or SIGTERM")
    host.add_argument("--board", action="append", default=[], metavar="NAME=KIND[,OPTION=VALUE...]", help="as of cnna serve")
    host.add_argument("--head", metavar="ADDRESS:PORT", help="begin a cluster, whose hosts reach this computer there")
    host.add_argument("--join", metavar="ADDRESS:PORT", help="join the cluster that began there")
    serve = verbs.add_parser("serve", help="serve a repository on all boards of a cluster, until SIGINT or SIGTERM")
    serve.add_argument("repository", type=Path, metavar="REPO", help="a folder of models, at the same path on every host")
    serve.add_argument("--cluster", required=True, metavar="ADDRESS:PORT", help="of the head")
    serve.add_argument("--http", default=HTTP, metavar="ADDRESS:PORT", help=f"where the head listens (default: {HTTP})")
    serve.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines can reach, without token and TLS"
    )
    return parser


def _host(args: argparse.Namespace) -> int:
    from cnna.serve.ray.ray_app import USAGE, needs_ray, start_command

    command = start_command(args.board, args.head, args.join)
    needs_ray()
    os.execve(command[0], command, {**os.environ, USAGE: "0"})


def _serve(args: argparse.Namespace) -> int:
    from cnna.serve.ray.ray_app import board_count, connect, deploy, needs_ray, remove, wait_ready

    address, _, port = args.http.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port[:6]) < 1 << 16:
        raise UserError(f"--http {args.http}: must be ADDRESS:PORT, such as {HTTP}")
    if not address.startswith("127.") and address != "localhost" and not args.insecure:
        raise UserError(f"--http {args.http}: whoever reaches it can use and change what is served; give --insecure if all may")
    open_repository(args.repository)
    needs_ray()
    connect(args.cluster)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        boards = board_count(args.cluster)
        reports = wait_ready(deploy(args.repository, boards, (address, int(port)), importlib.metadata.version("cnna")), boards)
        print(f"listening: http://{args.http}; {boards} boards: {', '.join(sorted(one.host for one in reports))}", flush=True)
        stop.wait()
    finally:
        remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
