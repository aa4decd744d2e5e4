"""A client of the Open Inference Protocol over HTTP, version 2, with binary tensors: one connection, one request at a time."""

import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from cnna.serve.protocol.tensors import BYTES, NAMES, TYPES, checked, elements, from_list, from_raw
from cnna.spec.errors import DataError, RunError

LENGTH = "Inference-Header-Content-Length"
SECONDS = 60.0  # that an answer may take
MOST_BYTES = 64 << 20  # of a message over gRPC, as `cnna serve` takes, and of one sample of an input
# What strange JSON raises: no JSON, another kind of value, 1e999 where a whole number is, brackets without end
STRANGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

Input = tuple[str, tuple[int, ...], str]  # name, shape of a sample, numpy type
Output = tuple[str, Any, Any, Any]  # name, type and shape as the protocol has them, and its bytes or the list of JSON


class HttpEndpoint:
    """A model of a server. address: http://HOST:PORT.

    RunError: no server is there, it refuses, it has no such model, or what it says is not of the protocol.
    """

    def __init__(self, address: str, model: str) -> None:
        self._address, self._model = address, model
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)

    def inputs(self) -> list[Input]:
        """Name, shape of a sample, and numpy type of each input."""
        body, _ = self._asked("GET", "", b"", {})
        try:
            found = [(str(one["name"]), str(one["datatype"]), [int(n) for n in one["shape"]]) for one in json.loads(body)["inputs"]]
        except STRANGE:
            raise RunError(
                f"{self._address}: does not say the inputs of {self._model} as the Open Inference Protocol does"
            ) from None
        return inputs_of(f"{self._address}: model {self._model}", found)

    def infer(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs for some samples, [n, ...] each."""
        arrays = {name: np.ascontiguousarray(x) for name, x in inputs.items()}
        head = json.dumps({"inputs": [_entry(*one) for one in arrays.items()], "parameters": {"binary_data_output": True}}).encode()
        raw = b"".join(x.tobytes() for x in arrays.values())
        body, length = self._asked("POST", "/infer", head + raw, {LENGTH: str(len(head))})
        with refused(f"{self._address}: model {self._model}"):
            return outputs_of(_listed(body, length), len(next(iter(arrays.values()))))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _asked(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[bytes, str | None]:
        """The body of the answer, and how long its JSON is, where more follows."""
        try:
            self._connection.request(method, f"/v2/models/{quote(self._model, safe='')}{path}", body, dict(headers))
            answer = self._connection.getresponse()
            found = answer.read()
        except (ConnectionResetError, BrokenPipeError, http.client.IncompleteRead):  # RemoteDisconnected is one of them
            raise RunError(f"{self._address}: the server ended the connection before it answered; its log may say why") from None
        except (OSError, http.client.HTTPException) as error:
            strange = isinstance(error, http.client.HTTPException)  # its text is what came, such as the bytes of HTTP/2
            reason = "what answers does not speak HTTP/1.1" if strange else str(error) or type(error).__name__
            raise RunError(f"{self._address}: no server answers there ({reason}); cnna serve starts one") from None
        if answer.status != http.HTTPStatus.OK:
            raise RunError(f"{self._address}: model {self._model}: {answer.status} {found[:200].decode(errors='replace')}")
        return found, answer.headers.get(LENGTH)


def _entry(name: str, x: NDArray[Any]) -> dict[str, Any]:
    """An input in the JSON of a request, whose bytes follow."""
    return {"name": name, "shape": list(x.shape), "datatype": NAMES[x.dtype.name], "parameters": {"binary_data_size": x.nbytes}}


def _listed(body: bytes, length: str | None) -> Iterator[Output]:
    """The tensors of an answer, binary or in JSON."""
    size = len(body) if length is None else int(length)
    rest = body[size:]
    for one in json.loads(body[:size])["outputs"]:
        taken = one.get("parameters", {}).get("binary_data_size")
        yield one["name"], one["datatype"], one["shape"], one["data"] if taken is None else rest[:taken]
        rest = rest[taken or 0 :]


def outputs_of(outputs: Iterable[Output], samples: int) -> dict[str, NDArray[Any]]:
    """The tensors of an answer to some samples. DataError: they are none, or of another number of samples."""
    found = {}
    for name, datatype, shape, data in outputs:
        kind, sizes = checked(name, datatype, shape)
        if kind == BYTES:
            raise DataError(f"input {name}: it has texts, not numbers")
        found[name] = from_raw(name, kind, sizes, data) if isinstance(data, bytes) else from_list(name, kind, sizes, data)
        if found[name].size % samples:
            raise DataError(f"input {name}: {found[name].size} numbers are no answer to {samples} samples")
    if not found:
        raise ValueError("nothing is answered")
    return found


def inputs_of(where: str, inputs: Iterable[tuple[str, str, list[int]]]) -> list[Input]:
    """The inputs that a server says, by name, type and shape as the protocol has them. RunError: samples cannot be made of them."""
    found: list[Input] = []
    for name, datatype, shape in inputs:
        if datatype not in TYPES:
            raise RunError(f"{where} has an input that is no tensor of numbers: {name} is {datatype:.20}")
        if not shape:
            raise RunError(f"{where}: input {name} has no axis of samples")
        sample = tuple(max(n, 1) for n in shape[1:])
        if elements(sample) * np.dtype(TYPES[datatype]).itemsize > MOST_BYTES:
            raise RunError(f"{where}: a sample of input {name} is over {MOST_BYTES:,} bytes, more than a request holds")
        found.append((name, sample, TYPES[datatype]))
    if not found:
        raise RunError(f"{where}: has no input")
    return found


@contextmanager
def refused(where: str) -> Iterator[None]:
    """RunError, which names the server: its answer is not what the protocol says."""
    try:
        yield
    except DataError as error:  # its words are those of a server that reads
        raise RunError(f"{where}: its answer is wrong: output {str(error).removeprefix('input ')}") from None
    except STRANGE:
        raise RunError(f"{where}: does not answer as the Open Inference Protocol says") from None
