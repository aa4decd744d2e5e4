"""What uint8 pictures go through before the network (`cnna.spec.preprocess`), kept in the model's metadata."""

import json
from typing import Any

from onnx import ModelProto

from cnna.spec.errors import ModelError
from cnna.spec.preprocess import Preprocess, from_entry

__all__ = ["KEY", "Preprocess", "entries", "store", "stored"]
KEY = "cnna.preprocess"


def store(model: ModelProto, preprocess: Preprocess) -> None:
    """Writes it into a model's metadata, in the place of what was there."""
    kept = [entry for entry in model.metadata_props if entry.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=KEY, value=json.dumps(preprocess.entry()))


def stored(model: ModelProto) -> Preprocess | None:
    """What a model's metadata hold. ModelError: unreadable."""
    found = entries(model)
    return from_entry(found, _place(json.dumps(found))) if found else None


def entries(model: ModelProto) -> dict[str, Any]:
    """What a model's metadata hold, as a table; empty where there is none. ModelError: no table."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            try:
                found = json.loads(entry.value)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                raise ModelError(f"{_place(entry.value)} cannot be read")
            return found
    return {}


def _place(value: str) -> str:
    return f"the model's metadata '{KEY}', {value[:80]!r},"
