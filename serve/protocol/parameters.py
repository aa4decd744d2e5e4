"""Parameters that the engine knows: Triton's priority, timeout, sequence_id and classification; what counts as a detection; and
those that it refuses.
"""

from collections.abc import Mapping
from typing import Any

from cnna.serve.models.thresholds import KEYS
from cnna.spec.counts import shown
from cnna.spec.errors import DataError

MOST_CLASSES = 1000
RUNTIME = "cnna_runtime"  # of an answer that was not computed by an accelerator: by what it was


def of_request(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for `Core.admit`. DataError: a value is of another kind or out of range."""
    more: dict[str, Any] = {}
    for key, name, most in (("priority", "priority", 1 << 32), ("timeout", "timeout_us", 1 << 53)):
        value = parameters.get(key, 0)
        if type(value) is not int or not 0 <= value < most:
            raise DataError(f"parameter {key}: {shown(value)} must be an integer from 0 up")
        more[name] = value
    sequence = parameters.get("sequence_id", 0)
    if type(sequence) not in (int, str):
        raise DataError(f"parameter sequence_id: {shown(sequence)} must be an integer or a text")
    more["sequence_id"] = str(sequence) if sequence else ""
    more["detect"] = {key: parameters[key] for key in KEYS if key in parameters}
    return more


def no_shared_memory(where: str, given: Mapping[str, Any]) -> None:
    """DataError: a tensor lies in Triton's shared memory, which is not built."""
    if "shared_memory_region" in given:
        raise DataError(f"{where}: there is no shared memory here; send tensors in the request, and take them from the answer")


def of_repository(given: Any) -> None:
    """DataError: a load or unload says how; Triton's clients always say that dependents stay. A model is what its folder says."""
    if not isinstance(given, Mapping):
        raise DataError('"parameters" must be an object')
    for name, value in given.items():
        if value is not False:
            raise DataError(f"parameter {name}: load and unload take none; what a model is stands in its folder")


def classes(name: str, parameters: Mapping[str, Any]) -> int:
    """How many classes of an output are wanted; 0 stands for the values. DataError: it is no such number."""
    count = parameters.get("classification", 0)
    if type(count) is not int or not 0 <= count <= MOST_CLASSES:
        raise DataError(f"output {name}: classification: {shown(count)} must be a number of classes, {MOST_CLASSES} at most")
    return count
