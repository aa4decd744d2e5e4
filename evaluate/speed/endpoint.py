"""A client of the Open Inference Protocol over HTTP, version 2, with binary tensors: one connection, one request at a time."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from cnna.serve.protocol.tensors import NAMES, TYPES, from_raw
from cnna.spec.errors import RunError

LENGTH = "Inference-Header-Content-Length"
SECONDS = 60.0  # that an answer may take

Input = tuple[str, tuple[int, ...], str]  # name, shape of a sample, numpy type


class HttpEndpoint:
    """A model of a server. address: http://HOST:PORT. RunError: no server is there, it refuses, or it has no such model."""

    def __init__(self, address: str, model: str) -> None:
        self._address, self._model = address, model
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)

    def inputs(self) -> list[Input]:
        """Name, shape of a sample, and numpy type of each input."""
        body, _ = self._asked("GET", "", b"", {})
        try:
            found = json.loads(body)["inputs"]
            return [(one["name"], tuple(max(int(n), 1) for n in one["shape"][1:]), TYPES[one["datatype"]]) for one in found]
        except (ValueError, KeyError, TypeError):
            raise RunError(
                f"{self._address}: does not say the inputs of {self._model} as the Open Inference Protocol does"
            ) from None

    def infer(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs for some samples, [n, ...] each."""
        arrays = {name: np.ascontiguousarray(x) for name, x in inputs.items()}
        head = json.dumps({"inputs": [_entry(*one) for one in arrays.items()], "parameters": {"binary_data_output": True}}).encode()
        raw = b"".join(x.tobytes() for x in arrays.values())
        return _outputs(*self._asked("POST", "/infer", head + raw, {LENGTH: str(len(head))}))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _asked(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[bytes, int | None]:
        """The body of the answer, and how long its JSON is, where more follows."""
        try:
            self._connection.request(method, f"/v2/models/{quote(self._model, safe='')}{path}", body, dict(headers))
            answer = self._connection.getresponse()
            found = answer.read()
        except (OSError, http.client.HTTPException) as error:
            strange = isinstance(error, http.client.HTTPException)  # its text is what came, such as the bytes of HTTP/2
            reason = "what answers does not speak HTTP/1.1" if strange else str(error) or type(error).__name__
            raise RunError(f"{self._address}: no server answers there ({reason}); cnna serve starts one") from None
        if answer.status != http.HTTPStatus.OK:
            raise RunError(f"{self._address}: model {self._model}: {answer.status} {found[:200].decode(errors='replace')}")
        length = answer.headers.get(LENGTH)
        return found, None if length is None else int(length)


def _entry(name: str, x: NDArray[Any]) -> dict[str, Any]:
    """An input in the JSON of a request, whose bytes follow."""
    return {"name": name, "shape": list(x.shape), "datatype": NAMES[x.dtype.name], "parameters": {"binary_data_size": x.nbytes}}


def _outputs(body: bytes, length: int | None) -> dict[str, NDArray[Any]]:
    """The tensors of an answer, binary or in JSON."""
    head, rest = (body, b"") if length is None else (body[:length], body[length:])
    found = {}
    for output in json.loads(head)["outputs"]:
        name, kind, shape = output["name"], output["datatype"], tuple(output["shape"])
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            found[name] = np.array(output["data"], TYPES[kind]).reshape(shape)
        else:
            found[name] = from_raw(name, kind, shape, rest[:size])
            rest = rest[size:]
    return found
