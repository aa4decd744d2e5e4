"""Bodies of inference requests and answers: JSON, and behind it the raw bytes of tensors that say `binary_data_size`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cnna.serve.protocol import parameters, tensors
from cnna.serve.requests.request import Result
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.counts import shown
from cnna.spec.errors import DataError

LENGTH = "inference-header-content-length"
ALLOW_NAN = "allow_nan"  # a parameter of ours
MOST_TENSORS = 256
MOST_JSON = 16 << 20  # bytes: it is read in one piece, for which all others wait


@dataclass(frozen=True)
class Wanted:
    """An output that a client asks for. classes: so many of the classification extension, in place of the values."""

    name: str
    binary: bool
    classes: int = 0


@dataclass(frozen=True, eq=False)
class Asked:
    """A request as a client sent it. outputs: None for all, in JSON or binary as `binary` says."""

    inputs: dict[str, NDArray[Any]]
    outputs: list[Wanted] | None
    binary: bool
    request_id: str | None
    allow_nan: bool = False  # numbers that are not finite may stand in JSON, as Python and Triton write them: NaN, Infinity
    more: dict[str, Any] = field(default_factory=dict)  # arguments of `Core.admit`


def read(body: bytes, length: str | None, check_names: Callable[[Sequence[str]], None] = lambda names: None) -> Asked:
    """Reads a request. length: the header LENGTH. DataError: it is malformed; the line says where and what is right.

    check_names: is called with the inputs' names if one of them is malformed. It raises what is wrong with the names, which comes
    first: the values may be those of another input.
    """
    size = len(body) if length is None else _header(length, len(body))
    if size > MOST_JSON:
        raise DataError(f"the JSON of a request has at most {MOST_JSON:,} bytes; send binary tensors behind it")
    literals: list[str] = []

    def literal(text: str) -> float:
        literals.append(text)
        return float(text)

    try:
        found = json.loads(body[:size], parse_constant=literal)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the body is not JSON: {error}; binary tensors need the header {LENGTH}") from None
    _check_inputs(found)
    given = _parameters(found, "the request")
    allow_nan = _flag(given, ALLOW_NAN)
    if literals and not allow_nan:
        raise DataError(
            f"the body is not JSON: it has {literals[0]}; send binary tensors, or set the parameter {ALLOW_NAN} to true"
        )
    names = [_name(entry, "inputs") for entry in found["inputs"]]
    try:
        inputs, raw = _inputs(names, found["inputs"], memoryview(body)[size:])
    except DataError:
        check_names(names)
        raise
    if len(raw):
        raise DataError(f"{len(raw)} bytes behind the JSON belong to no input: give each binary_data_size")
    binary = _flag(given, "binary_data_output")
    outputs, more = _outputs(found.get("outputs"), binary), parameters.of_request(given)
    return Asked(inputs, outputs, binary, _text(found, "id"), allow_nan, more)


def write(asked: Asked, result: Result) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if tensors follow it.

    DataError: an output has a value that JSON does not have, and the request does not allow it.
    """
    wanted = asked.outputs if asked.outputs is not None else [Wanted(name, asked.binary) for name in result.outputs]
    entries, raw = [], list[bytes]()
    for one in wanted:
        array = result.outputs[one.name]
        if one.classes:
            array = tensors.ranked(result.outputs, one.name, one.classes, result.labels.get(one.name, ()), result.detects)
        entry: dict[str, Any] = {"name": one.name, "datatype": tensors.name_of(array.dtype), "shape": list(array.shape)}
        if one.binary:
            raw.append(tensors.to_raw(array))
            entry["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            if not asked.allow_nan:
                _check_finite(one.name, array)
            entry["data"] = tensors.to_list(array)
        entries.append(entry)
    head: dict[str, Any] = {"model_name": result.model, "model_version": result.version, "outputs": entries}
    if result.runtime != CNNA:
        head["parameters"] = {parameters.RUNTIME: result.runtime}
    if asked.request_id is not None:
        head["id"] = asked.request_id
    text = json.dumps(head, separators=(",", ":")).encode()
    return (b"".join([text, *raw]), len(text)) if raw else (text, None)


def no_number(text: str) -> NoReturn:
    """For `parse_constant` of `json.loads`. ValueError: JSON has no such number."""
    raise ValueError(f"it has {text}")


def _check_finite(name: str, array: NDArray[Any]) -> None:
    """DataError: an output cannot be said in JSON."""
    odd = array.size - np.count_nonzero(np.isfinite(array)) if array.dtype.kind == "f" else 0
    if odd:
        raise DataError(
            f"output {name}: JSON has no NaN and no infinity, but {odd:,} of {array.size:,} values are one; "
            f"ask for binary_data, use gRPC, or set the request's parameter {ALLOW_NAN} to true"
        )


def _header(length: str, most: int) -> int:
    if not length.isdecimal() or not length.isascii() or len(length) > 18 or int(length) > most:
        raise DataError(f"{LENGTH}: {length[:30]!r} must be the number of bytes of the JSON, {most} at most")
    return int(length)


def _check_inputs(found: Any) -> None:
    """DataError: a body has no list of inputs. An empty list is for the engine, which knows the inputs that are missing."""
    if not isinstance(found, dict):
        raise DataError(f'the body is {_kind(found)}; it must be an object with a list "inputs"')
    if "inputs" not in found:
        raise DataError('the body has no "inputs"; it must have a list of them, each with name, datatype, shape and data')
    if not isinstance(found["inputs"], list):
        raise DataError(f'"inputs" is {_kind(found["inputs"])}; it must be a list of objects with name, datatype, shape and data')
    if len(found["inputs"]) > MOST_TENSORS:
        raise DataError(f"{len(found['inputs'])} inputs are more than {MOST_TENSORS} inputs; send fewer")


def _kind(value: Any) -> str:
    """What a value of JSON is, in JSON's words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")


def _inputs(
    names: Sequence[str], entries: Sequence[Mapping[str, Any]], raw: memoryview
) -> tuple[dict[str, NDArray[Any]], memoryview]:
    """The tensors, and the bytes that are left."""
    inputs: dict[str, NDArray[Any]] = {}
    for name, entry in zip(names, entries, strict=True):
        if name in inputs:
            raise DataError(f"input {name} is there twice")
        inputs[name], raw = _input(name, entry, raw)
    return inputs, raw


def _input(name: str, entry: Mapping[str, Any], raw: memoryview) -> tuple[NDArray[Any], memoryview]:
    """A tensor, and the bytes that are left."""
    for key in ("datatype", "shape"):
        if entry.get(key) is None:
            raise DataError(f'input {name}: has no "{key}"; give what the metadata of the model say')
    datatype, shape = tensors.checked(name, entry.get("datatype"), entry.get("shape"))
    given = _parameters(entry, f"input {name}")
    parameters.no_shared_memory(f"input {name}", given)
    size = given.get("binary_data_size")
    if size is None:
        if "data" not in entry:
            raise DataError(f'input {name}: has neither "data" nor the parameter binary_data_size')
        return tensors.from_list(name, datatype, shape, entry["data"]), raw
    if type(size) is not int or not 0 <= size <= len(raw):
        raise DataError(f"input {name}: binary_data_size is {shown(size)}, but {len(raw)} bytes are left behind the JSON")
    return tensors.from_raw(name, datatype, shape, raw[:size]), raw[size:]


def _outputs(entries: Any, binary: bool) -> list[Wanted] | None:
    if entries is None or entries == []:
        return None
    if not isinstance(entries, list) or len(entries) > MOST_TENSORS:
        raise DataError(f'"outputs" must be a list of at most {MOST_TENSORS} objects')
    found: list[Wanted] = []
    for entry in entries:
        name = _name(entry, "outputs")
        given = _parameters(entry, f"output {name}")
        parameters.no_shared_memory(f"output {name}", given)
        if any(name == other.name for other in found):
            raise DataError(f"output {name} is there twice")
        found.append(Wanted(name, _flag(given, "binary_data", binary), parameters.classes(name, given)))
    return found


def _name(entry: Any, where: str) -> str:
    if not isinstance(entry, dict):
        raise DataError(f'"{where}" holds {_kind(entry)}; each must be an object with a "name"')
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise DataError(f'one of "{where}" has no "name", or one that is no text; each must be an object with a "name"')
    return name


def _parameters(entry: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    found = entry.get("parameters")
    if found is not None and not isinstance(found, dict):
        raise DataError(f'{where}: "parameters" must be an object')
    return found or {}


def _flag(given: Mapping[str, Any], name: str, default: bool = False) -> bool:
    value = given.get(name, default)
    if type(value) is not bool:
        raise DataError(f"parameter {name}: {shown(value)} must be true or false")
    return value


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > 1000):
        raise DataError(f'"{name}" must be a text of at most 1000 letters')
    return value
