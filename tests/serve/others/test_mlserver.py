"""The example for MLServer: its runtime against a stand-in, and, slowly, MLServer itself over HTTP."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from triton_backend import repository as triton

from cnna.serve.protocol.tensors import name_of

from ...waiting import until
from .mlserver_stand_in import InferenceRequest, MLServerError, Wire, installed

with installed():
    from mlserver_runtime.cnna_runtime import CnnaRuntime

Images = NDArray[np.float32]
SECONDS = 600
PARSED = """
import sys
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig
config = text_format.Parse(open(sys.argv[1]).read(), ModelConfig())
(given,), (taken,) = config.input, config.output
print(config.name, config.max_batch_size, given.name, given.data_type, list(given.dims), taken.name, list(taken.dims),
      config.instance_group[0].kind, list(config.version_policy.specific.versions), config.parameters["boards"].string_value)
"""


def run(work: "Coroutine[Any, Any, Any]") -> Any:
    return asyncio.run(asyncio.wait_for(work, SECONDS))


def runtime(uri: Path, **extra: Any) -> Any:
    return CnnaRuntime(SimpleNamespace(name="mine", parameters=SimpleNamespace(uri=str(uri), extra=extra)))


def request(array: NDArray[Any], name: str = "image", **more: Any) -> InferenceRequest:
    kind = SimpleNamespace(value=name_of(array.dtype))
    return InferenceRequest([Wire(name, list(array.shape), kind, array.reshape(-1).tolist())], **more)


def test_the_runtime_answers_as_the_reference(published: Path, images: Images, answers: Images) -> None:
    """Many requests at once, each with its own samples."""

    async def all_of_them() -> None:
        model = runtime(published, boards=["left=emulator"])
        assert await model.load()
        try:
            (given,), (taken,) = model.inputs, model.outputs
            assert (given.name, given.datatype, given.shape) == ("image", "FP32", [-1, *images.shape[1:]])
            assert (taken.name, taken.shape) == ("logits", [-1, *answers.shape[1:]])
            found = await asyncio.gather(*(model.predict(request(images[n : n + 2], id=f"r{n}")) for n in range(20)))
            for number, answer in enumerate(found):
                assert (answer.id, answer.model_name, answer.model_version) == (f"r{number}", "mine", "1")
                (logits,) = answer.outputs
                assert np.array_equal(np.array(logits.data, np.float32).reshape(logits.shape), answers[number : number + 2])
        finally:
            await model.unload()

    run(all_of_them())


def test_mistakes_have_their_status(published: Path, images: Images) -> None:
    """MLServer would answer 500 to what a client has done wrong."""

    async def all_of_them() -> None:
        model = runtime(published)
        await model.load()
        try:
            broken = request(images[:1])
            broken.inputs[0].shape = [1, 1, 16, 17]
            wanted = request(images[:1], outputs=[SimpleNamespace(name="none")])
            for one, word in ((broken, r"FP32 \[1, 1, 16, 17\]"), (request(images[:1], "x"), "image"), (wanted, "none")):
                with pytest.raises(MLServerError, match=word) as refused:
                    await model.predict(one)
                assert refused.value.status_code == 400
        finally:
            await model.unload()
        with pytest.raises(MLServerError, match="closed") as refused:
            await model.predict(request(images[:1]))
        assert refused.value.status_code == 503

    run(all_of_them())


@pytest.mark.parametrize(("more", "word"), [({"boards": ["a=b"]}, "no kind 'b'"), ({"model": "other"}, "no model 'other'")])
def test_what_cannot_be_served_says_why(published: Path, more: dict[str, Any], word: str) -> None:
    """MLServer's log would have a traceback alone."""
    with pytest.raises(MLServerError, match=word) as refused:
        run(runtime(published, **more).load())
    assert refused.value.status_code == 422


@pytest.fixture(scope="module")
def python(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with MLServer and cnna, as the example's requirements say."""
    folder = tmp_path_factory.mktemp("mlserver")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", root / "examples" / "mlserver_runtime" / "requirements.txt"], check=True, timeout=SECONDS)
    subprocess.run([*install, "--editable", root], check=True, timeout=SECONDS)
    return python


@pytest.mark.slow  # it installs MLServer from the package index: two minutes, and the network
def test_mlserver_itself(root: Path, python: Path, published: Path, images: Images, answers: Images, tmp_path: Path) -> None:
    """Names or types that our stand-in takes might not be MLServer's."""
    folder, ports = tmp_path / "runtime", [free() for _ in range(3)]
    shutil.copytree(root / "examples" / "mlserver_runtime", folder, ignore=shutil.ignore_patterns("__pycache__"))
    settings = json.loads((folder / "model-settings.json").read_text())
    settings["parameters"]["uri"] = str(published / "digits" / "1" / "tiny-b4.cnna")
    (folder / "model-settings.json").write_text(json.dumps(settings))
    more = dict(zip(("http_port", "grpc_port", "metrics_port"), ports, strict=True))
    (folder / "settings.json").write_text(
        json.dumps({**json.loads((folder / "settings.json").read_text()), "host": "127.0.0.1", **more})
    )
    where = f"http://127.0.0.1:{ports[0]}/v2/models/digits"
    with subprocess.Popen([python.with_name("mlserver"), "start", folder], cwd=tmp_path) as server:
        try:
            until(lambda: asked(f"{where}/ready")[0] == 200, "it is ready", SECONDS)
            assert asked(where)[1]["inputs"][0]["shape"] == [-1, *images.shape[1:]]
            given = {"name": "image", "datatype": "FP32", "shape": list(images.shape), "data": images.reshape(-1).tolist()}
            status, answer = asked(f"{where}/infer", {"inputs": [given]})
            assert status == 200, answer
            (logits,) = answer["outputs"]
            assert np.array_equal(np.array(logits["data"], np.float32).reshape(logits["shape"]), answers)
            status, answer = asked(f"{where}/infer", {"inputs": [{**given, "name": "x"}]})
            assert (status, "image" in answer["error"]) == (400, True)
        finally:
            server.terminate()
    assert server.returncode in (0, -15)


@pytest.mark.slow  # as above; tritonclient comes with MLServer
def test_tritons_own_parser_reads_the_configuration(python: Path, published: Path, tmp_path: Path) -> None:
    """The stand-in's table of fields might have another number or name than Triton's."""
    assert triton.main([str(published), "-o", str(tmp_path), "--boards", "a=emulator", "b=emulator"]) == 0
    line = [str(python), "-c", PARSED, str(tmp_path / "digits" / "config.pbtxt")]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said == "digits 64 image 11 [1, 16, 16] logits [10] 2 [1] a=emulator b=emulator\n"


def asked(address: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON of an answer; (0, None): nobody listens."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, {"content-type": "application/json"}), timeout=60) as got:
            text, status = got.read(), got.status
    except urllib.error.HTTPError as error:
        text, status = error.read(), error.code
    except OSError:
        return 0, None
    return status, json.loads(text or b"null")


def free() -> int:
    """A port that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
