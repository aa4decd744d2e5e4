"""The protocol is the contract: the unmodified tritonclient, in an environment of its own, against `cnna serve`."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import trustme
from numpy.typing import NDArray

SCRIPT, SAFE = (Path(__file__).with_name(name) for name in ("triton_client.py", "triton_tls_client.py"))
SECONDS = 600  # no expectation: it ends a test that would otherwise hang


@pytest.fixture(scope="module")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with tritonclient, whose grpcio and numpy are others than ours."""
    folder = tmp_path_factory.mktemp("client")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "tritonclient[http,grpc]>=2.50"], check=True, timeout=SECONDS)
    return folder / "bin" / "python"


@pytest.mark.slow  # it installs from the package index: a minute, and the network
def test_tritonclient(
    client_python: Path, published: Path, images: NDArray[np.float32], answers: NDArray[np.float32], tmp_path: Path
) -> None:
    """Clients that exist would not work with the server, whatever our own tests say."""
    assert said(client_python, SCRIPT, published, images, answers, tmp_path) == "all right\n"


@pytest.mark.slow  # as above
def test_tritonclient_with_a_certificate_and_a_token(
    client_python: Path, published: Path, images: NDArray[np.float32], answers: NDArray[np.float32], tmp_path: Path
) -> None:
    """Clients that exist would not reach a server that is safe, or would reach it without the token."""
    authority, token = trustme.CA(), "a-token-of-the-tests"
    one = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    one.cert_chain_pems[0].write_to_path(tmp_path / "one.pem")
    one.private_key_pem.write_to_path(tmp_path / "one.key")
    (tmp_path / "token").write_text(token)
    safe = ["--tls-certificate", tmp_path / "one.pem", "--tls-key", tmp_path / "one.key", "--token-file", tmp_path / "token"]
    data = images, answers, tmp_path
    assert said(client_python, SAFE, published, *data, options=safe, more=(tmp_path / "ca.pem", token)) == "all right\n"


def said(
    python: Path,
    script: Path,
    repository: Path,
    images: NDArray[np.float32],
    answers: NDArray[np.float32],
    folder: Path,
    options: Sequence[object] = (),
    more: Sequence[object] = (),
) -> str:
    """What a client's script says of `cnna serve`, which must end in order afterwards."""
    np.savez(folder / "samples.npz", x=images, y=answers, input="image", output="logits")
    line = [sys.executable, "-m", "cnna", "serve", repository, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *options]
    with subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            addresses = [word.partition("://")[2] for word in server.stdout.readline().split() if "://" in word]
            call = [python, script, *addresses, "digits", folder / "samples.npz", *more]
            done = subprocess.run(list(map(str, call)), capture_output=True, text=True, timeout=SECONDS, check=False)
        finally:
            server.terminate()
    assert server.returncode == 0
    return done.stdout or done.stderr
