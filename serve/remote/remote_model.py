"""A model of another server, as a runtime: its versions hold no files, and model.yaml says where it is.

runtime: remote
remote:
  address: grpc://10.0.0.2:8001   # grpcs:// for TLS
  model: digits                   # by its name there; the same as here, unless it is said
  version: 3                      # the other server's choice, unless it is said
  token_file: token               # a file in the folder of model.yaml, or an absolute path
  certificate: ca.pem             # whom to trust; the system's, unless it is said
  batch: 8                        # the most samples in a request

Errors keep the other server's words. What it refuses as malformed is a DataError here, its deadline a LateError, and all else a
BusyError.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.models.settings import is_address, version_name
from cnna.serve.protocol import tensors
from cnna.serve.runtimes.interface import USUAL_BATCH, Arrays, Call, Description, Place, Tensor
from cnna.spec.checks.json_kinds import is_whole
from cnna.spec.errors import ArtifactError, BusyError, CnnaError, DataError, LateError, ToolError, UserError, reason_of
from cnna.spec.extras import install
from cnna.spec.files import read_bytes

KEYS = ("address", "model", "version", "token_file", "certificate", "batch")
SERVICE = "inference.GRPCInferenceService"
ASK_SECONDS = 10.0  # for metadata
MOST_SECONDS = 3600.0
MOST_BYTES = 64 << 20
MOST_BATCH = 4096


class RemoteModel:
    """One model of another server. Opening it calls nobody."""

    def __init__(self, place: Place) -> None:
        try:
            import grpc
        except ModuleNotFoundError:
            raise ToolError(f"{place.folder}: the runtime remote needs the package grpcio: {install('serve')}") from None
        self._codes = grpc.StatusCode
        self._where, options = f"{place.folder.parent}/model.yaml: remote", dict(place.options)
        for key in options:
            if key not in KEYS:
                raise UserError(f"{self._where}: unknown key {key!r}; there are {', '.join(KEYS)}")
        address = options.get("address")
        if not is_address(address):
            raise UserError(f"{self._where}: address: {address!r} is not like grpc://10.0.0.2:8001 or grpcs://...")
        self.address, self._model = address, options.get("model", place.model)
        if not isinstance(self._model, str) or not self._model:
            raise UserError(f"{self._where}: model: {self._model!r} is no name")
        self._version = version_name(options["version"]) if "version" in options else ""
        if self._version is None:
            raise UserError(f"{self._where}: version: {options['version']!r} is no positive integer")
        self._batch = options.get("batch", USUAL_BATCH)
        if not is_whole(self._batch, 1, MOST_BATCH + 1):
            raise UserError(f"{self._where}: batch: {self._batch!r} is not an integer within 1..{MOST_BATCH}")
        token = self._file(place, "token_file")
        self._metadata = [] if token is None else [("authorization", f"Bearer {token.decode('ascii', 'replace').strip()}")]
        sizes = [(f"grpc.max_{way}_message_length", MOST_BYTES) for way in ("send", "receive")]
        pause = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 5000)]
        target = address.partition("//")[2]
        if address.startswith("grpcs://"):
            trusted = grpc.ssl_channel_credentials(self._file(place, "certificate"))
            self._channel = grpc.secure_channel(target, trusted, [*sizes, *pause])
        else:
            self._channel = grpc.insecure_channel(target, [*sizes, *pause])

    def describe(self) -> Description:
        """What the other server says. BusyError: it does not answer. ArtifactError: such a model cannot be passed on."""
        request = pb.ModelRequest(name=self._model, version=self._version)
        said = self._call("ModelMetadata", request, pb.ModelMetadataResponse, ASK_SECONDS)
        return Description(
            tuple(self._tensor("input", one) for one in said.inputs),
            tuple(self._tensor("output", one) for one in said.outputs),
            self._batch,
            bounded=True,
        )

    def run(self, inputs: Arrays, call: Call) -> Arrays:
        request = pb.ModelInferRequest(model_name=self._model, model_version=self._version, id=call.request_id)
        for name, array in inputs.items():
            request.inputs.add(name=name, datatype=tensors.name_of(array.dtype), shape=array.shape)
            request.raw_input_contents.append(tensors.to_raw(array))
        left = call.until - time.monotonic()
        if left <= 0:
            raise LateError(f"{self.address}, model {self._model}: was not asked: the deadline had passed")
        if left < MOST_SECONDS:
            request.parameters["timeout"].int64_param = max(1, int(left * 1e6))
        answer = self._call("ModelInfer", request, pb.ModelInferResponse, min(left, MOST_SECONDS))
        if len(answer.raw_output_contents) != len(answer.outputs):
            raise BusyError(f"{self.address}, model {self._model}: its outputs are not raw")
        found: Arrays = {}
        for entry, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
            datatype, shape = tensors.checked(entry.name, entry.datatype, list(entry.shape))
            found[entry.name] = tensors.from_raw(entry.name, datatype, shape, raw)
        return found

    def close(self) -> None:
        self._channel.close()

    def _call(self, name: str, request: Any, kind: Any, seconds: float) -> Any:
        """An answer. Its errors are this runtime's, with the other server's words."""
        import grpc

        method: Callable[..., Any] = self._channel.unary_unary(
            f"/{SERVICE}/{name}", type(request).SerializeToString, kind.FromString
        )
        try:
            return method(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> CnnaError:
        text = f"{self.address}, model {self._model}: {reason_of(error)}"
        if error.code() == self._codes.DEADLINE_EXCEEDED:
            return LateError(text)
        return DataError(text) if error.code() == self._codes.INVALID_ARGUMENT else BusyError(text)

    def _tensor(self, what: str, entry: Any) -> Tensor:
        if entry.datatype not in tensors.TYPES or not entry.shape or entry.shape[0] != -1:
            shape = list(entry.shape)
            raise ArtifactError(
                f"{self.address}, model {self._model}: {what} {entry.name} is {entry.datatype} {shape}; "
                "this server passes on numbers whose shape begins with -1"
            )
        sizes = tuple(None if size < 0 else int(size) for size in entry.shape[1:])
        if what == "output" and None in sizes:
            raise ArtifactError(f"{self.address}, model {self._model}: the size of output {entry.name} is open")
        return Tensor(entry.name, tensors.TYPES[entry.datatype], sizes, exact=False)

    def _file(self, place: Place, key: str) -> bytes | None:
        name = place.options.get(key)
        if name is None:
            return None
        if not isinstance(name, str):
            raise UserError(f"{self._where}: {key}: {name!r} is no path")
        return read_bytes(place.folder.parent / Path(name))
