"""`cnna serve` with a certificate and a token: who has both is answered, everybody else gets one line, and the server stays."""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from cnna.cli.main import main
from cnna.host.selftest.selftest_network import path_of
from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.grpc.service import SERVICE

SECONDS = 600  # no expectation: it ends a test that would otherwise hang
TOKEN = "a-token-of-the-tests"


@dataclass(frozen=True)
class Files:
    """What `cnna serve` is given: PEM files, and a file with the token."""

    authority: Path
    certificate: Path
    key: Path
    other_key: Path
    locked_key: Path
    rubbish: Path
    token: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A certificate for localhost, by an authority that nobody else knows."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    one, other = authority.issue_cert("localhost", "127.0.0.1"), authority.issue_cert("localhost")
    found = Files(*(folder / name for name in ("ca.pem", "one.pem", "one.key", "other.key", "locked.key", "rubbish", "token")))
    authority.cert_pem.write_to_path(found.authority)
    one.cert_chain_pems[0].write_to_path(found.certificate)
    one.private_key_pem.write_to_path(found.key)
    other.private_key_pem.write_to_path(found.other_key)
    key = serialization.load_pem_private_key(one.private_key_pem.bytes(), None)
    lock = serialization.BestAvailableEncryption(b"secret")
    found.locked_key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, lock)
    )
    found.rubbish.write_text("rubbish\n")
    found.token.write_text(TOKEN + "\n")
    return found


def test_token_and_certificate_are_needed_over_both_protocols(files: Files) -> None:
    """Whoever is on the network could read what is sent, or use the server without the token; or a stranger could end it."""
    line = [sys.executable, "-m", "cnna", "serve", str(path_of("tiny")), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    line += ["--tls-certificate", str(files.certificate), "--tls-key", str(files.key), "--token-file", str(files.token)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert "https://127.0.0.1" in said
            assert "grpcs://127.0.0.1" in said
            http_port, grpc_port = (int(word.rpartition(":")[2]) for word in said.split() if "://" in word)
            for port in (http_port, grpc_port):
                is_closed_for_strangers(port)
            over_http(http_port, files)
            over_grpc(grpc_port, files)
            over_http(http_port, files)
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert all(json.loads(row)["level"] == "info" for row in log.splitlines())  # no traceback, and no token
    assert TOKEN not in log


def is_closed_for_strangers(port: int) -> None:
    """Neither plain text nor a client that trusts others gets an answer."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        with suppress(ConnectionError):
            assert b"HTTP" not in connection.recv(1000)
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")


def over_http(port: int, files: Files) -> None:
    """Health is open; metadata needs the token."""
    context = ssl.create_default_context(cafile=files.authority)
    with closing(http.client.HTTPSConnection("localhost", port, timeout=SECONDS, context=context)) as connection:
        for path, token, code in (
            ("/v2/health/ready", None, 200),
            ("/v2/models/tiny", TOKEN, 200),
            ("/v2/models/tiny", None, 401),
            ("/v2/models/tiny", TOKEN + "x", 401),
        ):
            connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
            assert answer.status == code
            assert code == 200 or body["error"].startswith("this needs the header")


def over_grpc(port: int, files: Files) -> None:
    """The same, and an insecure channel reaches nothing."""
    trusted = grpc.ssl_channel_credentials(files.authority.read_bytes())
    metadata = f"/{SERVICE}/ModelMetadata"
    with grpc.secure_channel(f"localhost:{port}", trusted) as channel:
        call = channel.unary_unary(metadata, pb.ModelRequest.SerializeToString, pb.ModelMetadataResponse.FromString)
        shown = [("authorization", f"Bearer {TOKEN}")]
        assert call(pb.ModelRequest(name="tiny"), timeout=SECONDS, metadata=shown).name == "tiny"
        for wrong in (None, [("authorization", TOKEN)]):
            with pytest.raises(grpc.RpcError) as refused:
                call(pb.ModelRequest(name="tiny"), timeout=SECONDS, metadata=wrong)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert refused.value.details().startswith("this needs the metadata")
    with grpc.insecure_channel(f"localhost:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(metadata)(b"", timeout=SECONDS)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("rubbish", "key", "must be a certificate and its key, both PEM"),
        ("certificate", "rubbish", "must be a certificate and its key, both PEM"),
        ("certificate", "other_key", "is not the key of the certificate"),
        ("certificate", "locked_key", "is locked with a password; give a key without one"),
        ("certificate", "nothing", "no such file"),
        ("folder", "key", "is a directory"),
    ],
)
def test_files_that_cannot_be_used_are_one_line(
    files: Files, certificate: str, key: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server would ask for a password that nobody can type, or end with an error of the library that names no file."""
    given = {**vars(files), "nothing": tmp_path / "nothing.pem", "folder": tmp_path}
    line = ["serve", str(path_of("tiny")), "--http", "127.0.0.1:0", "--grpc", "none"]
    assert main([*line, "--tls-certificate", str(given[certificate]), "--tls-key", str(given[key])]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
