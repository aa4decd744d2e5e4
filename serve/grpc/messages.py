"""Messages to arrays and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.protocol import parameters, tensors
from cnna.serve.requests.request import Result
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.errors import DataError

CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def inputs_of(request: pb.ModelInferRequest) -> dict[str, NDArray[Any]]:
    """The inputs of a request. DataError: they are malformed."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise DataError(f"there are {len(request.inputs)} inputs, but {len(raw)} raw_input_contents: give one for each, or none")
    found: dict[str, NDArray[Any]] = {}
    for number, entry in enumerate(request.inputs):
        parameters.no_shared_memory(f"input {entry.name}", entry.parameters)
        datatype, shape = tensors.checked(entry.name, entry.datatype, list(entry.shape))
        if entry.name in found:
            raise DataError(f"input {entry.name} is there twice")
        if raw:
            found[entry.name] = tensors.from_raw(entry.name, datatype, shape, raw[number])
        else:
            found[entry.name] = _contents(entry, datatype, shape)
    return found


def _contents(entry: pb.InferTensor, datatype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if datatype not in CONTENTS:
        raise DataError(f"input {entry.name}: {datatype} needs raw_input_contents")
    values = getattr(entry.contents, CONTENTS[datatype])
    if len(values) != tensors.elements(shape):
        raise DataError(f"input {entry.name}: {list(shape)} has {tensors.elements(shape)} elements, but {len(values)} came")
    if datatype == tensors.BYTES:
        array = np.empty(len(values), object)
        array[:] = list(values)
        return array.reshape(shape)
    wide = np.array(values)
    made = wide.astype(tensors.TYPES[datatype])
    if made.dtype.kind in "iu" and not np.array_equal(made, wide):
        raise DataError(f"input {entry.name}: contents have values that {datatype} does not hold")
    return made.reshape(shape)


def arguments_of(request: pb.ModelInferRequest) -> dict[str, Any]:
    """Arguments for `Core.admit`. DataError: a parameter is malformed."""
    names = [output.name for output in request.outputs]
    for output in request.outputs:
        parameters.no_shared_memory(f"output {output.name}", output.parameters)
    return {**parameters.of_request(plain(request.parameters)), "request_id": request.id, "outputs": names}


def answer_of(request: pb.ModelInferRequest, result: Result) -> pb.ModelInferResponse:
    """The outputs that a request wants, raw."""
    wanted = {output.name: parameters.classes(output.name, plain(output.parameters)) for output in request.outputs}
    answer = pb.ModelInferResponse(model_name=result.model, model_version=result.version, id=request.id)
    if result.runtime != CNNA:
        answer.parameters[parameters.RUNTIME].string_param = result.runtime
    for name, count in (wanted or dict.fromkeys(result.outputs, 0)).items():
        array = result.outputs[name]
        if count:
            array = tensors.ranked(result.outputs, name, count, result.labels.get(name, ()), result.detects)
        answer.outputs.add(name=name, datatype=tensors.name_of(array.dtype), shape=array.shape)
        answer.raw_output_contents.append(tensors.to_raw(array))
    return answer


def plain(given: "Mapping[str, pb.InferParameter | pb.RepositoryParameter]") -> dict[str, Any]:
    """Parameters as JSON would have them."""
    return {name: getattr(value, value.WhichOneof("parameter_choice") or "bool_param") for name, value in given.items()}
