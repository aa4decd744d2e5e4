"""The table of attributes that the compiler honours, compared with ONNX's operators in every opset."""

import onnx.defs
import pytest

from cnna.compiler.frontend.onnx_model.attributes import ATTRIBUTES
from cnna.compiler.frontend.pieces.support import RUNS, STEEP_KINDS, VIEW_KINDS


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_the_table_has_what_onnx_has(kind: str) -> None:
    """What a new opset adds must be read by a pass before the table has it: until then, a node with it is refused."""
    every = [one for one in onnx.defs.get_all_schemas_with_history() if (one.name, one.domain) == (kind, "")]
    assert {*ATTRIBUTES[kind]} == {name for one in every for name in one.attributes}


def test_every_operator_that_runs_is_in_the_table() -> None:
    """A pass looks into these; an attribute that it does not know would be ignored without a word."""
    assert {*RUNS, *STEEP_KINDS, *VIEW_KINDS, "QuantizeLinear", "DequantizeLinear"} <= {*ATTRIBUTES}
