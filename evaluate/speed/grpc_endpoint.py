"""A client of the Open Inference Protocol over gRPC, version 2, with raw tensors: one channel, one request at a time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.speed.endpoint import MOST_BYTES, SECONDS, HttpEndpoint, Input, inputs_of, outputs_of, refused
from cnna.serve.protocol.tensors import NAMES
from cnna.spec.errors import RunError, ToolError, reason_of
from cnna.spec.extras import install

GRPC = "grpc://"
SERVICE = "inference.GRPCInferenceService"


class GrpcEndpoint:
    """A model of a server. address: grpc://HOST:PORT. ToolError: grpcio is missing. RunError: as of HttpEndpoint."""

    def __init__(self, address: str, model: str) -> None:
        try:
            import grpc

            from cnna.serve.grpc import open_inference_pb2
        except ModuleNotFoundError:
            raise ToolError(f"{address}: a server over gRPC needs the package grpcio: {install('serve')}") from None
        self._messages: Any = open_inference_pb2
        self._address, self._model, self._failed = address, model, grpc.RpcError
        sizes = [(f"grpc.max_{way}_message_length", MOST_BYTES) for way in ("send", "receive")]
        apart = [("grpc.use_local_subchannel_pool", 1)]  # or all channels of a process share one connection
        self._channel = grpc.insecure_channel(address.removeprefix(GRPC), [*sizes, *apart])
        self._gone = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNIMPLEMENTED)

    def inputs(self) -> list[Input]:
        """Name, shape of a sample, and numpy type of each input."""
        said = self._asked("ModelMetadata", self._messages.ModelRequest(name=self._model), self._messages.ModelMetadataResponse)
        return inputs_of(f"{self._address}: model {self._model}", [(one.name, one.datatype, [*one.shape]) for one in said.inputs])

    def infer(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs for some samples, [n, ...] each."""
        request = self._messages.ModelInferRequest(model_name=self._model)
        for name, array in inputs.items():
            request.inputs.add(name=name, datatype=NAMES[array.dtype.name], shape=array.shape)
            request.raw_input_contents.append(np.ascontiguousarray(array).tobytes())
        answer = self._asked("ModelInfer", request, self._messages.ModelInferResponse)
        if len(answer.raw_output_contents) != len(answer.outputs):
            raise RunError(f"{self._address}: model {self._model}: its outputs are not raw")
        pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
        with refused(f"{self._address}: model {self._model}"):
            found = ((one.name, one.datatype, tuple(one.shape), raw) for one, raw in pairs)
            return outputs_of(found, len(next(iter(inputs.values()))))

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def _asked(self, method: str, request: Any, kind: Any) -> Any:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}", type(request).SerializeToString, kind.FromString)
        try:
            return call(request, timeout=SECONDS)
        except self._failed as error:
            code: Any = error.code()
            if code in self._gone:
                raise RunError(f"{self._address}: no server answers there ({reason_of(error)}); cnna serve starts one") from None
            raise RunError(f"{self._address}: model {self._model}: {code.name} {reason_of(error)}") from None


Endpoint = HttpEndpoint | GrpcEndpoint


def endpoint(address: str, model: str) -> Endpoint:
    """A client of the protocol that the address names."""
    return GrpcEndpoint(address, model) if address.startswith(GRPC) else HttpEndpoint(address, model)
