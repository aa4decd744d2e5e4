"""Graphs as exporters write them: each compiles and runs, as docs/operators.md says."""

from pathlib import Path

import conformance
import exported
import numpy as np
import onnx
import pytest
from conformance_cases import exported_cases

CASES = exported_cases()
BYTES_MAX = 120_000  # of a committed graph: without weights it needs no more


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_exported_graph_does_as_well_as_committed(case: conformance.Case, root: Path) -> None:
    """Users bring what exporters write: they would find a crash, or an answer that differs from onnxruntime's."""
    before = conformance.kept(root / "docs")
    result = conformance.run(case)
    assert result.verdict in ("accelerated", "cpu", "refused"), result
    assert not conformance.fallen([result], before), f"{result}; it was {before[case.key]}"
    assert case.key in before, "make conformance has not seen it"


def test_graphs_are_committed_without_weights_and_get_the_same_ones_each_time() -> None:
    """Megabytes of random numbers would stay in the history for ever; other numbers each time would give other answers."""
    assert all((exported.FOLDER / f"{name}.onnx").stat().st_size < BYTES_MAX for name in exported.names())
    first, again = (exported.load("residual-torchscript") for _ in range(2))
    assert first == again
    onnx.checker.check_model(first)
    large = [onnx.numpy_helper.to_array(tensor) for tensor in first.graph.initializer]
    assert max(values.size for values in large) > 1000
    assert all(np.isfinite(values).all() for values in large)


def test_multiply_accumulates_are_counted_by_hand() -> None:
    """The share on the page depends on this number."""
    model = exported.load("residual-torchscript")
    maps = 16 * 3 * 49 * 256 + 2 * 16 * 16 * 9 * 64 + 32 * 16 * 9 * 16 + 32 * 32 * 9 * 16 + 32 * 16 * 16
    assert exported.macs(model) == maps + 32 * 10
    assert exported.macs(exported.load("residual-qoperator-uint8-tensor")) == maps + 32 * 10
