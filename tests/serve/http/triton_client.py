"""What the unmodified tritonclient does with a server: run in a virtual environment that has it, and nothing of cnna.

python triton_client.py HTTP_ADDRESS MODEL SAMPLES.npz: x, y, and the names of input and output.
"""

import sys
from collections.abc import Callable

import numpy as np
import tritonclient.http as http
from tritonclient.utils import InferenceServerException


def main(address: str, model: str, samples: str) -> None:
    """AssertionError: the server does something else than Triton would."""
    with np.load(samples) as file:
        x, y, source, target = file["x"], file["y"], str(file["input"]), str(file["output"])
    client = http.InferenceServerClient(address, concurrency=4)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(model)
    assert client.get_model_metadata(model)["inputs"][0]["shape"][0] == -1
    assert client.get_model_config(model)["max_batch_size"] > 0
    assert [row["state"] for row in client.get_model_repository_index() if row["name"] == model] == ["READY"]
    waiting = []
    for number in range(32):
        rows = slice(number % 4, number % 4 + number % 3 + 1)
        given = http.InferInput(source, list(x[rows].shape), "FP32")
        given.set_data_from_numpy(x[rows], binary_data=number % 2 == 0)
        wanted = http.InferRequestedOutput(target, binary_data=number % 4 < 2)
        waiting.append(
            (rows, client.async_infer(model, [given], outputs=[wanted], request_id=str(number), priority=1 + number % 3))
        )
    for number, (rows, answer) in enumerate(waiting):
        found = answer.get_result()
        assert np.array_equal(found.as_numpy(target), y[rows])
        assert found.get_response()["id"] == str(number)
    given = http.InferInput(source, list(x[:2].shape), "FP32")
    given.set_data_from_numpy(x[:2])
    best = client.infer(model, [given], outputs=[http.InferRequestedOutput(target, class_count=1)]).as_numpy(target)
    assert [int(text.split(b":")[1]) for text in best.reshape(-1)] == y[:2].argmax(1).tolist()
    stats = client.get_inference_statistics(model)["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] == 33
    client.load_model(model)
    assert "there is no model" in refusal(lambda: client.infer("none", [given]))
    client.unload_model(model)
    assert not client.is_model_ready(model)
    print("all right")


def refusal(ask: Callable[[], object]) -> str:
    """What the server says against it."""
    try:
        ask()
    except InferenceServerException as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    main(*sys.argv[1:])
