"""Tensors whose channels the quantiser has scaled (`compiler/quantise/equalise`), kept in the quantised model's metadata.

Whoever compares such a tensor with the user's model needs its name there, and the factors.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from cnna.compiler.graph.ir import Scaled
from cnna.spec.errors import ModelError

KEY = "cnna.scaled_channels"  # of a model's metadata


def store(model: ModelProto, scaled: Mapping[str, Scaled]) -> None:
    """Writes the tensors into a model's metadata; nothing for none. Factors are rounded to float32, as all real numbers are."""
    if scaled:
        table = {name: [one.name, [float(f"{factor:.9g}") for factor in one.factors]] for name, one in scaled.items()}
        model.metadata_props.add(key=KEY, value=json.dumps(table, separators=(",", ":")))


def stored(model: ModelProto) -> dict[str, Scaled]:
    """What `store` has written, by tensor. ModelError: it cannot be read."""
    text = next((entry.value for entry in model.metadata_props if entry.key == KEY), "{}")
    try:
        return {name: _read(*entry) for name, entry in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise ModelError(f"the model's metadata '{KEY}', {text[:80]!r}, cannot be read; quantise it again") from None


def _read(name: Any, factors: Any) -> Scaled:
    """An entry of the table. ValueError, TypeError: it is none."""
    found = np.array(factors, np.float64)
    if not isinstance(name, str) or found.ndim != 1 or not np.isfinite(found).all() or not (found > 0).all():
        raise ValueError(name)
    return Scaled(name, tuple(found.tolist()))
