"""`cnna board`: writes an accelerator as an image, an IP or Linux firmware, serves a virtual board, and tests a real one."""

import argparse
import ipaddress
import os
import socket
import sys
from pathlib import Path

from cnna.cli.exit_signals import until_signal
from cnna.cli.main import JSON_HELP, Outcome
from cnna.cli.options import CONFIG_HELP, add_cache_option, configuration
from cnna.host.board.overlay import MANIFEST, manifest
from cnna.spec.config import Config
from cnna.spec.errors import ToolError, UserError
from cnna.spec.extras import install
from cnna.spec.files import check_folder, make_folder, write_bytes, write_text

VARIANTS = ("ps", "pl")
BACKENDS = ("rtl", "emulator")
PORT = 7967  # PYNQ.remote's port
MEMORY_MIB = (16, 2048)  # contiguous memory: at most what a ZCU102's upper DDR holds


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options, with one parser for each of its parts."""
    parts = parser.add_subparsers(dest="part", metavar="PART", title="parts", required=True, parser_class=type(parser))
    image = parts.add_parser("image", help="write cnna.bit and cnna.hwh for the virtual board")
    ip = parts.add_parser("ip", help="write the accelerator as an IP for Vivado, with its page, scripts and constraints")
    firmware = parts.add_parser("firmware", help="write what Linux needs to load an image without pynq, such as xmutil on a KV260")
    serve = parts.add_parser(
        "serve", help="serve a virtual board, a ZCU102 or that of the preset, to the stock pynq package, until Ctrl-C"
    )
    info = parts.add_parser("info", help="say what accelerator a board has")
    selftest = parts.add_parser("selftest", help="test a board: registers, memory, clock, a network, power")
    for part in (image, ip, serve, firmware):
        part.add_argument("--config", required=True, metavar="C", help=CONFIG_HELP)
    for part in (image, ip, serve):
        part.add_argument(
            "--variant",
            choices=VARIANTS,
            default="ps",
            help="the DDR that the accelerator works on, the PS's or the PL's (default: ps)",
        )
    for part in (info, selftest):
        beside = "the overlay that pynq loads, with its .hwh in the same folder (default: cnna.bit)"
        part.add_argument("--overlay", type=Path, default=Path("cnna.bit"), metavar="cnna.bit", help=beside)
    selftest.add_argument("--model", type=Path, metavar="M.cnna", help="run this network instead of the one that comes with cnna")
    selftest.add_argument("--input", type=Path, metavar="X", help="samples for --model, as for cnna run")
    selftest.add_argument(
        "--expect", type=Path, metavar="Y.npz", help="the answers that --model must give, to the bit (from cnna run -o)"
    )
    for part in (image, ip, firmware, serve, info, selftest):
        part.add_argument("--json", type=Path, default=argparse.SUPPRESS, metavar="FILE", help=JSON_HELP)
        part.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error")
    add_cache_option(ip)
    for part in (image, ip, firmware):
        part.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", dest="folder", help="folder for the files")
    serve.add_argument("--backend", choices=BACKENDS, default="rtl", help="what computes (default: rtl, under Verilator)")
    serve.add_argument("--address", default="127.0.0.1", help="where to listen (default: 127.0.0.1; the protocol has no passwords)")
    serve.add_argument("--insecure", action="store_true", help="allow an --address that other machines can reach")
    serve.add_argument(
        "--port", type=int, default=PORT, help=f"where to listen (default: {PORT}, which stock pynq needs; 0 takes any)"
    )
    serve.add_argument("--memory", type=int, default=1024, metavar="MIB", help="size of the contiguous memory (default: 1024)")
    add_cache_option(serve)


def run(args: argparse.Namespace) -> Outcome:
    """Runs one part of the command."""
    if args.part in ("info", "selftest"):
        from cnna.cli import board_report

        return board_report.info(args.overlay) if args.part == "info" else board_report.selftest(args)
    return {"image": _image, "ip": _ip, "firmware": _firmware, "serve": _serve}[args.part](args, configuration(args.config))


def _image(args: argparse.Namespace, config: Config) -> Outcome:
    """Writes the files of an overlay: the image, what pynq must know of it, and their manifest."""
    from cnna.sim.board.design import design
    from cnna.sim.board.hwh import hwh
    from cnna.sim.board.image import bit

    made = design(config, args.variant)
    make_folder(args.folder)
    contents = {"cnna.bit": bit(made), "cnna.hwh": hwh(made).encode()}
    contents[MANIFEST] = manifest(config.name, args.variant, contents, vivado=None).encode()
    paths = [args.folder / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_bytes(path, content)
    print(f"{', '.join(map(str, paths))}: accelerator {config.name}, variant {args.variant}, for the virtual board")
    return Outcome({"config": config.name, "variant": args.variant, "written": [str(path) for path in paths]})


def _ip(args: argparse.Namespace, config: Config) -> Outcome:
    """Writes an IP repository for Vivado, with what a project needs around the IP."""
    from cnna.cli.rtl import generated
    from cnna.sim.board import own_page, own_picture, own_project
    from cnna.sim.board.design import design
    from cnna.sim.board.ipxact import SETTINGS, component, settings
    from cnna.spec.boards import board_of

    made = design(config, args.variant)
    check_folder(args.folder)
    name, verilog = next(iter(generated(made.config, None, args.cache).items()))
    texts = {
        "component.xml": component(made.config, name),
        SETTINGS: settings(made.config),
        own_page.PAGE: own_page.page(made, args.config, name),
        own_page.PICTURE: own_picture.picture(made),
        own_project.BESIDE: own_project.beside(made),
        own_project.CLOCKING: own_project.clocks(made),
        own_project.CONSTRAINTS: own_project.constraints(),
        own_project.OUT_OF_CONTEXT: own_project.out_of_context(made.config),
        own_project.PACKAGE: own_project.package(name, board_of(made.config).part),
    }
    make_folder(args.folder)
    write_bytes(args.folder / name, verilog)
    for file, text in texts.items():
        write_text(args.folder / file, text)
    paths = [args.folder / file for file in (name, *texts)]
    print(
        f"{', '.join(map(str, paths))}: accelerator {config.name}, variant {args.variant}, for Vivado; begin with {own_page.PAGE}"
    )
    return Outcome({"config": config.name, "variant": args.variant, "written": [str(path) for path in paths]})


def _firmware(args: argparse.Namespace, config: Config) -> Outcome:
    """Writes what Linux needs to load the image of variant `ps` without pynq."""
    from cnna.sim.board import firmware
    from cnna.sim.board.design import design

    texts = {firmware.OVERLAY: firmware.overlay(design(config)), firmware.SHELL: firmware.shell(), firmware.IMAGE: firmware.image()}
    make_folder(args.folder)
    for file, text in texts.items():
        write_text(args.folder / file, text)
    paths = [args.folder / file for file in texts]
    print(f"{', '.join(map(str, paths))}: accelerator {config.name}, variant ps, for Linux without pynq (docs/other-boards.md)")
    return Outcome({"config": config.name, "written": [str(path) for path in paths]})


def _serve(args: argparse.Namespace, config: Config) -> Outcome:
    """Serves until SIGINT or SIGTERM, then ends in order, with code 0."""
    if not MEMORY_MIB[0] <= args.memory <= MEMORY_MIB[1]:
        raise UserError(f"--memory {args.memory}: must be within {MEMORY_MIB[0]}..{MEMORY_MIB[1]} MiB")
    if not 0 <= args.port < 1 << 16:
        raise UserError(f"--port {args.port}: must be within 0..65535")
    _check_address(args.address, args.insecure)
    if args.cache:
        from cnna.sim.rtl.cache import private

        private(args.cache)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would print a long message of its own if a port is taken
    try:
        from cnna.sim.board.server import serve
    except ImportError as missing:
        raise ToolError(f"the virtual board needs the package {missing.name}: {install('tools', 'board')}") from None
    from cnna.sim.board.board import open_board

    with until_signal():
        board = open_board(config, args.variant, args.backend, args.memory << 20, args.cache)
        try:
            serve(board, args.address, args.port)
        finally:
            board.close()
    return Outcome({"config": config.name, "variant": args.variant, "backend": args.backend})


def _check_address(address: str, insecure: bool) -> None:
    """UserError: other machines can reach the address and `--insecure` is missing. With it, a warning is printed."""
    if is_loopback(address):
        return
    why = "PYNQ.remote has neither passwords nor encryption: whoever reaches it can use the board, and fill its memory"
    if not insecure:
        raise UserError(f"--address {address}: {why}; leave it out, or give --insecure too on a network that you trust")
    print(f"cnna: warning: --address {address}: {why}", file=sys.stderr, flush=True)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address; a name is looked up."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(address, None)} if address else set()
    except (OSError, UnicodeError):  # there is no such name: the server reports that
        return False
    return bool(found) and all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found)
