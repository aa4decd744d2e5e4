"""A package of the kind `service`: a Debian package with wheels, overlay, models, settings and a systemd unit.

`apt install ./cnna-service_*.deb` on a board makes the service's own Python environment from the wheels, without the network, and
starts it. Models are at /var/lib/cnna/models, where `cnna publish` may add versions; settings in /etc are kept by upgrades.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.packages.boards_text import boards_of, boards_text, check_overlays, overlays_into
from cnna.serve.packages.contents import Contents, copy_models, filling
from cnna.serve.packages.wheels import ANY, DEBIAN, Wheel, processor_of, wheels_of
from cnna.spec.errors import ToolError
from cnna.spec.files import write_text

NAME = "cnna-service"
OWN = Path(__file__).parent / "service_files"
MODELS, OVERLAYS, WHEELS = "var/lib/cnna/models", "usr/lib/cnna/overlays", "opt/cnna/wheels"
SETTINGS = ("etc/cnna/boards.yaml", "etc/default/cnna")
SCRIPTS = ("postinst", "prerm", "postrm")
BOARD = "emulator=emulator"
OPTIONS = """\
# More options of cnna serve. An address that other machines can reach needs a token and TLS (docs/serving/reference.md, Safety):
# CNNA_OPTIONS="--http 0.0.0.0:8000 --token-file /etc/cnna/token --tls-certificate /etc/cnna/tls.pem --tls-key /etc/cnna/tls.key"
CNNA_OPTIONS=""
"""


@dataclass(frozen=True)
class Service:
    """What was made. architecture: Debian's name."""

    package: Path
    architecture: str
    models: tuple[str, ...]
    package_bytes: int


def make_service(contents: Contents, output: Path, wheels: Path | None, boards: Sequence[str] = ()) -> Service:
    """Builds it into a folder that does not exist, or is empty. boards: as of `--board`.

    UserError: an argument does not fit. ToolError: dpkg-deb is missing or fails.
    """
    found, specs = wheels_of(wheels), boards_of(boards, BOARD)
    architecture = DEBIAN.get(processor_of(found), ANY)
    if shutil.which("dpkg-deb") is None:
        raise ToolError("dpkg-deb is not there, which --as service needs: apt install dpkg")
    check_overlays(specs)
    with filling(output, contents), tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        _furnish(root, contents, found, specs)
        _control(root, architecture)
        _readable(root)
        package = output / f"{NAME}_{version('cnna')}_{architecture}.deb"
        line = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(package)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError(f"dpkg-deb fails with code {done.returncode}: {done.stderr.strip()[:300]}")
    return Service(package, architecture, tuple(contents.names()), package.stat().st_size)


def _furnish(root: Path, contents: Contents, wheels: Sequence[Wheel], specs: Sequence[BoardSpec]) -> None:
    """The files that are installed."""
    copy_models(contents, root / MODELS)
    (root / WHEELS).mkdir(parents=True)
    for wheel in wheels:
        shutil.copy(wheel.path, root / WHEELS)
    placed = overlays_into(specs, root / OVERLAYS, f"/{OVERLAYS}")
    for name, text in zip(SETTINGS, (boards_text(placed), OPTIONS), strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(root / name, text)
    local = any(spec.kind == "pynq" and not spec.address for spec in specs)
    unit = root / "lib/systemd/system/cnna.service"
    unit.parent.mkdir(parents=True)
    rights = (OWN / ("own.board" if local else "own.unprivileged")).read_text()
    write_text(unit, (OWN / "cnna.service").read_text().replace("@OWN@", rights))


def _control(root: Path, architecture: str) -> None:
    """What dpkg reads."""
    folder = root / "DEBIAN"
    folder.mkdir()
    kilobytes = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    fields = {
        "Package": NAME,
        "Version": version("cnna"),
        "Architecture": architecture,
        "Maintainer": "cnna contributors <cnna@localhost>",
        "Installed-Size": str(kilobytes),
        "Depends": "python3 (>= 3.10), python3-venv",
        "Section": "science",
        "Priority": "optional",
        "Description": "cnna's serving engine with models, as a systemd service",
    }
    write_text(folder / "control", "".join(f"{key}: {value}\n" for key, value in fields.items()))
    write_text(folder / "conffiles", "".join(f"/{name}\n" for name in SETTINGS))
    for name in SCRIPTS:
        shutil.copyfile(OWN / name, folder / name)
        os.chmod(folder / name, 0o755)


def _readable(root: Path) -> None:
    """Files of a user with a strict umask are for all on the board; scripts stay programs."""
    for path in (root, *root.rglob("*")):
        os.chmod(path, 0o755 if path.is_dir() or (path.parent.name == "DEBIAN" and path.name in SCRIPTS) else 0o644)
