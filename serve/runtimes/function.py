"""The runtime `function`: a Python function of the user's, for steps of pipelines between models.

options: `function` (`package.module:name`, or `module:name` for module.py in the folder), `inputs` and `outputs` as `Tensor` has
them. It gets the whole arrays of a request by name, and returns a dict, or its outputs in order; each may have any number of rows.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from cnna.serve.runtimes.interface import Arrays, Call, Description, Place, Tensor, tensor_of
from cnna.spec.errors import BusyError, UserError, reason_of

NAME = "function"
MOST_ROWS = 1 << 20


def options_of(function: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """What `Place.options` has for a function."""
    tensors = {"inputs": inputs, "outputs": outputs}
    return {"function": function, **{name: [vars(tensor) for tensor in found] for name, found in tensors.items()}}


class Function:
    """One function of one module. The module is imported anew when the version is opened anew, if it is a file in the folder."""

    def __init__(self, place: Place) -> None:
        if not {"function", "inputs", "outputs"} <= set(place.options):
            raise UserError(f"{place.folder}: the runtime {NAME} is for steps of pipelines; write pipeline.yaml")
        self._name: str = place.options["function"]
        inputs, outputs = (tuple(map(tensor_of, place.options[key])) for key in ("inputs", "outputs"))
        self._described = Description(inputs, outputs, MOST_ROWS)
        module_name, _, name = self._name.partition(":")
        module = _module(place, module_name)
        found = getattr(module, name, None)
        if not callable(found):
            own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
            raise UserError(f"{module_name} has no function {name!r}; it has {', '.join(own) or 'none'}")
        self._function: Callable[..., Any] = found

    def describe(self) -> Description:
        return self._described

    def run(self, inputs: Arrays, call: Call) -> Arrays:
        found, names = self._function(**inputs), [tensor.name for tensor in self._described.outputs]
        if isinstance(found, Mapping):
            return {name: np.asarray(y) for name, y in found.items()}
        values = found if isinstance(found, tuple | list) and len(names) > 1 else [found]
        if len(values) != len(names):
            raise BusyError(f"{self._name} returned {len(values)} arrays, but declares {', '.join(names)}")
        return {name: np.asarray(y) for name, y in zip(names, values, strict=True)}

    def close(self) -> None:
        pass


def _module(place: Place, name: str) -> ModuleType:
    """A file of the folder goes first. UserError: it cannot be imported."""
    path = place.folder / f"{name}.py"
    try:
        if not path.is_file():
            return importlib.import_module(name)
        own = f"_cnna_step_{place.model}_{place.version}_{name}".replace(":", "_")
        spec = importlib.util.spec_from_file_location(own, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[own] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{name} cannot be imported: {type(error).__name__}: {reason_of(error)}") from None
    return module
