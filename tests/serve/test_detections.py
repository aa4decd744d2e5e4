"""A detector that is served answers boxes, scores and classes: by HTTP and gRPC, in batches, for arrays and for photographs."""

import asyncio
import io
import json
import shutil
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import onnx
import pytest
import uvicorn
from PIL import Image

from cnna.cli.main import main
from cnna.host.model.detector import Detector
from cnna.serve.boards.board_spec import board_specs
from cnna.serve.engine.core import Core
from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.grpc.front import GrpcFront
from cnna.serve.grpc.service import SERVICE
from cnna.serve.http.app import App
from cnna.serve.http.front import Uvicorn
from cnna.serve.models.answering import seconds_of
from cnna.serve.models.repository import open_repository
from cnna.spec.artifact import load, save

from .. import detector_models
from ..browser import drawn, needs_browser
from .http.asgi import call
from .http.test_console import route

Within = Callable[[Coroutine[Any, Any, None]], None]
MOST, NAME = 200, "yolov8 joined first"
NAMES = ["disc", "square", "cross", "star: five"]
OWN: list[dict[str, Any]] = [
    {},
    {"least": 0.3},
    {"overlap": 0.1, "labels": "all"},
    {"least": 0.25, "overlap": 0.5, "labels": "all"},  # those that are usual where model.yaml says nothing
]
WRONG: dict[str, dict[str, Any]] = {
    "parameter least=2: must be a number from 0 to 1": {"least": 2},
    "parameter overlap='wide': must be a number from 0 to 1": {"overlap": "wide"},
    "parameter labels='some': must be 'all' or 'best'": {"labels": "some"},
    "parameter labels=['all']: must be": {"labels": ["all"]},
}
WRONG_IN_GRPC: list[tuple[dict[str, Any], str]] = [
    ({"least": float("nan")}, "parameter least=nan: must be a number from 0 to 1"),
    ({"overlap": float("inf")}, "parameter overlap=inf: must be a number from 0 to 1"),
    ({"least": -1}, "parameter least=-1: must be a number from 0 to 1"),
    ({"least": True}, "parameter least=True: must be a number from 0 to 1"),
    ({"labels": "some"}, "parameter labels='some': must be 'all' or 'best'"),
    ({"labels": "x" * 100_000}, f"parameter labels='{'x' * 40}': must be 'all' or 'best'"),
    ({"priority": "x" * 100_000}, f"parameter priority: '{'x' * 40}' must be an integer from 0 up"),
]
CHOICES = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
TRIES = """
const until = async (found) => { while (!found()) await new Promise((done) => setTimeout(done, 50)); };
const all = (what) => document.querySelectorAll(what);
await until(() => all("input[type=file]").length);
const transfer = new DataTransfer();
transfer.items.add(new File([await (await fetch("picture.png")).blob()], "picture.png", { type: "image/png" }));
const input = all("input[type=file]")[0];
input.files = transfer.files;
input.dispatchEvent(new Event("change", { bubbles: true }));
await until(() => all("table.boxes tbody tr").length && all(".frames rect").length);
document.body.dataset.rows = all("table.boxes tbody tr").length;
document.body.dataset.frames = all(".frames rect").length;
document.body.dataset.view = all(".frames")[0].getAttribute("viewBox");
document.body.dataset.first = [...all("table.boxes tbody tr")[0].children].map((cell) => cell.textContent).join("; ");
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R/yolo/1, published from a .cnna, for batches of 1 and 3."""
    made = tmp_path_factory.mktemp("detections")
    save(detector_models.made(NAME).artifact, made / "d.cnna")
    np.savez(made / "x.npz", x=detector_models.pictures(2))
    line = ["publish", str(made / "d.cnna"), "--repo", str(made / "r"), "--model", "yolo", "--config", "tiny", "--batches", "1,3"]
    assert main([*line, "--input", str(made / "x.npz")]) == 0
    return made / "r"


@pytest.fixture(scope="module")
def wanted(repository: Path) -> Any:
    """`cnna.Detector`'s answer to any picture."""
    with Detector(repository / "yolo" / "1" / "tiny-b1.cnna", "reference") as detector:
        yield detector.detect


def photograph() -> np.ndarray:
    """Of another size than the input: 48 rows and 96 columns."""
    picture = detector_models.pictures(1, seed=8)[0].transpose(1, 2, 0)
    return np.ascontiguousarray(np.kron(picture, np.ones((2, 2, 1), np.uint8))[:48, :96])


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def is_as_wanted(found: Any, boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> None:
    """Compares one sample of an answer with a Detector's. The rest must be empty places."""
    count = len(found.boxes)
    assert 0 < count < MOST
    np.testing.assert_allclose(boxes[:count], found.boxes, atol=1e-4)
    np.testing.assert_allclose(scores[:count], found.scores, atol=1e-6)
    assert classes[:count].tolist() == found.classes.tolist()
    assert not boxes[count:].any()
    assert not scores[count:].any()
    assert (classes[count:] == -1).all()


def test_http_answers_boxes_of_a_batch_and_of_photographs(repository: Path, wanted: Any, within: Within) -> None:
    """A client would get thousands of rows to decode itself; or boxes of another sample, or in pixels of the model's input."""
    x = detector_models.pictures(4, seed=5)

    async def run() -> None:
        core = Core(open_repository(repository), board_specs(["a=emulator"]))
        app = App(core, "9.9", None).asgi()
        try:
            await core.start()
            metadata = (await call(app, "GET", "/v2/models/yolo")).json
            assert [(one["name"], one["datatype"], one["shape"]) for one in metadata["outputs"]] == [
                ("boxes", "FP32", [-1, MOST, 4]),
                ("scores", "FP32", [-1, MOST]),
                ("classes", "INT64", [-1, MOST]),
            ]
            one = {"name": "x", "datatype": "UINT8", "shape": [*x.shape], "data": x.reshape(-1).tolist()}
            answer = (await call(app, "POST", "/v2/models/yolo/infer", {"inputs": [one]})).json
            made = {y["name"]: np.array(y["data"]).reshape(y["shape"]) for y in answer["outputs"]}
            for number, picture in enumerate(x):
                is_as_wanted(wanted(picture.transpose(1, 2, 0)), *(made[name][number] for name in ("boxes", "scores", "classes")))
            file = png(photograph())
            sent = len(file).to_bytes(4, "little") + file
            entry = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(sent)}}
            head = json.dumps({"inputs": [entry]}).encode()
            headers = {"inference-header-content-length": str(len(head))}
            answer = (await call(app, "POST", "/v2/models/yolo/infer", head + sent, **headers)).json
            made = {y["name"]: np.array(y["data"]).reshape(y["shape"])[0] for y in answer["outputs"]}
            is_as_wanted(wanted(photograph()), made["boxes"], made["scores"], made["classes"])
        finally:
            await core.close()

    within(run())


@asynccontextmanager
async def infer_of(repository: Path) -> AsyncIterator[Callable[..., Any]]:
    """ModelInfer of a server over gRPC."""
    core = Core(open_repository(repository), board_specs(["a=emulator"]))
    listener = GrpcFront(core, Listening("127.0.0.1", 0, None), "9.9")
    address = (await listener.start()).removeprefix("grpc://")
    try:
        await core.start()
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel.unary_unary(
                f"/{SERVICE}/ModelInfer", pb.ModelInferRequest.SerializeToString, pb.ModelInferResponse.FromString
            )
    finally:
        await listener.stop()
        await core.close()


def test_grpc_answers_the_same(repository: Path, wanted: Any, within: Within) -> None:
    """Clients of one protocol would get the model's own outputs, or boxes in other pixels."""

    async def run() -> None:
        request = pb.ModelInferRequest(model_name="yolo")
        request.inputs.add(name="x", datatype="BYTES", shape=[1])
        file = png(photograph())
        request.raw_input_contents.append(len(file).to_bytes(4, "little") + file)
        async with infer_of(repository) as infer:
            answer = await infer(request)
        kinds = {"FP32": np.float32, "INT64": np.int64}
        parts = zip(answer.outputs, answer.raw_output_contents, strict=True)
        made = {y.name: np.frombuffer(data, kinds[y.datatype]).reshape(tuple(y.shape)) for y, data in parts}
        is_as_wanted(wanted(photograph()), made["boxes"][0], made["scores"][0], made["classes"][0])

    within(run())


def test_grpc_takes_thresholds(repository: Path, within: Within) -> None:
    """A client of gRPC would get the usual thresholds whatever it asks, or for a wrong one an error that says nothing."""
    x = detector_models.pictures(1, seed=5)

    def asked(own: dict[str, Any], model: str = "yolo") -> pb.ModelInferRequest:
        request = pb.ModelInferRequest(model_name=model, raw_input_contents=[x.tobytes()])
        request.inputs.add(name="x", datatype="UINT8", shape=x.shape)
        for name, value in own.items():
            setattr(request.parameters[name], CHOICES[type(value)], value)
        return request

    async def run() -> None:
        async with infer_of(repository) as infer:
            for own in (*OWN, {"least": 0, "overlap": 1}):
                boxes, scores, classes = (await infer(asked(own))).raw_output_contents
                with Detector(repository / "yolo" / "1" / "tiny-b1.cnna", "reference", **own) as detector:
                    found = detector.detect(x[0].transpose(1, 2, 0))
                count = len(found.boxes)
                assert np.frombuffer(classes, np.int64)[:count].tolist() == found.classes.tolist()
                np.testing.assert_allclose(np.frombuffer(scores, np.float32)[:count], found.scores, atol=1e-6)
                edges = np.clip(found.boxes.reshape(-1), 0, x.shape[-1])
                np.testing.assert_allclose(np.frombuffer(boxes, np.float32)[: 4 * count], edges, atol=1e-4)
                assert (np.frombuffer(classes, np.int64)[count:] == -1).all()
            wrong = [(asked(own), said) for own, said in WRONG_IN_GRPC]
            for request, said in [*wrong, (asked({}, "m" * 100_000), f"there is no model '{'m' * 40}'; there are yolo")]:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await infer(request)
                assert caught.value.details() == said

    within(run())


def test_thresholds_and_names_of_model_yaml_and_of_requests(repository: Path, tmp_path: Path, within: Within) -> None:
    """Every user of a detector would have thresholds for all pictures of the world, and numbers in the place of names."""
    root = tmp_path / "r"
    shutil.copytree(repository, root)
    (root / "yolo" / "model.yaml").write_text(f"detector: {{least: 0.4, labels: best, names: {NAMES}}}\n")
    x = detector_models.pictures(1, seed=5)
    one = {"name": "x", "datatype": "UINT8", "shape": [*x.shape], "data": x.reshape(-1).tolist()}

    async def run() -> None:
        core = Core(open_repository(root), board_specs(["a=emulator"]))
        app = App(core, "9.9", None).asgi()

        async def boxes(**parameters: Any) -> list[np.ndarray]:
            answer = await call(app, "POST", "/v2/models/yolo/infer", {"inputs": [one], "parameters": parameters})
            made = {y["name"]: np.array(y["data"]).reshape(y["shape"])[0] for y in answer.json["outputs"]}
            return [made[name] for name in ("boxes", "scores", "classes")]

        try:
            await core.start()
            path = root / "yolo" / "1" / "tiny-b1.cnna"
            for own in OWN:
                settings: dict[str, Any] = {"least": 0.4, "labels": "best", **own}
                with Detector(path, "reference", **settings) as detector:
                    is_as_wanted(detector.detect(x[0].transpose(1, 2, 0)), *await boxes(**own))
            for said, wrong in WRONG.items():
                answer = await call(app, "POST", "/v2/models/yolo/infer", {"inputs": [one], "parameters": wrong})
                assert (answer.code, said in answer.json["error"]) == (400, True), answer.json
            wants = [{"name": "classes", "parameters": {"classification": 3}}]
            named = (await call(app, "POST", "/v2/models/yolo/infer", {"inputs": [one], "outputs": wants})).json
            _, scores, classes = await boxes()
            ranked = [f"{score:f}:{kind}:{NAMES[kind]}" for score, kind in zip(scores, classes, strict=True) if kind >= 0]
            assert named["outputs"][0]["data"] == [*ranked, "", "", ""][:3]
            (shown,) = (await call(app, "GET", "/v2/console")).json["models"][0]["versions"]
            assert shown["thresholds"] == {"least": 0.4, "overlap": 0.5, "labels": "best"}
        finally:
            await core.close()

    within(run())


def test_seconds_are_told_by_stage(repository: Path, within: Within) -> None:
    """An operator would not see that a server's pictures wait for their scaling, or for their boxes, and buy another board."""
    file = png(photograph())

    async def run() -> None:
        core = Core(open_repository(repository), board_specs(["a=emulator"]))
        app = App(core, "9.9", None).asgi()
        try:
            await core.start()
            entry = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(file) + 4}}
            head = json.dumps({"inputs": [entry]}).encode()
            sent = head + len(file).to_bytes(4, "little") + file
            began = time.perf_counter()
            for _ in range(2):
                await call(app, "POST", "/v2/models/yolo/infer", sent, **{"inference-header-content-length": str(len(head))})
            spent = time.perf_counter() - began
            (stats,) = (await call(app, "GET", "/v2/models/yolo/stats")).json["model_stats"]
            text = bytes((await call(app, "GET", "/metrics")).body).decode()
        finally:
            await core.close()
        stages = [stats["inference_stats"][name]["ns"] / 1e9 for name in ("compute_input", "compute_infer", "compute_output")]
        assert min(stages) > 0
        assert sum(stages) < spent
        of_batches = sum(one["compute_output"]["ns"] for one in stats["batch_stats"]) / 1e9
        assert of_batches == pytest.approx(stages[2], abs=1e-8)
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if "_seconds_total" in line and not line.startswith("#"))
        labels = '{model="yolo",version="1"}'
        run_seconds = float(lines[f"cnna_run_seconds_total{labels}"])
        assert float(lines[f"cnna_scale_seconds_total{labels}"]) == pytest.approx(stages[0], abs=1e-8)
        assert float(lines[f"cnna_decode_seconds_total{labels}"]) == pytest.approx(stages[2], abs=1e-8)
        assert run_seconds == pytest.approx(stages[1] + stages[2], abs=1e-8)

    within(run())


@needs_browser
def test_the_console_draws_boxes_on_a_picture(repository: Path, tmp_path: Path, within: Within) -> None:
    """A visitor would see numbers of classes ranked by the pixels of boxes, or frames in the wrong place."""
    root = tmp_path / "r"
    shutil.copytree(repository, root)
    (root / "yolo" / "model.yaml").write_text(f"detector: {{least: 0.3, names: {NAMES}}}\n")

    async def run() -> None:
        core = Core(open_repository(root), board_specs(["a=emulator"]))
        app = App(core, "9.9", None).asgi()
        page = bytes((await call(app, "GET", "/")).body).replace(
            b"</head>", b'<script type="module" src="tries.js"></script></head>'
        )
        app.router.routes[:0] = [
            route("/", page, "text/html"),
            route("/tries.js", TRIES.encode(), "text/javascript"),
            route("/picture.png", png(photograph()), "image/png"),
        ]
        server = Uvicorn(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.ensure_future(server.serve(sockets=[listening]))
            try:
                await core.start()
                address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
                body = await asyncio.to_thread(drawn, address, 8000, timeout_seconds=600)
            finally:
                server.should_exit = True
                await serving
                await core.close()
        with Detector(root / "yolo" / "1" / "tiny-b1.cnna", "reference", least=0.3) as detector:
            found = detector.detect(photograph())
        edges = ", ".join(f"{edge:.0f}" for edge in found.boxes[0])
        assert f'data-rows="{len(found.boxes)}"' in body
        assert f'data-frames="{len(found.boxes)}"' in body
        assert 'data-view="0 0 96 48"' in body
        assert f'data-first="{NAMES[found.classes[0]]}; {found.scores[0]:.3f}; {edges}"' in body
        assert "least score 0.3, overlap 0.5, labels all" in body

    within(run())


def test_publishing_says_what_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A version would answer other tensors than its user asked for, without a word."""
    save(detector_models.made("yolov5").artifact, tmp_path / "d.cnna")
    onnx.save(detector_models.made("yolov8").model, tmp_path / "q.onnx")
    line = ["--repo", str(tmp_path / "r"), "--model", "m", "--config", "tiny", "--batches", "1"]
    assert main(["publish", str(tmp_path / "d.cnna"), *line, "--fallback", "onnxruntime"]) == 2
    assert "--fallback onnxruntime would answer the model's own outputs: leave it out" in capsys.readouterr().err
    assert main(["publish", str(tmp_path / "q.onnx"), *line, "--detector", "auto"]) == 0
    assert open_repository(tmp_path / "r").version("m", "1").signature.detects


def test_a_detector_is_not_slowed_by_what_it_leaves_out() -> None:
    """A board would be thought to be late, or slow, by the time of a decode that nobody runs."""
    artifact = detector_models.made("yolov5").artifact
    assert seconds_of(artifact, 300) == artifact.predicted_clocks() / 300e6


def test_the_file_itself_serves_boxes(repository: Path) -> None:
    """`cnna serve d.cnna` would answer other tensors than the same file in a repository."""
    file = repository / "yolo" / "1" / "tiny-b1.cnna"
    assert open_repository(file).version(file.stem, "1").signature.detects
    assert load(file).manifest["detector"]["family"] == "YOLOv8"
