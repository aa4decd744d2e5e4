"""Stands in for Triton: `triton_python_backend_utils`, and what the server does with a model.py and its config.pbtxt.

It does what the documentation of Triton's Python backend says. A model is given its configuration as JSON. Input memory is taken
back when `execute` returns. A model in the default mode sends exactly one response for each request, which ends in the final flag.
Requests beyond max_batch_size never reach a model. It has none of Triton's processes: an instance is a module of its own.
"""

import importlib.util
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, text_format
from numpy.typing import NDArray

NUMPY = {"TYPE_FP32": np.float32, "TYPE_UINT8": np.uint8, "TYPE_INT64": np.int64, "TYPE_INT8": np.int8, "TYPE_STRING": np.object_}
WORDS = {"int64": 3, "int32": 5, "string": 9}  # types of fields, as a descriptor numbers them
ENUMS = {
    "DataType": {"TYPE_INVALID": 0, "TYPE_UINT8": 2, "TYPE_INT8": 6, "TYPE_INT64": 9, "TYPE_FP32": 11, "TYPE_STRING": 13},
    "Kind": {"KIND_AUTO": 0, "KIND_GPU": 1, "KIND_CPU": 2, "KIND_MODEL": 3},
}
NAMED = [("name", 1, "string", False), ("data_type", 2, "DataType", False)]
MESSAGES = {  # the fields of Triton's model_config.proto that are used here: name, number, type, whether it is repeated
    "Reshape": [("shape", 1, "int64", True)],
    "Input": [*NAMED, ("dims", 4, "int64", True), ("reshape", 5, "Reshape", False)],
    "Output": [*NAMED, ("dims", 3, "int64", True), ("reshape", 5, "Reshape", False)],
    "Group": [("count", 2, "int32", False), ("kind", 4, "Kind", False)],
    "Specific": [("versions", 1, "int64", True)],
    "Policy": [("specific", 3, "Specific", False)],
    "Parameter": [("string_value", 1, "string", False)],
    "Entry": [("key", 1, "string", False), ("value", 2, "Parameter", False)],
    "ModelConfig": [
        *(("name", 1, "string", False), ("version_policy", 3, "Policy", False), ("max_batch_size", 4, "int32", False)),
        *(("input", 5, "Input", True), ("output", 6, "Output", True), ("instance_group", 7, "Group", True)),
        *(("parameters", 14, "Entry", True), ("backend", 17, "string", False)),
    ],
}


def parsed(path: Path) -> dict[str, Any]:
    """A config.pbtxt as the JSON that a model is given."""
    file = descriptor_pb2.FileDescriptorProto(name="model_config", syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for word, number in values.items():
            enum.value.add(name=word, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            one = message.field.add(name=field, number=number, label=3 if repeated else 1)
            one.type = WORDS.get(kind, 14 if kind in ENUMS else 11)
            if kind not in WORDS:
                one.type_name = f".{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    config = message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelConfig"))()
    text_format.Parse(path.read_text(), config)
    found = json_format.MessageToDict(config, preserving_proto_field_name=True)
    found["parameters"] = {entry["key"]: entry["value"] for entry in found.get("parameters", [])}
    for one in (*found["input"], *found["output"]):
        one["dims"] = [int(size) for size in one["dims"]]
    return found


class TritonError:
    """An error of one request."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self.message, self.code = message, code


class TritonModelException(Exception):  # noqa: N818 - Triton calls it so
    """What a model raises where it cannot be loaded."""


class Tensor:
    """A named array."""

    def __init__(self, name: str, array: NDArray[Any]) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> NDArray[Any]:
        return self._array


class InferenceResponse:
    """Outputs, or an error."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self.outputs = {tensor.name(): tensor.as_numpy() for tensor in output_tensors}
        self.error = error


class Sender:
    """Takes exactly one response, and the final flag."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []
        self.closed = threading.Event()

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        assert not self.closed.is_set(), "the sender has been closed"
        assert response is None or not self.responses, "a model in the default mode cannot send more than one response"
        assert response is not None or self.responses, "it cannot send the final flag before a response"
        if response is not None:
            self.responses.append(response)
        if flags == 1:
            self.closed.set()


class Request:
    """A client's request on its way to a model; it is the model's no more when `execute` has returned."""

    def __init__(self, inputs: Mapping[str, NDArray[Any]], request_id: str = "", timeout_us: int = 0) -> None:
        self._inputs = [Tensor(name, array.copy()) for name, array in inputs.items()]
        self._request_id, self._timeout_us, self.sender = request_id, timeout_us, Sender()

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._request_id

    def timeout(self) -> int:
        return self._timeout_us

    def get_response_sender(self) -> Sender:
        return self.sender

    def take_back(self) -> None:
        """What the server does with the memory of inputs."""
        for tensor in self._inputs:
            tensor.as_numpy().fill(77)

    def answer(self) -> InferenceResponse:
        assert self.sender.closed.wait(600), "no final response came"
        return self.sender.responses[0]


class Instance:
    """A loaded instance of a model's version."""

    def __init__(self, root: Path, model: str, version: str, number: int = 0) -> None:
        self.config = parsed(root / model / "config.pbtxt")
        spec = importlib.util.spec_from_file_location(f"{model}_{version}_{number}", root / model / version / "model.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["triton_python_backend_utils"] = utilities()
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules["triton_python_backend_utils"]
        self.model = module.TritonPythonModel()
        given = {"model_config": json.dumps(self.config), "model_instance_name": f"{model}_0_{number}", "model_name": model}
        self.model.initialize({**given, "model_repository": str(root / model), "model_version": version})

    def ask(self, *requests: Request) -> None:
        """Gives requests to the model, unless they are more samples than it takes."""
        assert sum(len(one.inputs()[0].as_numpy()) for one in requests) <= self.config["max_batch_size"]
        assert self.model.execute(list(requests)) is None
        for request in requests:
            request.take_back()


def utilities() -> ModuleType:
    """The module that Triton gives to models."""
    module: Any = ModuleType("triton_python_backend_utils")
    module.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    module.triton_string_to_numpy = NUMPY.__getitem__
    for one in (TritonError, TritonModelException, Tensor, InferenceResponse):
        setattr(module, one.__name__, one)
    found: ModuleType = module
    return found
