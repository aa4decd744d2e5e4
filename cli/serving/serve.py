"""`cnna serve`: answers the Open Inference Protocol for a repository of models, or for one .cnna."""

import argparse
import asyncio
from pathlib import Path

from cnna.cli.board import is_loopback
from cnna.cli.main import Outcome, installed_version
from cnna.spec.errors import ToolError, UserError
from cnna.spec.files import read_bytes

HTTP = "127.0.0.1:8000"
BOARD = "emulator=emulator"
LEAST_TOKEN = 16  # letters


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("repository", type=Path, metavar="REPO|M.cnna", help="a folder of models, or one compiled model")
    parser.add_argument("--http", default=HTTP, metavar="ADDRESS:PORT", help=f"where to listen (default: {HTTP}; port 0 takes any)")
    parser.add_argument(
        "--board",
        action="append",
        metavar="NAME=KIND[,OPTION=VALUE...]",
        help=f"a board, emulator or paced; may be repeated (default: {BOARD}; docs/serving.md has the options)",
    )
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="a token that all requests but those for health must have")
    parser.add_argument("--tls-certificate", type=Path, metavar="PEM", help="serve HTTPS with this certificate")
    parser.add_argument("--tls-key", type=Path, metavar="PEM", help="and this key")
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines can reach without a token and TLS"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Serves until SIGINT or SIGTERM, then ends in order, with code 0."""
    try:
        from cnna.serve.http.server import Listening, serve
    except ModuleNotFoundError as missing:
        raise ToolError(f"cnna serve needs the package {missing.name}: pip install 'cnna[serve]'") from None
    from cnna.serve.boards.board_spec import board_specs
    from cnna.serve.engine.core import Core
    from cnna.serve.engine.json_log import json_log
    from cnna.serve.models.repository import open_repository

    address, port = _address(args.http)
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise UserError("--tls-certificate and --tls-key belong together: give both, or neither")
    token = None if args.token_file is None else _token(args.token_file)
    if not is_loopback(address) and not args.insecure and (token is None or args.tls_key is None):
        what = "whoever reaches it can use and change what is served"
        raise UserError(f"--http {args.http}: {what}; give --token-file, --tls-certificate and --tls-key, or --insecure")
    files = [None if path is None else _readable(path) for path in (args.tls_certificate, args.tls_key)]
    repository, specs = open_repository(args.repository), board_specs(args.board or [BOARD])
    listening = Listening(address, port, token, *files)

    def say(line: str) -> None:
        print(line, flush=True)

    asyncio.run(serve(lambda: Core(repository, specs, log=json_log()), listening, installed_version(), say))
    return Outcome()


def _address(text: str) -> tuple[str, int]:
    """UserError: it is not ADDRESS:PORT."""
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdecimal() or not int(port[:6]) < 1 << 16:
        raise UserError(f"--http {text}: must be ADDRESS:PORT, such as {HTTP}")
    return address.removeprefix("[").removesuffix("]"), int(port)


def _token(path: Path) -> str:
    """UserError: the file has no token, or one that is quickly guessed."""
    token = read_bytes(path).decode("ascii", "replace").strip()
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token or "\ufffd" in token:
        raise UserError(f"{path}: must hold a token of at least {LEAST_TOKEN} ASCII letters or digits, in one line")
    return token


def _readable(path: Path) -> str:
    read_bytes(path)
    return str(path)
