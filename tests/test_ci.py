"""What CI and the dev container install: one script, which asks for everything that a bare machine lacks."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGES = ".ci/packages"


def test_ci_and_the_dev_container_are_filled_by_one_script(root: Path) -> None:
    """A program that a new test needs would be in one of the two alone."""
    container = json.loads((root / ".devcontainer" / "devcontainer.json").read_text())
    assert container["onCreateCommand"] == PACKAGES
    assert PACKAGES in (root / ".ci" / "run").read_text().splitlines()
    assert "apt-get" not in (root / ".ci" / "run").read_text()
    (target,) = re.findall(r"^make (\S+)$", container["postCreateCommand"])
    assert f"READY = {target}\n" in (root / "Makefile").read_text()


def test_a_bare_machine_gets_what_the_readme_asks_for(root: Path, tmp_path: Path) -> None:
    """A contributor's container would lack a program that the README's own line installs."""
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    for name, text in (("apt-get", 'echo "apt-get $*"'), ("sudo", 'exec "$@"')):
        (tmp_path / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (tmp_path / name).chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    environment = {**os.environ, "PATH": str(tmp_path)}
    said = subprocess.run([bash, root / PACKAGES], env=environment, capture_output=True, text=True, check=True).stdout
    (installed,) = re.findall(r"^apt-get install -qy (.*)$", said, re.M)
    (asked,) = re.findall(r"`apt install ([^`]*)`", (root / "README.md").read_text())
    assert set(asked.split()) <= set(installed.split())
    assert {"chromium", "qemu-user", "g++-aarch64-linux-gnu"} <= set(installed.split())
