"""Random graphs of mixed operators, by hypothesis: reference == emulator == RTL, and all of them near onnxruntime.

Every graph goes the whole way: float model, quantisation, compilation for `tiny`, execution. `--seed N` draws others. A graph that
fails is printed as it was drawn, because hypothesis can take minutes to make it smaller.
"""

from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import onnxruntime
import pytest
from conformance import steps_off
from onnx import ModelProto, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.artifact import Artifact
from cnna.spec.config import PRESETS

from .mixed_graphs import mixed_graphs

TINY = PRESETS["tiny"]
SAMPLES = 2
STEPS, MEAN_STEPS = 4, 0.25  # of 255: a tie that onnxruntime rounds the other way is one step, which later layers may enlarge
TIE = 4e-6  # of a scale: more than float32 is off, less than what moves anything but ties
GRAPHS, MANY_GRAPHS = 20, 300
RTL_GRAPHS, MANY_RTL_GRAPHS = 2, 20


def on_graphs(check: Callable[[ModelProto], None], count: int, seed: int, least: int = 3) -> None:
    """Calls a check with random graphs of at least so many blocks."""
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    hypothesis.seed(seed)(settings(hypothesis.given(mixed_graphs(least))(check)))()


def compiled(model: ModelProto) -> tuple[ModelProto, Artifact, np.ndarray]:
    """The quantised model, its artifact and samples."""
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim][1:]
    x = np.random.default_rng(len(model.graph.node)).normal(size=(SAMPLES, *shape)).astype(np.float32)
    quantised, _ = quantise(model, {"x": x})
    return quantised, compile_model(quantised, TINY), x


def answers_of(model: ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    """onnxruntime's answers, sample by sample, with nothing fused."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    answers = [session.run(names, {"x": x[number : number + 1]}) for number in range(len(x))]
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*answers, strict=True), strict=True)}


def with_ties_moved(model: ModelProto, by: float) -> ModelProto:
    """The same model, whose every QuantizeLinear divides by a scale that is greater by a fraction `by`: ties fall to one side."""
    moved = ModelProto()
    moved.CopyFrom(model)
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in moved.graph.initializer}
    for number, node in enumerate(node for node in moved.graph.node if node.op_type == "QuantizeLinear"):
        name = f"moved scale {number}"
        moved.graph.initializer.append(numpy_helper.from_array(np.asarray(scales[node.input[1]] * (1 + by), np.float32), name))
        node.input[1] = name
    return moved


def far(want: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The greatest and the mean distance, in steps of 255."""
    span = float(np.ptp(np.append(want, 0))) or 1.0
    return np.array([steps_off(want, found), np.abs(want - found).mean() * 255 / span])


def check_emulated(model: ModelProto) -> None:
    """Emulator == reference, tensor by tensor, and the outputs near onnxruntime's of the same quantised model.

    Sums of equal scales, of which the result's is twice, are ties by the thousand, and onnxruntime rounds them as its float32
    falls. A gate multiplies a whole map by what became of one. So its own answers with the ties moved say how much they weigh.
    """
    quantised, artifact, x = compiled(model)
    with Model(artifact, "emulator", check=True) as emulated:
        found = emulated.run({"x": x})
        assert emulated.agreement is not None
    moved: list[dict[str, np.ndarray]] = []
    for name, want in answers_of(quantised, x).items():
        if np.all(far(want, found[name]) <= (STEPS, MEAN_STEPS)):
            continue
        moved = moved or [answers_of(with_ties_moved(quantised, by), x) for by in (-TIE, TIE)]
        weight = np.max([far(want, answers[name]) for answers in moved], axis=0)
        assert np.all(far(want, found[name]) <= (STEPS, MEAN_STEPS) + 2 * weight), (far(want, found[name]), weight)


def test_emulator_equals_reference_near_onnxruntime(seed: int) -> None:
    """An operator would be placed, cut or rounded wrongly in one of many surroundings."""
    on_graphs(check_emulated, GRAPHS, seed)


@pytest.mark.slow
def test_emulator_equals_reference_on_many_more(seed: int) -> None:
    """The same test with more graphs."""
    on_graphs(check_emulated, MANY_GRAPHS, seed + 1)


def through_rtl(device: Any, count: int, seed: int) -> None:
    """Graphs of at least four blocks through the RTL."""

    def check(model: ModelProto) -> None:
        _, artifact, x = compiled(model)
        with Model(artifact, device, check=True) as simulated:
            simulated.run({"x": x})
            assert "RTL" in simulated.agreement.executions

    on_graphs(check, count, seed, least=4)


@pytest.mark.cosim
def test_rtl_equals_emulator_equals_reference(seed: int, rtl: Any) -> None:
    """Users' models make kernels, offsets and waits in hardware that random layers alone do not make."""
    through_rtl(rtl(TINY), RTL_GRAPHS, seed)


@pytest.mark.slow
def test_rtl_equals_emulator_equals_reference_on_many_more(seed: int, rtl: Any) -> None:
    """The same test with more graphs."""
    through_rtl(rtl(TINY), MANY_RTL_GRAPHS, seed + 1)
