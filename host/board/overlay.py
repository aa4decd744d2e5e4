"""Checks the files of an overlay: `cnna.bit`, its `.hwh`, which pynq reads, and the manifest that names both as one build."""

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cnna.host.board.board_device import turn_at
from cnna.host.board.turn import Turns
from cnna.spec.errors import DataError, RunError, reason_of
from cnna.spec.files import read_bytes
from cnna.spec.identity import DRIVEN_VLNVS, VIRTUAL

MANIFEST = "manifest.json"
BUSY_SECONDS = 60.0  # as of `InferenceSession`
HEADER_BYTES = 256  # start of a .bit, with Vivado's version, or with VIRTUAL in a virtual image


def open_overlay(path: Path) -> Any:
    """Opens a .bit file as `pynq.Overlay`, once no other process runs a model: loading the image would end its run.

    ToolError: pynq is not installed. DataError: the file, its .hwh or the board is unsuitable. RunError: the accelerator was busy
    for BUSY_SECONDS; the message names who has it.
    """
    # Imported here because `pynq_driver` imports this module, to check the files of overlays that others open.
    from cnna.host.board.pynq_driver import bind

    check_files(path)
    bind()
    import pynq

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No devices found")  # the error below says the same, with a remedy
            with _turn(path, pynq.Device.active_device), _alone():
                return pynq.Overlay(str(path.absolute()))
    except RunError:
        raise
    except Exception as error:  # grpc's errors, OSError, RuntimeError: pynq's parts raise different ones
        raise DataError(f"{path}: pynq cannot load it: {_said(error)}") from None


def _turn(bit: Path, device: Any) -> AbstractContextManager[None]:
    """The turn of the accelerator in an image, for which its models wait too: for a block."""
    base = register_base(bit.with_suffix(".hwh"))
    if base is None:
        return nullcontext()
    return Turns(turn_at(device, base)).mine(f"loading {bit.name}", BUSY_SECONDS)


def register_base(hwh: Path) -> int | None:
    """The bus address of the accelerator's registers, as a .hwh names it; None: it names none, which pynq or `open_board` says."""
    try:
        tree = ElementTree.parse(hwh)
        cells = [module.get("INSTANCE") for module in tree.iter("MODULE") if module.get("VLNV") in DRIVEN_VLNVS]
        found = [window.get("BASEVALUE", "") for window in tree.iter("MEMRANGE") if window.get("INSTANCE") in cells]
        return int(found[0], 0) if found else None
    except (OSError, ElementTree.ParseError, ValueError):
        return None


@contextmanager
def _alone() -> Iterator[None]:
    """Lets the processes of this machine open overlays one after another: pynq keeps what it reads in one file beside itself."""
    import fcntl

    file = -1
    with suppress(OSError):  # another user's lock file: as without a lock
        file = os.open(Path(tempfile.gettempdir()) / "cnna-overlay.lock", os.O_RDONLY | os.O_CREAT, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if file >= 0:
            os.close(file)


def check_loaded(bit: str | os.PathLike[str] | None) -> None:
    """Does `check_files` for the .bit that pynq has loaded. Does nothing if there is none, or if the file no longer exists."""
    path = Path(bit or "")
    if path.suffix == ".bit" and path.exists() and path.with_name(MANIFEST).exists():
        check_files(path)


def check_remembered(bit: str | os.PathLike[str] | None, parameters: Mapping[str, str]) -> None:
    """DataError: pynq's `parameters` of the accelerator are not those in the .hwh beside the loaded .bit.

    pynq remembers what it has read for a .bit with these bytes, and does not read the .hwh again.
    """
    hwh = Path(bit or "").with_suffix(".hwh") if bit else None
    if hwh is None or not hwh.is_file() or not parameters:
        return
    try:
        modules = ElementTree.parse(hwh).iter("MODULE")
        found = next((module for module in modules if module.get("VLNV") in DRIVEN_VLNVS), None)
    except (OSError, ElementTree.ParseError) as error:
        raise DataError(f"{hwh}: not a .hwh file: {reason_of(error)}") from None
    entries = () if found is None else found.iterfind("PARAMETERS/PARAMETER")
    there = _sizes({entry.get("NAME", ""): entry.get("VALUE", "") for entry in entries})
    if there != _sizes(parameters):
        raise DataError(f"{hwh}: pynq goes by an older one that it read with this .bit: remove {_remembered()}, then load it again")


def _sizes(parameters: Mapping[str, str]) -> dict[str, str]:
    """The accelerator's own parameters; pynq adds those of its register port."""
    return {name.upper(): value for name, value in parameters.items() if name.upper().startswith("C_")}


def _remembered() -> Path:
    """The file in which pynq keeps what it read last."""
    import pynq.pl_server

    return Path(pynq.pl_server.__file__).with_name("_current_metadata.pkl")


def _said(error: Exception) -> str:
    said = reason_of(error)
    if said in ("No Devices Found", "Failed to connect to remote device"):
        said += "; PYNQ_REMOTE_DEVICES=ADDRESS says where a board is, and cnna board serve makes a virtual one"
    return said


def manifest(config: str, variant: str, files: dict[str, bytes], **more: Any) -> str:
    """The text of a manifest for these files. files: content by name."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return json.dumps({"config": config, "variant": variant, **more, **digests}, indent=1) + "\n"


def check_files(path: Path) -> None:
    """DataError: the .bit or its .hwh is missing, or is not the one that the manifest beside them names."""
    found = {path.name: read_bytes(path)}  # first: a folder such as `.` has no name to change
    beside = path.with_suffix(".hwh")
    found[beside.name] = read_bytes(beside)
    beside = path.with_name(MANIFEST)
    if not beside.exists():
        return
    try:
        named = json.loads(read_bytes(beside))
        wanted = {name: named[name] for name in found}
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{beside}: not a manifest of {' and '.join(found)}") from None
    for name, digest in wanted.items():
        if hashlib.sha256(found[name]).hexdigest() != digest:
            raise DataError(
                f"{path.with_name(name)}: not the file that {beside.name} names: it is of another build; copy all three together"
            )


def is_virtual(path: Path) -> bool:
    """Whether the .bit is a virtual image of `cnna board image`, as its header says. Its board does not run in real time."""
    return VIRTUAL.encode() in read_bytes(path)[:HEADER_BYTES]
