"""JSON that every reader takes."""

import json

import pytest

from cnna.spec.json_text import json_text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_null(number: float) -> None:
    """`jq`, browsers and most languages refuse the whole file for one NaN in it."""
    value = {"a": [1.5, number, {"b": (number, "NaN", None, True)}], "c": 2}
    assert json.loads(json_text(value, indent=1)) == {"a": [1.5, None, {"b": [None, "NaN", None, True]}], "c": 2}


def test_all_else_is_as_python_writes_it() -> None:
    """A file of figures would change for nothing."""
    value = {"a": [1, 2.5, 1e300, -0.0], "b": {"c": "\u00e9"}}
    assert json_text(value, indent=1) == json.dumps(value, indent=1)
    assert json_text(value, separators=(",", ":")) == json.dumps(value, separators=(",", ":"))
