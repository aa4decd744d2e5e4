"""The client of split_link.py: asks an engine for one sample by each cut in turn, and prints how long each answer took.

split_client.py ADDRESS REPOSITORY ROUNDS MODEL...: seconds of each model's requests, as JSON. A model's sample is its edge half's
first golden one. After four rounds, a cut whose quickest answer takes over twice the best median is asked no more. There are at
least so many rounds, and then more until 8 s are over, but at most ten times as many.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.protocol import tensors

FIRST, TOO_LONG, SECONDS, LASTS = 4, 2.0, 60.0, 8.0
LOADING_SECONDS = 600.0  # on a busy machine: every model that is not the edge's is described by a process of its own


def request_of(repository: Path, model: str) -> pb.ModelInferRequest:
    """One sample."""
    request = pb.ModelInferRequest(model_name=model)
    with np.load(repository / f"{model}-edge" / "1" / "golden.npz") as golden:
        for name in golden.files:
            if name.startswith("input."):
                array = golden[name][:1]
                request.inputs.add(name=name.partition(".")[2], datatype=tensors.name_of(array.dtype), shape=array.shape)
                request.raw_input_contents.append(tensors.to_raw(array))
    return request


def first(ask: Any, request: pb.ModelInferRequest) -> None:
    """Asks until there is an answer: the engines load their models."""
    until = time.monotonic() + LOADING_SECONDS
    while True:
        try:
            ask(request, timeout=SECONDS, wait_for_ready=True)
            return
        except grpc.RpcError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def main(address: str, repository: str, rounds: str, *models: str) -> None:
    """Prints what was seen."""
    requests = {model: request_of(Path(repository), model) for model in models}
    seen: dict[str, list[float]] = {model: [] for model in models}
    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", 64 << 20)]) as channel:
        ask = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", pb.ModelInferRequest.SerializeToString, pb.ModelInferResponse.FromString
        )
        for model in models:
            first(ask, requests[model])
        start = time.monotonic()
        for number in range(10 * int(rounds)):
            if number >= int(rounds) and time.monotonic() - start > LASTS:
                break
            best = min((statistics.median(taken) for taken in seen.values() if taken), default=0.0)
            for model, taken in seen.items():
                if number < FIRST or min(taken) <= TOO_LONG * best:
                    began = time.perf_counter()
                    ask(requests[model], timeout=SECONDS)
                    taken.append(time.perf_counter() - began)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
