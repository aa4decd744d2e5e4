"""What happens to uint8 pictures before the network (`cnna.spec.samples.preprocess`), kept in the model's metadata."""

import json
from typing import Any

from onnx import ModelProto

from cnna.spec.errors import ModelError
from cnna.spec.samples.preprocess import Preprocess, from_entry

__all__ = ["KEY", "Preprocess", "entries", "store", "stored"]
KEY = "cnna.preprocess"


def store(model: ModelProto, preprocess: Preprocess) -> None:
    """Writes the preprocessing into a model's metadata, in place of an earlier one."""
    kept = [entry for entry in model.metadata_props if entry.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=KEY, value=json.dumps(preprocess.entry()))


def stored(model: ModelProto) -> Preprocess | None:
    """The preprocessing in a model's metadata. ModelError: unreadable."""
    found = entries(model)
    return from_entry(found, _place(json.dumps(found))) if found else None


def entries(model: ModelProto) -> dict[str, Any]:
    """The preprocessing in a model's metadata, as a table; empty if there is none. ModelError: it is no table."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            try:
                found = json.loads(entry.value)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise ModelError(f"{_place(entry.value)} cannot be read; quantise the model again")
            return found
    return {}


def _place(value: str) -> str:
    return f"the model's metadata '{KEY}', {value[:80]!r},"
