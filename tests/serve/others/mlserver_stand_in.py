"""Stands in for MLServer 1.7: the few names that the example's runtime imports, with what they do there."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.protocol.tensors import TYPES, name_of


class MLServerError(Exception):
    """An error with the status of HTTP that its client gets."""

    def __init__(self, message: str, status_code: int = 400) -> None:
        super().__init__(message)
        self.status_code = status_code


class MLModel:
    """The base of runtimes."""

    def __init__(self, settings: Any) -> None:
        self.settings, self.name = settings, settings.name
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []


@dataclass
class Wire:
    """A tensor of a request or an answer: its data are numbers in a flat list."""

    name: str
    shape: list[int]
    datatype: Any
    data: list[Any]


class NumpyCodec:
    """Lists to arrays and back."""

    @staticmethod
    def decode_input(one: Wire) -> NDArray[Any]:
        return np.array(one.data, TYPES[one.datatype.value]).reshape(one.shape)

    @staticmethod
    def encode_output(name: str, array: NDArray[Any]) -> Wire:
        return Wire(name, list(array.shape), SimpleNamespace(value=name_of(array.dtype)), array.reshape(-1).tolist())


@dataclass
class InferenceRequest:
    """What a client sends."""

    inputs: list[Wire]
    outputs: list[Any] | None = None
    id: str | None = None


@dataclass
class InferenceResponse:
    """What it gets."""

    model_name: str
    outputs: list[Wire]
    id: str | None = None
    model_version: str | None = None


@dataclass
class MetadataTensor:
    """What a model takes or gives."""

    name: str
    datatype: str
    shape: list[int] = field(default_factory=list)


@contextmanager
def installed() -> Iterator[None]:
    """While it lasts, `import mlserver` finds this."""
    names: dict[str, tuple[type, ...]] = {
        "mlserver": (MLModel,),
        "mlserver.codecs": (NumpyCodec,),
        "mlserver.errors": (MLServerError,),
        "mlserver.types": (InferenceRequest, InferenceResponse, MetadataTensor),
    }
    for name, kinds in names.items():
        sys.modules[name] = ModuleType(name)
        for kind in kinds:
            setattr(sys.modules[name], kind.__name__, kind)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
