"""The Debian package over its life: installed twice, upgraded, an upgrade that fails, removed, purged. Its wheel has no code."""

import hashlib
import os
import shutil
import subprocess
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.service import make_service

from . import debian_root
from .test_service import unpacked

SECONDS = 900
CALLS = "calls"  # the words of each call of systemctl, which is not there in a chroot
SYSTEMCTL = f'#!/bin/sh\necho "$@" >> /{CALLS}\n'
pytestmark = pytest.mark.slow


def installable(folder: Path) -> Path:
    """A folder with a wheel of cnna that pip installs in no time."""
    folder.mkdir()
    texts = {
        "METADATA": "Metadata-Version: 2.1\nName: cnna\nVersion: 1.0\nProvides-Extra: serve\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members = {f"cnna-1.0.dist-info/{name}": text for name, text in texts.items()}
    digests = {
        name: urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode() for name, text in members.items()
    }
    record = "cnna-1.0.dist-info/RECORD"
    members[record] = "".join(f"{name},sha256={one},{len(members[name])}\n" for name, one in digests.items()) + f"{record},,\n"
    with zipfile.ZipFile(folder / "cnna-1.0-py3-none-any.whl", "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return folder


def later(package: Path, folder: Path, version: str, preinst: str | None = None) -> Path:
    """The package with another version. preinst: a script that dpkg calls before it unpacks it."""
    root = unpacked(package, folder)
    control = root / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("Version: ", f"Version: {version}+", 1))
    if preinst is not None:
        (root / "DEBIAN" / "preinst").write_text(preinst)
        (root / "DEBIAN" / "preinst").chmod(0o755)
    made = folder.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, made], check=True, timeout=SECONDS)
    return made


class System:
    """A Debian in a chroot that believes that systemd runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run" / "systemd" / "system").mkdir(parents=True)
        (root / "usr/bin/systemctl").unlink()
        (root / "usr/bin/systemctl").write_text(SYSTEMCTL)
        (root / "usr/bin/systemctl").chmod(0o755)

    def dpkg(self, *words: str, package: Path | None = None) -> int:
        """dpkg's exit code."""
        (self.root / CALLS).write_text("")
        if package is not None:
            shutil.copy(package, self.root / "tmp" / "service.deb")
            words = (*words, "/tmp/service.deb")
        line = ["chroot", str(self.root), "dpkg", "--force-confold", *words]
        return subprocess.run(line, stdin=subprocess.DEVNULL, check=False, timeout=SECONDS).returncode

    def last(self) -> str:
        """What the last call has done with the service."""
        calls = (self.root / CALLS).read_text().splitlines()
        return next((call.split()[0] for call in reversed(calls) if call.split()[0] in ("start", "restart", "stop", "disable")), "")


def test_it_can_be_installed_twice_upgraded_and_purged(published: Path, tmp_path: Path) -> None:
    """An upgrade would lose settings or models, one that fails would leave no service, and a purge what it has made."""
    if not shutil.which("debootstrap") or os.geteuid():
        pytest.skip(f"debootstrap needs root, and may be missing: {debian_root.MISSING}")
    package = make_service(contents_of(published), tmp_path / "out", installable(tmp_path / "wheels")).package
    system = System(debian_root.copy_of(debian_root.debian(), tmp_path / "root"))
    environment, boards = system.root / "opt/cnna/venv/bin/python", system.root / "etc/cnna/boards.yaml"
    for _ in range(2):
        assert system.dpkg("--install", package=package) == 0
        assert system.last() == "restart"
        assert environment.is_symlink()
    boards.write_text("- {name: mine, kind: emulator}\n")
    own = system.root / "var/lib/cnna/models/own/1"
    shutil.copytree(published / "digits" / "1", own)
    assert system.dpkg("--install", package=later(package, tmp_path / "two", "2")) == 0
    assert system.last() == "restart"
    assert system.dpkg("--install", package=later(package, tmp_path / "three", "3", "#!/bin/sh\nexit 1\n")) != 0
    assert system.last() in ("start", "restart"), "the service is down after an upgrade that failed"
    assert boards.read_text() == "- {name: mine, kind: emulator}\n"
    assert (own / "tiny-b1.cnna").is_file()
    assert system.dpkg("--remove", "cnna-service") == 0
    assert system.last() == "disable"
    assert not (system.root / "opt/cnna").exists()
    assert boards.is_file(), "settings stay until a purge"
    assert system.dpkg("--purge", "cnna-service") == 0
    assert not boards.exists()
    assert (own / "tiny-b1.cnna").is_file(), "models that the package did not bring are the user's"
