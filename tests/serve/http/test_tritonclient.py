"""The protocol is the contract: the unmodified tritonclient, in an environment of its own, against `cnna serve`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SCRIPT = Path(__file__).with_name("triton_client.py")
SECONDS = 600  # no expectation: it ends a test that would otherwise hang


@pytest.fixture(scope="module")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with tritonclient, whose grpcio and numpy are others than ours."""
    folder = tmp_path_factory.mktemp("client")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "tritonclient[http,grpc]>=2.50"], check=True, timeout=SECONDS)
    return folder / "bin" / "python"


@pytest.mark.slow  # it installs from the package index: a minute, and the network
def test_tritonclient(
    client_python: Path, published: Path, images: NDArray[np.float32], answers: NDArray[np.float32], tmp_path: Path
) -> None:
    """Clients that exist would not work with the server, whatever our own tests say."""
    np.savez(tmp_path / "samples.npz", x=images, y=answers, input="image", output="logits")
    line = [sys.executable, "-m", "cnna", "serve", published, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            addresses = [word.partition("://")[2] for word in server.stdout.readline().split() if "://" in word]
            call = [client_python, SCRIPT, *addresses, "digits", tmp_path / "samples.npz"]
            done = subprocess.run(call, capture_output=True, text=True, timeout=SECONDS, check=False)
        finally:
            server.terminate()
    assert done.stdout == "all right\n", done.stdout + done.stderr
    assert server.returncode == 0
