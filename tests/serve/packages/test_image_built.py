"""The image of a repository, built by buildah on a small Debian, and served as nobody on a root that is read-only."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna import InferenceSession
from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.image import INSIDE, make_image

from . import debian_root

BASE, SECONDS = "localhost/cnna-test-base", 1800
NOBODY = 65532
pytestmark = pytest.mark.slow


def run(*words: str | Path) -> str:
    """What a program prints. CalledProcessError: it failed."""
    return subprocess.run(
        [str(word) for word in words], check=True, timeout=SECONDS, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of docs/cluster.md."""
    if missing := [name for name in ("buildah", "debootstrap") if not shutil.which(name)]:
        pytest.skip(f"{', '.join(missing)} is missing: apt install buildah debootstrap")
    if os.geteuid():
        pytest.skip("debootstrap needs root")
    folder = tmp_path_factory.mktemp("wheels")
    given = ["--quiet", "--no-build-isolation", "--constraint", root / "constraints.txt"]
    run(sys.executable, "-m", "pip", "wheel", *map(str, given), "-w", folder, f"{root}[serve]")
    return folder


@pytest.fixture(scope="module")
def base(wheels: Path) -> Iterator[str]:
    """A Debian with Python, as an image."""
    made = run("buildah", "from", "scratch")
    run("buildah", "add", "--quiet", made, debian_root.debian(), "/")
    run("buildah", "commit", "--quiet", "--rm", made, BASE)
    yield BASE
    run("buildah", "rmi", "--force", BASE)


@contextmanager
def mounted(image: str, models: Path | None) -> Iterator[Path]:
    """The root of an image, read-only but for /tmp; models: what stands at /mnt/models."""
    made = run("buildah", "from", image)
    root = Path(run("buildah", "mount", made))
    binds = [(root, root, "bind"), *([(models, root / INSIDE[1:], "bind")] if models else [])]
    done: list[Path] = []
    try:
        (root / INSIDE[1:]).mkdir(parents=True, exist_ok=True)
        for source, place, _ in binds:
            run("mount", "--bind", source, place)
            done.append(place)
            run("mount", "-o", "remount,bind,ro", place)
        run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", root / "tmp")
        done.append(root / "tmp")
        yield root
    finally:
        for place in reversed(done):
            run("umount", place)
        run("buildah", "rm", made)


def answer(process: "subprocess.Popen[str]") -> Any:
    """Logits of an empty picture, as soon as the server is ready."""
    url, until = "http://127.0.0.1:18000/v2", time.monotonic() + SECONDS
    image = {"name": "image", "datatype": "FP32", "shape": [1, 1, 16, 16], "data": [0.0] * 256}
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health/ready", timeout=10):
                pass
            request = urllib.request.Request(f"{url}/models/digits/infer", json.dumps({"inputs": [image]}).encode())
            with urllib.request.urlopen(request, timeout=60) as found:
                return json.load(found)["outputs"][0]["data"]
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server did not become ready")


@pytest.mark.parametrize("independent", [False, True], ids=["monolithic", "independent"])
def test_it_is_built_and_answers_as_nobody(independent: bool, published: Path, wheels: Path, base: str, tmp_path: Path) -> None:
    """The build would stop; or the server want a file that is read-only, or a right that nobody has."""
    context, tag = tmp_path / "context", f"localhost/cnna-test:{'independent' if independent else 'monolithic'}"
    make_image(contents_of(published), context, wheels, base=base, tag=tag, independent=independent)
    run("buildah", "build", "--isolation", "chroot", "--pull-never", "--quiet", "-t", tag, context)
    config = json.loads(run("buildah", "inspect", "--type", "image", tag))["OCIv1"]["config"]
    assert config["User"] == f"{NOBODY}:{NOBODY}"
    options = ["--http", "127.0.0.1:18000", "--grpc", "127.0.0.1:18001"]
    volume = shutil.copytree(published, tmp_path / "volume")
    volume.chmod(0o755)  # pytest's folders are their owner's alone, and the server is nobody
    with mounted(tag, volume if independent else None) as root:
        line = ["chroot", f"--userspec={config['User']}", str(root), *config["Entrypoint"], *options]
        environment = dict(one.split("=", 1) for one in config["Env"])
        with subprocess.Popen(line, env=environment, text=True) as process:
            try:
                found = answer(process)
            finally:
                process.terminate()
            assert process.wait(60) == 0
    run("buildah", "rmi", "--force", tag)
    with InferenceSession(published / "digits" / "1" / "tiny-b1.cnna", "reference") as session:
        (wanted,) = session.run(None, {"image": np.zeros((1, 1, 16, 16), np.float32)})
    np.testing.assert_array_equal(np.float32(found), wanted.ravel())
