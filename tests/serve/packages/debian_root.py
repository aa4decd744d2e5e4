"""A small Debian, made by debootstrap once and kept: what packages are installed in, and images are built from."""

import shutil
import subprocess
from pathlib import Path

from cnna.sim.rtl.cache import private
from cnna.spec.files import default_cache

from ...rigs.kept import READY, kept

INCLUDED = "python3,python3-venv,systemd,systemd-sysv,ca-certificates"
SUITE, MIRROR, SECONDS = "bookworm", "http://deb.debian.org/debian", 1800
MISSING = "apt install debootstrap systemd-container"


def debian() -> Path:
    """Its folder, which nobody changes."""
    assert shutil.which("debootstrap"), f"debootstrap is missing: {MISSING}"

    def make(work: Path) -> None:
        line = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", SUITE, str(work / READY), MIRROR]
        subprocess.run(line, check=True, timeout=SECONDS, capture_output=True)

    return kept(private(default_cache() / "debian"), [SUITE, INCLUDED], make)


def copy_of(root: Path, place: Path) -> Path:
    """A root that a test may change."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(place)], check=True, timeout=SECONDS)
    return place
