"""`cnna serve`: answers the Open Inference Protocol for a repository of models, or for one .cnna."""

import argparse
import asyncio
import os
import resource
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cnna.cli.board import is_loopback
from cnna.cli.main import Outcome, installed_version
from cnna.spec.errors import ToolError, UserError
from cnna.spec.extras import install
from cnna.spec.files import read_bytes

if TYPE_CHECKING:
    from cnna.serve.traces.tracing import Tracing

HTTP, GRPC, NONE = "127.0.0.1:8000", "127.0.0.1:8001", "none"
BOARD = "emulator=emulator"
LEAST_TOKEN = 16  # letters
FILES = 8192  # that may be open, where the system allows it: each connection is one
OTEL = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")  # OpenTelemetry's own: one of them asks for traces


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("repository", type=Path, metavar="REPO", help="a folder of models, or one compiled model (M.cnna)")
    parser.add_argument("--http", default=HTTP, metavar="ADDRESS:PORT", help=f"where to listen (default: {HTTP}; port 0 takes any)")
    parser.add_argument(
        "--grpc", default=GRPC, metavar="ADDRESS:PORT", help=f"the same for gRPC (default: {GRPC}; none: not at all)"
    )
    parser.add_argument(
        "--board",
        action="append",
        metavar="NAME=KIND[,OPTION=VALUE...]",
        help=f"a board, such as left=emulator; may be repeated (default: {BOARD}; docs/serving/reference.md has the options)",
    )
    parser.add_argument("--boards", type=Path, metavar="boards.yaml", help="a list of boards, in place of --board")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="a token that all requests but those for health must have")
    parser.add_argument("--tls-certificate", type=Path, metavar="PEM", help="serve HTTPS with this certificate")
    parser.add_argument("--tls-key", type=Path, metavar="PEM", help="and this key")
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="send traces to this collector, over OTLP/HTTP (else to where OTEL_EXPORTER_OTLP_ENDPOINT says)",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that other machines can reach without a token and TLS"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Serves until SIGINT or SIGTERM, then ends in order, with code 0."""
    try:
        from cnna.serve.grpc.front import GrpcFront
        from cnna.serve.http.front import HttpFront
    except ModuleNotFoundError as missing:
        raise ToolError(f"cnna serve needs the package {missing.name}: {install('serve')}") from None
    from cnna.serve.boards.board_spec import board_specs
    from cnna.serve.boards.boards_file import boards_of
    from cnna.serve.engine.core import Core
    from cnna.serve.fronts.json_log import json_log
    from cnna.serve.fronts.listening import Listening
    from cnna.serve.fronts.service import Front, serve
    from cnna.serve.models.repository import open_repository

    places = {"--http": _address("--http", args.http)}
    if args.grpc != NONE:
        places["--grpc"] = _address("--grpc", args.grpc)
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise UserError("--tls-certificate and --tls-key belong together: give both, or neither")
    if args.board and args.boards is not None:
        raise UserError("--board and --boards: give one of them; a file may have all boards")
    token = None if args.token_file is None else _token(args.token_file)
    for option, (address, port) in places.items():
        if not is_loopback(address) and not args.insecure and (token is None or args.tls_key is None):
            what = "whoever reaches it can use and change what is served"
            raise UserError(f"{option} {address}:{port}: {what}; give --token-file, --tls-certificate and --tls-key, or --insecure")
    files = (None, None) if args.tls_key is None else _tls(args.tls_certificate, args.tls_key)
    repository, specs = open_repository(args.repository), board_specs(args.board or [BOARD])
    if args.boards is not None:
        specs = boards_of(args.boards)
    kinds: dict[str, Callable[..., Front]] = {"--http": HttpFront, "--grpc": GrpcFront}
    log = json_log()
    tracing = _tracing(args.otlp, log)

    async def run_all() -> None:
        core = Core(repository, specs, log=log)
        made = installed_version()
        await serve(
            core, [kinds[option](core, Listening(*place, token, *files), made, tracing) for option, place in places.items()], say
        )

    def say(line: str) -> None:
        print(line, flush=True)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard < 0 else min(FILES, hard), hard))
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would print lines of its own if a port is taken
    try:
        asyncio.run(run_all())
    finally:
        if tracing is not None:
            tracing.close()
    return Outcome()


def _tracing(url: str | None, log: Callable[..., None]) -> "Tracing | None":
    """None: nobody asks for traces. UserError: the URL is none. ToolError: OpenTelemetry is not installed."""
    if url is None and not any(os.environ.get(name) for name in OTEL):
        return None
    if url is not None and not url.startswith(("http://", "https://")):
        raise UserError(f"--otlp {url}: must be the URL of a collector, such as http://127.0.0.1:4318")
    try:
        from cnna.serve.traces.tracing import exporting
    except ModuleNotFoundError as missing:
        asked = "--otlp" if url is not None else next(name for name in OTEL if os.environ.get(name))
        raise ToolError(f"{asked} needs the package {missing.name}: {install('trace')}") from None
    return exporting(url, log)


def _address(option: str, text: str) -> tuple[str, int]:
    """UserError: it is not ADDRESS:PORT."""
    address, colon, port = text.rpartition(":")
    if not colon or not address or not port.isdecimal() or not int(port[:6]) < 1 << 16:
        raise UserError(f"{option} {text}: must be ADDRESS:PORT, such as {HTTP}")
    return address.removeprefix("[").removesuffix("]"), int(port)


def _token(path: Path) -> str:
    """UserError: the file has no token, or one that is quickly guessed."""
    token = read_bytes(path).decode("ascii", "replace").strip()
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token or "\ufffd" in token:
        raise UserError(f"{path}: must hold a token of at least {LEAST_TOKEN} ASCII letters or digits, in one line")
    return token


def _tls(certificate: Path, key: Path) -> tuple[str, str]:
    """The files' names. UserError: they are not a certificate and its key, or a password is needed, which nobody can type here."""
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)
        return ""

    for path in (certificate, key):
        read_bytes(path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        if asked:
            plain = f"openssl pkey -in {key} -out plain.pem"
            raise UserError(f"{key}: is locked with a password; give a key without one ({plain})") from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise UserError(f"{key}: is not the key of the certificate {certificate}") from None
        raise UserError(f"{certificate}, {key}: must be a certificate and its key, both PEM") from None
    return str(certificate), str(key)
