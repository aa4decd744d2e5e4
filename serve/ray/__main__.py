"""`python -m cnna.serve.ray host|serve`: makes a computer a host of a cluster, and serves a repository on all boards of one."""

import argparse
import importlib.metadata
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn, TextIO

from cnna.serve.models.repository import open_repository
from cnna.spec.command_line import Parser, line_of
from cnna.spec.errors import CnnaError, RunError, ToolError, UserError
from cnna.spec.extras import install

HTTP = "127.0.0.1:8000"
LOOK_SECONDS = 1.0
INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code; a mistake is one line on standard error."""
    args = _parser().parse_args(words)
    try:
        return _host(args) if args.verb == "host" else _serve(args)
    except ModuleNotFoundError as missing:
        error = ToolError(f"a cluster needs the package {missing.name}: {install('serve', 'cluster')}")
        print(line_of(error), file=sys.stderr)
        return error.exit_code
    except CnnaError as error:
        print(line_of(error), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("cnna: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m cnna.serve.ray", description=__doc__, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=Parser)
    host = verbs.add_parser("host", help="offer this computer's boards to a cluster, until SIGINT or SIGTERM")
    host.add_argument("--board", action="append", default=[], metavar="NAME=KIND[,OPTION=VALUE...]", help="as of cnna serve")
    host.add_argument("--head", metavar="ADDRESS:PORT", help="begin a cluster, whose hosts reach this computer there")
    host.add_argument("--join", metavar="ADDRESS:PORT", help="join the cluster that began there")
    host.add_argument("--name", default=socket.gethostname(), help="what others call this host (default: %(default)s)")
    serve = verbs.add_parser("serve", help="serve a repository on all boards of a cluster, until SIGINT or SIGTERM")
    serve.add_argument("repository", type=Path, metavar="REPO", help="a folder of models, at the same path on every host")
    serve.add_argument("--cluster", required=True, metavar="ADDRESS:PORT", help="of the head")
    serve.add_argument("--http", default=HTTP, metavar="ADDRESS:PORT", help=f"where the head listens (default: {HTTP})")
    serve.add_argument("--replace", action="store_true", help="take out the repository that another `serve` has put there")
    serve.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines can reach, without token and TLS"
    )
    return parser


def _host(args: argparse.Namespace) -> int:
    from cnna.serve.ray.host_process import check_place, run_host
    from cnna.serve.ray.ray_app import needs_ray, start_command

    command = start_command(args.board, args.head, args.join, args.name)
    needs_ray()
    check_place(args.head, args.join, say=_say)
    boards = ", ".join(text.partition("=")[0] for text in args.board) or "no board"
    return run_host(command, f"host {args.name}: {boards}; in the cluster at {args.head or args.join}, until Ctrl-C", say=_say)


def _serve(args: argparse.Namespace) -> int:
    from cnna.serve.ray.ray_app import board_count, connect, deploy, make_room, needs_ray, place_of, remove, wait_ready

    place = place_of("--http", args.http)
    if not place[0].startswith("127.") and place[0] != "localhost" and not args.insecure:
        raise UserError(f"--http {args.http}: whoever reaches it can use and change what is served; give --insecure if all may")
    open_repository(args.repository)
    needs_ray()
    with _quiet() as out:
        connect(args.cluster)
        signal.signal(signal.SIGTERM, _interrupt)  # after Ray has put a handler there, which prints a stack
        boards = board_count(args.cluster)
        make_room(args.replace)
        _say(f"starts an engine for each of {boards} boards")
        try:
            orders = deploy(args.repository, boards, place, importlib.metadata.version("cnna"))
            found = wait_ready(orders, boards)
            print(f"listening: http://{args.http}; {_boards(found)}", file=out, flush=True)
            _follow(orders, _boards(found), out)
        except KeyboardInterrupt:
            return 0
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # it ends already
            remove()


def _follow(orders: Any, shown: str, out: TextIO) -> NoReturn:
    """Says it when boards come or go. RunError: the head is lost."""
    import ray

    while True:
        time.sleep(LOOK_SECONDS)
        try:
            now = _boards(ray.get(orders.reports.remote(), timeout=30.0))
        except ray.exceptions.GetTimeoutError:
            continue
        except ray.exceptions.RayError as error:
            raise RunError(f"the head of the cluster does not answer any more ({type(error).__name__})") from None
        if now != shown:
            print(now, file=out, flush=True)
        shown = now


def _boards(reports: Sequence[Any]) -> str:
    hosts = sorted({one.host for one in reports})
    return f"{len(hosts)} boards: {', '.join(hosts)}" if hosts else "no board"


def _say(line: str) -> None:
    print(f"cnna: {line}", file=sys.stderr, flush=True)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _quiet() -> Iterator[TextIO]:
    """Gives standard output; what Ray prints there meanwhile is dropped, since its logs have it too."""
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        yield sys.__stdout__ or nothing


if __name__ == "__main__":
    sys.exit(main())
