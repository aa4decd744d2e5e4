"""The Debian package of a repository: what is in it, and that its service runs in a system that has booted."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna import InferenceSession
from cnna.cli.main import main
from cnna.serve.boards.boards_file import boards_of
from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.service import make_service

from . import booted, debian_root

SECONDS = 1800
CHECK = """\
[Unit]
After=cnna.service
[Service]
Type=oneshot
TimeoutStartSec=900
ExecStart=/bin/sh -c 'python3 /booted.py > /result.json 2> /result.err'
ExecStopPost=/bin/systemctl poweroff --no-block
"""


def wheel(folder: Path, name: str, tags: str = "py3-none-any") -> Path:
    """A wheel without code."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-{tags}.whl"
    with zipfile.ZipFile(path, "w") as members:
        members.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\nLicense-Expression: MIT\n")
    return path


def unpacked(package: Path, folder: Path) -> Path:
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(folder)], check=True, timeout=60)
    return folder


def test_the_package_has_all_that_a_board_needs(published: Path, tmp_path: Path) -> None:
    """A board has no network: what is missing from the package is missing."""
    for name, tags in (("cnna", "cp310-abi3-linux_aarch64"), ("pyyaml", "py3-none-any")):
        wheel(tmp_path / "wheels", name, tags)
    for name in ("cnna.bit", "cnna.hwh", "manifest.json"):
        (tmp_path / name).write_text(name)
    shutil.copytree(published, tmp_path / "models")
    shutil.copytree(tmp_path / "models" / "digits" / "1", tmp_path / "models" / "digits" / "2")
    made = make_service(
        contents_of(tmp_path / "models"),
        tmp_path / "out",
        tmp_path / "wheels",
        [f"here=pynq,overlay={tmp_path / 'cnna.bit'}", "there=paced,mhz=200"],
    )
    assert made.architecture == "arm64"
    assert made.models == ("digits/2",)
    root = unpacked(made.package, tmp_path / "root")
    assert {path.name for path in (root / "opt/cnna/wheels").iterdir()} == {path.name for path in (tmp_path / "wheels").iterdir()}
    assert [path.name for path in (root / "var/lib/cnna/models/digits").iterdir() if path.is_dir()] == ["2"]
    here, there = boards_of(root / "etc/cnna/boards.yaml")
    assert (here.kind, here.overlay) == ("pynq", "/usr/lib/cnna/overlays/here/cnna.bit")
    assert (root / here.overlay[1:]).with_suffix(".hwh").read_text() == "cnna.hwh"
    assert (there.kind, there.mhz) == ("paced", 200)
    unit = (root / "lib/systemd/system/cnna.service").read_text()
    assert "CAP_SYS_RAWIO" in unit  # registers and memory are mapped
    assert "DynamicUser" not in unit


def test_a_service_without_a_board_of_its_own_has_no_rights(published: Path, tmp_path: Path) -> None:
    """A fault of the server would be one of the whole computer."""
    wheel(tmp_path / "wheels", "cnna")
    made = make_service(
        contents_of(published), tmp_path / "out", tmp_path / "wheels", ["far=pynq:10.0.0.2,overlay=" + str(_overlay(tmp_path))]
    )
    assert made.architecture == "all"
    unit = (unpacked(made.package, tmp_path / "root") / "lib/systemd/system/cnna.service").read_text()
    assert "DynamicUser=yes\n" in unit
    assert "CapabilityBoundingSet=\n" in unit


def _overlay(folder: Path) -> Path:
    for name in ("cnna.bit", "cnna.hwh", "manifest.json"):
        (folder / name).touch()
    return folder / "cnna.bit"


def test_what_does_not_fit_is_one_line(published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A package that cannot be installed would be found out on the board."""
    for name, tags in (("cnna", "cp310-abi3-linux_aarch64"), ("numpy", "cp311-cp311-manylinux_2_28_x86_64")):
        wheel(tmp_path / "mixed", name, tags)
    wheel(tmp_path / "good", "cnna")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "cnna-1-py3-none-any.whl").write_bytes(b"no zip")
    for words, said in (
        (["--wheels", "none"], "must hold one wheel of cnna"),
        ([], "--wheels: name the folder"),
        (["--wheels", "mixed"], "but numpy-1.0-cp311-cp311-manylinux_2_28_x86_64.whl for x86_64"),
        (["--wheels", "broken"], "no wheel"),
        (["--wheels", "good", "--board", "a=pynq,overlay=none.bit"], "none.bit is missing"),
        (["--wheels", "good", "--board", "a=toaster"], "there is no kind 'toaster'"),
        (["--wheels", "good", "--compiler", "g++"], "--compiler: is for --as library alone"),
    ):
        given = [str(tmp_path / word) if word in ("none", "mixed", "good", "broken") else word for word in words]
        assert main(["pack", str(published), "--as", "service", "-o", str(tmp_path / "out"), *given]) == 2
        line = capsys.readouterr().err
        assert said in line
        assert "Traceback" not in line


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cnna and what its server needs, as a user gets them by pip."""
    folder = tmp_path_factory.mktemp("wheels")
    line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "-w", str(folder), f"{root}[serve]"]
    subprocess.run(line, check=True, timeout=SECONDS)
    return folder


@pytest.mark.slow
def test_its_service_starts_restarts_and_ends(published: Path, wheels: Path, tmp_path: Path) -> None:
    """The unit would be refused, find no Python or no model, lack a right, stay dead after a crash, or log to nowhere."""
    assert shutil.which("systemd-nspawn"), f"systemd-nspawn is missing: {debian_root.MISSING}"
    made = make_service(contents_of(published), tmp_path / "out", wheels)
    root = debian_root.copy_of(debian_root.debian(), tmp_path / "root")
    shutil.copy(made.package, root / "tmp" / "service.deb")
    # apt would ask the network; what the package depends on is there
    subprocess.run(["chroot", str(root), "dpkg", "--install", "/tmp/service.deb"], check=True, timeout=SECONDS)
    shutil.copy(booted.__file__, root / "booted.py")
    (root / "etc/systemd/system/check.service").write_text(CHECK)
    (root / "etc/systemd/system/multi-user.target.wants/check.service").symlink_to("../check.service")
    line = ["systemd-nspawn", "--quiet", "--boot", "--private-network", "--register=no", "--keep-unit", "-D", str(root)]
    subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=SECONDS)
    assert not (root / "result.err").read_text()
    found: dict[str, Any] = json.loads((root / "result.json").read_text())
    with InferenceSession(published / "digits" / "1" / "tiny-b1.cnna", "reference") as session:
        (wanted,) = session.run(None, {"image": np.zeros((1, 1, 16, 16), np.float32)})
    for answer in ("logits", "logits again"):
        np.testing.assert_array_equal(np.float32(found[answer]), wanted.ravel())
    assert found["ready"]
    assert found["ready again"]
    assert int(found["restarts"]) == 1
    assert int(found["user"]) > 0
    assert float(found["security"].split(":")[1].split()[0]) < 3  # 10 is a service without any bounds
    assert found["result"] == "success"
    assert "version ready" in found["journal"]
    subprocess.run(["chroot", str(root), "dpkg", "--remove", "cnna-service"], check=True, timeout=SECONDS)
    assert not (root / "opt" / "cnna").exists()
