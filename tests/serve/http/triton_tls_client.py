"""What the unmodified tritonclient does with a server that has TLS and a token: run as triton_client.py is.

python triton_tls_client.py HTTP_ADDRESS GRPC_ADDRESS MODEL SAMPLES.npz CA.pem TOKEN
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http


def main(http: str, grpc: str, model: str, samples: str, authority: str, token: str) -> None:
    """AssertionError: somebody is answered who must not be, or the other way round."""
    with np.load(samples) as file:
        x, y, source, target = file["x"][:2], file["y"][:2], str(file["input"]), str(file["output"])
    over_http = tritonclient.http.InferenceServerClient(http, ssl=True, ssl_options={"ca_certs": authority})
    over_grpc = tritonclient.grpc.InferenceServerClient(grpc, ssl=True, root_certificates=authority)
    for module, client in ((tritonclient.http, over_http), (tritonclient.grpc, over_grpc)):
        given = module.InferInput(source, list(x.shape), "FP32")
        given.set_data_from_numpy(x)

        def infer(shown: str | None, client: Any = client, given: Any = given) -> Any:
            headers = None if shown is None else {"authorization": f"Bearer {shown}"}  # the client adds its own to it
            return client.infer(model, [given], headers=headers)

        assert client.is_server_ready()
        assert np.array_equal(infer(token).as_numpy(target), y)
        for wrong in (token + "x", None):
            line = refusal(partial(infer, wrong))
            assert "this needs the" in line, line
            assert "Bearer TOKEN" in line, line
        assert client.is_server_ready()
    for module, address in ((tritonclient.http, http), (tritonclient.grpc, grpc)):
        plain = module.InferenceServerClient(address)
        line = refusal(plain.get_server_metadata)
        assert line != "nothing"
        assert "\n" not in line
    assert over_http.is_server_ready()
    assert over_grpc.is_server_ready()
    print("all right")


def refusal(ask: Callable[[], object]) -> str:
    """What is said against it."""
    try:
        ask()
    except Exception as error:  # of several libraries
        return str(error) or repr(error)
    return "nothing"


if __name__ == "__main__":
    main(*sys.argv[1:])
