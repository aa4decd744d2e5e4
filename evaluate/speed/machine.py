"""What figures depend on besides the model: versions, the commit, and this computer."""

import hashlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("cnna", "mlcommons-loadgen", "numpy", "onnxruntime")
CPUINFO = Path("/proc/cpuinfo")
SECONDS = 10  # that git may take


def machine() -> dict[str, Any]:
    """versions: by package. commit: of the clone that this runs from, with a + if files have changed; None: it is no clone."""
    versions = {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}
    return {"versions": versions, "commit": commit(Path(__file__).parent), "processor": processor()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit(folder: Path) -> str | None:
    """The commit of the clone that the folder is in."""
    try:
        words = ["git", "-C", str(folder)]
        head = subprocess.run(
            [*words, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=SECONDS, check=True
        )
        top = subprocess.run([*words, "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=SECONDS, check=False)
        if top.returncode:
            return None  # a clone of something else, in which cnna is installed
        changed = subprocess.run([*words, "diff", "--quiet", "HEAD"], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + "+" * bool(changed.returncode)


def changes() -> str | None:
    """A digest of what a clone's tracked files have besides its commit; None: nothing, or it is no clone."""
    folder = Path(__file__).parent
    if not (commit(folder) or "").endswith("+"):
        return None
    try:
        found = subprocess.run(["git", "-C", str(folder), "diff", "HEAD"], capture_output=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return hashlib.sha256(found.stdout).hexdigest()


def processor() -> str:
    """This computer's processor, by its name."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
