"""What the unmodified tritonclient does with a server: run in a virtual environment that has it, and nothing of cnna.

python triton_client.py HTTP_ADDRESS GRPC_ADDRESS MODEL SAMPLES.npz: x, y, and the names of input and output.
"""

import queue
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException


def main(http: str, grpc: str, model: str, samples: str) -> None:
    """AssertionError: the server does something else than Triton would."""
    with np.load(samples) as file:
        data = file["x"], file["y"], str(file["input"]), str(file["output"])
    over_http, over_grpc = (
        tritonclient.http.InferenceServerClient(http, concurrency=4),
        tritonclient.grpc.InferenceServerClient(grpc),
    )
    for client in (over_http, over_grpc):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(model)
    assert over_http.get_model_metadata(model)["inputs"][0]["shape"][0] == -1
    assert over_grpc.get_model_metadata(model).inputs[0].shape[0] == -1
    assert over_http.get_model_config(model)["max_batch_size"] > 0
    assert over_grpc.get_model_config(model).config.max_batch_size > 0
    assert [row["state"] for row in over_http.get_model_repository_index() if row["name"] == model] == ["READY"]
    assert [row.state for row in over_grpc.get_model_repository_index().models if row.name == model] == ["READY"]
    infers_over_http(over_http, model, *data)
    infers_over_grpc(over_grpc, model, *data)
    streams(over_grpc, model, *data)
    assert over_http.get_inference_statistics(model)["model_stats"][0]["inference_stats"]["success"]["count"] == 32 + 1 + 8 + 1 + 20
    assert over_grpc.get_inference_statistics(model).model_stats[0].inference_stats.success.count == 32 + 1 + 8 + 1 + 20
    for module, client in ((tritonclient.http, over_http), (tritonclient.grpc, over_grpc)):
        given = input_of(module, data[2], data[0][:1])
        assert "there is no model" in refusal(partial(client.infer, "none", [given]))
        client.unload_model(model)
        assert not client.is_model_ready(model)
        client.load_model(model)
        assert client.is_model_ready(model)
    print("all right")


def infers_over_http(client: Any, model: str, x: Any, y: Any, source: str, target: str) -> None:
    """Thirty-two requests at once, binary and JSON both ways, and the greatest class."""
    waiting = []
    for number in range(32):
        rows = slice(number % 4, number % 4 + number % 3 + 1)
        given = tritonclient.http.InferInput(source, list(x[rows].shape), "FP32")
        given.set_data_from_numpy(x[rows], binary_data=number % 2 == 0)
        wanted = tritonclient.http.InferRequestedOutput(target, binary_data=number % 4 < 2)
        more = {"request_id": str(number), "priority": 1 + number % 3}
        waiting.append((rows, client.async_infer(model, [given], outputs=[wanted], **more)))
    for number, (rows, answer) in enumerate(waiting):
        found = answer.get_result()
        assert np.array_equal(found.as_numpy(target), y[rows])
        assert found.get_response()["id"] == str(number)
    wanted = tritonclient.http.InferRequestedOutput(target, class_count=1)
    best = client.infer(model, [input_of(tritonclient.http, source, x[:2])], outputs=[wanted]).as_numpy(target)
    assert [int(text.split(b":")[1]) for text in best.reshape(-1)] == y[:2].argmax(1).tolist()


def infers_over_grpc(client: Any, model: str, x: Any, y: Any, source: str, target: str) -> None:
    """The same, one after another."""
    for number in range(8):
        rows = slice(number, number + number % 3 + 1)
        found = client.infer(model, [input_of(tritonclient.grpc, source, x[rows])], request_id=str(number), timeout=50_000_000)
        assert np.array_equal(found.as_numpy(target), y[rows])
        assert found.get_response().id == str(number)
    wanted = tritonclient.grpc.InferRequestedOutput(target, class_count=1)
    best = client.infer(model, [input_of(tritonclient.grpc, source, x[:2])], outputs=[wanted]).as_numpy(target)
    assert [int(text.split(b":")[1]) for text in best.reshape(-1)] == y[:2].argmax(1).tolist()


def streams(client: Any, model: str, x: Any, y: Any, source: str, target: str) -> None:
    """Twenty requests of one stream are answered in order."""
    came: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: came.put(error or result))
    for number in range(20):
        client.async_stream_infer(model, [input_of(tritonclient.grpc, source, x[number : number + 1])], request_id=str(number))
    for number in range(20):
        found = came.get(timeout=60)
        assert found.get_response().id == str(number)
        assert np.array_equal(found.as_numpy(target), y[number : number + 1])
    client.stop_stream()


def input_of(module: Any, name: str, x: Any) -> Any:
    """An input, binary."""
    given = module.InferInput(name, list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    return given


def refusal(ask: Callable[[], object]) -> str:
    """What the server says against it."""
    try:
        ask()
    except InferenceServerException as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    main(*sys.argv[1:])
