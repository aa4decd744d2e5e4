"""The runtime `remote`: another server's model, with that server's words for what goes wrong."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc.front import GrpcFront
from cnna.serve.remote.remote_model import RemoteModel
from cnna.serve.runtimes.interface import Call, Place
from cnna.spec.errors import BusyError, DataError, LateError, UserError

from ...waiting import PATIENCE_SECONDS, until

PATIENT = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0), failures=1000)
TOKEN = "a-token-of-many-letters"
Images = NDArray[np.float32]


@contextmanager
def listening(engine: Engine, port: int = 0, token: str | None = None) -> Iterator[str]:
    """The address of an engine that another one may ask."""
    front = engine.of_loop(lambda: GrpcFront(engine.core, Listening("127.0.0.1", port, token), "9.9"))
    try:
        yield engine.of_loop(front.start)
    finally:
        engine.of_loop(front.stop)


def near(root: Path, address: str, more: str = "", settings: str = "") -> Path:
    """A repository with a model `cloud`, which is the far server's `digits`."""
    (root / "cloud" / "1").mkdir(parents=True)
    text = f"runtime: remote\nremote: {{address: '{address}', model: digits{more}}}\n{settings}"
    (root / "cloud" / "model.yaml").write_text(text)
    return root


def test_answers_deadlines_and_ids_are_passed_on(
    published: Path, tmp_path: Path, images: Images, answers: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request would wait at the far server longer than its client does, or its log could not be found there."""
    seen: list[Any] = []
    with Engine(published, ["far=emulator"], PATIENT) as far, listening(far) as address:
        admit = far.core.admit

        def admitted(*given: Any, **more: Any) -> Any:
            seen.append((given[0], given[2], more["request_id"], more["timeout_us"]))
            return admit(*given, **more)

        monkeypatch.setattr(far.core, "admit", admitted)
        with Engine(near(tmp_path, address, ", version: 1, batch: 4"), [], PATIENT) as engine:
            assert [board.spec.name for board in engine.core.boards] == ["remote"]
            seen.clear()
            result = engine.infer("cloud", {"image": images[:6]}, request_id="r7", timeout_us=9_000_000)
            assert np.array_equal(result.outputs["logits"], answers[:6])
            assert (result.model, result.version, result.runtime) == ("cloud", "1", "remote")
            assert [(model, version, name) for model, version, name, _ in seen] == [("digits", "1", "r7")] * len(seen)
            assert all(0 < timeout <= 9_000_000 for _, _, _, timeout in seen)


def test_a_server_that_goes_and_comes_back(published: Path, tmp_path: Path, images: Images, answers: Images) -> None:
    """An outage there would take this server's worker out for good; a version would stay refused that can be had again."""
    said: list[Any] = []
    with Engine(published, ["far=emulator"], PATIENT) as far:
        with listening(far) as address:
            port = int(address.rpartition(":")[2])
            root = near(tmp_path, address, settings="retries: 1\n")
            with Engine(root, [], PATIENT) as engine:
                engine.infer("cloud", {"image": images[:1]})
        with Engine(root, [], PATIENT, log=lambda level, event, **more: said.append((event, more.get("cause")))) as engine:
            with pytest.raises(BusyError, match=f"grpc://127.0.0.1:{port}, model digits: .*onnect"):
                engine.infer("cloud", {"image": images[:1]})
            assert not engine.core.ready
            with listening(far, port):
                engine.load("cloud")
                assert np.array_equal(engine.infer("cloud", {"image": images[:3]}).outputs["logits"], answers[:3])
            with pytest.raises(BusyError, match=r"failed 2 times, last: grpc://127\.0\.0\.1"):
                engine.infer("cloud", {"image": images[:1]})
            board = engine.core.board("remote")
            assert board is not None
            assert (board.state, board.life.failures) == ("ready", 0)
            with listening(far, port):
                ends = time.monotonic() + PATIENCE_SECONDS  # gRPC connects again after at most 5 s
                while True:
                    try:
                        result = engine.infer("cloud", {"image": images[:3]})
                        break
                    except BusyError:
                        assert time.monotonic() < ends
                assert np.array_equal(result.outputs["logits"], answers[:3])
    assert any(event == "version refused" for event, _ in said)


def test_a_version_is_loaded_by_itself_once_its_server_is_there(
    published: Path, tmp_path: Path, images: Images, answers: Images
) -> None:
    """Whoever starts the edge before the cloud would have to load the model by hand."""
    with Engine(published, ["far=emulator"], PATIENT) as far:
        with listening(far) as address:
            port = int(address.rpartition(":")[2])
        with Engine(near(tmp_path, address), [], PATIENT) as engine, listening(far, port):
            until(lambda: engine.core.ready, "it does not ask again after 1, 2, 4 s")
            assert np.array_equal(engine.infer("cloud", {"image": images[:3]}).outputs["logits"], answers[:3])


def test_its_failures_are_causes_in_its_own_words(published: Path, tmp_path: Path, images: Images) -> None:
    """An operator would look for the fault on this side."""
    (tmp_path / "r" / "m").mkdir(parents=True)
    (tmp_path / "r" / "m" / "token").write_text(TOKEN + "\n")
    with Engine(published, ["far=emulator"], PATIENT) as far, listening(far, token=TOKEN) as address:

        def remote(**options: Any) -> RemoteModel:
            return RemoteModel(Place("m", "1", tmp_path / "r" / "m" / "1", {"address": address, "model": "digits", **options}))

        one = remote(token_file="token")
        assert [tensor.served_shape for tensor in one.describe().inputs] == [[-1, 1, 16, 16]]
        with pytest.raises(DataError, match=f"{address}, model digits: input image has shape"):
            one.run({"image": images[:1, :, :5]}, Call())
        with pytest.raises(LateError, match="was not asked: the deadline had passed"):
            one.run({"image": images[:1]}, Call(time.monotonic() - 1))
        with pytest.raises(BusyError, match="there is no model 'none'; there are digits"):
            remote(token_file="token", model="none").describe()
        with pytest.raises(BusyError, match="this needs the metadata `authorization"):
            remote().describe()
        far.of_loop(lambda: asyncio.sleep(0))
        far.core.draining = True
        with pytest.raises(BusyError, match="the server is ending"):
            one.run({"image": images[:1]}, Call())
        one.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": "127.0.0.1:8001"}, "address: '127.0.0.1:8001' is not like grpc://"),
        ({"address": "grpc://a:1", "adress": 1}, "unknown key 'adress'"),
        ({"address": "grpc://a:1", "version": "x"}, "version: 'x' is no positive integer"),
        ({"address": "grpc://a:1", "model": ""}, "model: '' is no name"),
        ({"address": "grpc://a:1", "batch": 0}, "batch: 0 is not an integer"),
        ({"address": "grpc://a:1", "token_file": "none"}, "none: no such file"),
        ({}, "address: None is not like"),
    ],
)
def test_a_mistake_in_model_yaml_is_one_line(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    """It would be found at the first request."""
    with pytest.raises(UserError, match=said):
        RemoteModel(Place("m", "1", tmp_path / "m" / "1", options))
