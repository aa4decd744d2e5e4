"""Names that no file can have, and arguments of a wrong kind: the same line as for a file that is missing, or a TypeError."""

from typing import Any

import numpy as np
import onnx
import pytest

import cnna

from .conftest import samples

NAMES = ("a" * 5000, "a\0b")


@pytest.mark.parametrize("name", NAMES, ids=["too long", "with a NUL"])
def test_a_model_that_no_file_can_be(name: str) -> None:
    """The system's own error for such a name would be a traceback."""
    for job in (cnna.explain, lambda model: cnna.compile(model, "tiny"), lambda model: cnna.quantize(model, np.zeros(1))):
        with pytest.raises(cnna.UserError, match=r"no such file|file name too long"):
            job(name)


@pytest.mark.parametrize("name", NAMES, ids=["too long", "with a NUL"])
def test_data_and_outputs_that_no_file_can_be(name: str, in_float: onnx.ModelProto, quantised: onnx.ModelProto) -> None:
    """As above; an output must fail before the work, not behind it."""
    with pytest.raises(cnna.UserError, match=r"no such file|file name too long"):
        cnna.quantize(in_float, name)
    if "\0" not in name:
        with pytest.raises(cnna.UserError, match=r"file name too long"):
            cnna.compile(quantised, "tiny", output=name)


def test_figures_of_a_run_are_a_table(quantised: onnx.ModelProto) -> None:
    """A report in their place, or a number, would be an AttributeError somewhere inside."""
    compiled = cnna.compile(quantised, "tiny")
    wrong: tuple[Any, ...] = (5, cnna.report(compiled))
    for measured in wrong:
        with pytest.raises(TypeError, match=r"measured must be a path or figures of a run, or None, not \w+"):
            cnna.report(compiled, measured)
    with pytest.raises(TypeError, match=r"preprocess must be a table, .*, or a Preprocess, or None, not 5"):
        cnna.quantize(quantised, samples(2), preprocess=5)  # type: ignore[arg-type]
