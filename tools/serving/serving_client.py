"""Clients for tools/serving/serving.py: ask a server without a pause, and count. It needs tritonclient and nothing of cnna.

python serving_client.py PROTOCOL ADDRESS MODEL SAMPLES.npz CLIENTS SECONDS: prints latencies and what was wrong, as JSON.
"""

import asyncio
import json
import sys
import time
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException


async def ask(client: Any, module: Any, model: str, data: dict[str, Any], number: int, end: float, seen: dict[str, Any]) -> None:
    """One client. It goes on to the next sample when it has its answer; a refusal is counted and asked again."""
    x, y = data["x"], data["y"]
    while time.monotonic() < end:
        row = number % len(x)
        given = module.InferInput(str(data["input"]), [1, *x.shape[1:]], "FP32")
        given.set_data_from_numpy(x[row : row + 1])
        began = time.monotonic()
        try:
            answer = await client.infer(model, [given])
        except InferenceServerException as error:
            seen["refused"][str(error)[:80]] = seen["refused"].get(str(error)[:80], 0) + 1
            await asyncio.sleep(0.01)
            continue
        seen["seconds"].append(time.monotonic() - began)
        seen["wrong"] += not np.array_equal(answer.as_numpy(str(data["output"])), y[row : row + 1])
        number += 1


async def main(protocol: str, address: str, model: str, samples: str, clients: str, seconds: str) -> None:
    """Prints what was seen."""
    if protocol == "http":
        import tritonclient.http.aio as module
    else:
        import tritonclient.grpc.aio as module
    with np.load(samples) as file:
        data = {name: file[name] for name in file.files}
    more = {"conn_limit": int(clients)} if protocol == "http" else {}
    client = module.InferenceServerClient(address, **more)
    seen: dict[str, Any] = {"seconds": [], "refused": {}, "wrong": 0}
    began = time.monotonic()
    await asyncio.gather(*(ask(client, module, model, data, 7 * n, began + float(seconds), seen) for n in range(int(clients))))
    seen["wall"] = time.monotonic() - began
    await client.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
