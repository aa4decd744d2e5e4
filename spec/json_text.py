"""JSON as RFC 8259 has it. Python would write `NaN` and `Infinity`, which other readers of JSON refuse; here they are null."""

import json
import math
from typing import Any


def json_text(value: Any, **layout: Any) -> str:
    """A value as JSON, in which a number that is not finite is null. layout: `indent` and `separators` of `json.dumps`."""
    try:
        return json.dumps(value, allow_nan=False, **layout)
    except ValueError:  # rare, so that only then all of it is copied
        return json.dumps(_finite(value), allow_nan=False, **layout)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key if not isinstance(key, float) or math.isfinite(key) else str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
