"""What quantisation costs, layer by layer and in the answers, and which layers to keep in float so that it costs less."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

from cnna.compiler.quantise.answers import Judge, Results
from cnna.compiler.quantise.calibrate import Progress
from cnna.compiler.quantise.noise import Layer, Noise, added, layers_of, measured
from cnna.compiler.quantise.quantise import Calibrated, Report

CANDIDATES = 24  # layers whose cost is measured, each by a network of its own: those that add most noise
Counter = Callable[[str], Progress | None]  # makes a printer of progress of what it names


@dataclass(frozen=True, eq=False)
class Measured:
    """Samples to measure on: their number, and the right class of each where it is known.

    held_out: whether calibration has not seen them.
    """

    samples: Mapping[str, np.ndarray]
    count: int
    labels: np.ndarray | None = None
    held_out: bool = False


@dataclass(frozen=True, eq=False)
class Examined:
    """A quantised network beside the float network.

    noise: by tensor. costs: by layer's name, the share of the outputs' noise that goes if this layer alone stays in float, without
    effort; the greatest first. kept: names of the layers that stay in float, though what they make may be int8.
    """

    report: Report
    on: Measured
    layers: Sequence[Layer]
    noise: Mapping[str, Noise]
    costs: Mapping[str, float]
    in_float: Results
    in_int8: Results
    kept: frozenset[str] = frozenset()
    classifies: bool = True  # whether the agreement of classes means anything
    classified: Sequence[str] = ()  # the outputs whose classes agree or not; labels belong to the first

    def figures(self) -> dict[str, Any]:
        """As the report has them: layers in the model's order, the names of the costly ones with the greatest cost first."""
        layers = []
        for layer in self.layers:
            about = {"name": layer.name, "op": layer.op, "tensor": layer.tensor, "multiplies": layer.multiplies}
            found = self.noise[layer.tensor].figures()
            found["int8"] &= layer.name not in self.kept
            layers.append({**about, **found, "cost": self.costs.get(layer.name)})
        return {
            "method": self.report.method,
            "effort": self.report.effort,
            "calibration_samples": self.report.samples,
            "samples": self.on.count,
            "held_out": self.on.held_out,
            "agreement": self.in_int8.agreement if self.classifies else None,
            "classified": list(self.classified),
            "outputs": [
                {"name": one.name, "samples": one.samples, **one.figures(), "said": one.said} for one in self.in_int8.outputs
            ],
            "float_top1": self.in_float.top1,
            "int8_top1": self.in_int8.top1,
            "worst": [*self.costs],
            "layers": layers,
        }


class Examiner:
    """Measures networks that one calibration gives, on the same samples. say: makes printers of progress.

    metrics: by which outputs are judged, where that is the user's choice.
    """

    def __init__(self, given: Calibrated, on: Measured, say: Counter, metrics: Mapping[str, str] | None = None) -> None:
        self.given, self.on, self._say = given, on, say
        self.layers = layers_of(given.graph, given.body)
        self.judge = Judge(given.graph, on.samples, on.count, given.preprocess, on.labels, say("running in float"), metrics)

    def noise(self, model: ModelProto, report: Report) -> dict[str, Noise]:
        """The noise of each layer of a quantised network, by tensor."""
        given, on = self.given, self.on
        progress = self._say("comparing layers with float")
        return measured(given.graph, self.layers, model, report.quants, on.samples, on.count, given.preprocess, progress)

    def costs(self, noise: Mapping[str, Noise]) -> dict[str, float]:
        """What each candidate costs, by name; the greatest first. noise: of the network that is int8 throughout."""
        progress = self._say("measuring what layers cost")
        chosen = self.ranked(noise)[:CANDIDATES]
        whole = self.judge.noise(self.given.trial(()))
        found = {}
        for number, layer in enumerate(chosen, 1):
            found[layer.name] = 1 - self.judge.noise(self.given.trial(layer.nodes)) / whole if whole else 0.0
            if progress:
                progress(number, len(chosen))
        return dict(sorted(found.items(), key=lambda one: -one[1]))

    def ranked(self, noise: Mapping[str, Noise], costs: Mapping[str, float] | None = None) -> list[Layer]:
        """The layers that multiply, the worst first: by their `costs`, those without any by the noise that they add."""
        more = added(self.given.graph, self.layers, noise)
        order = {name: number for number, name in enumerate(costs or ())}
        layers = [layer for layer in self.layers if layer.multiplies]
        return sorted(layers, key=lambda layer: (order.get(layer.name, len(order)), -more[layer.name]))

    def examined(
        self,
        model: ModelProto,
        report: Report,
        noise: Mapping[str, Noise] | None = None,
        costs: Mapping[str, float] | None = None,
        kept: Collection[str] = (),
    ) -> Examined:
        """All about one network; what is known already need not be measured again. kept: names of layers in float."""
        noise = self.noise(model, report) if noise is None else noise
        costs = self.costs(noise) if costs is None else costs
        results = self.judge.results(model, self._say("running in int8"))
        return Examined(
            report,
            self.on,
            self.layers,
            noise,
            costs,
            self.judge.in_float,
            results,
            frozenset(kept),
            self.judge.classifies(results),
            self.judge.classified,
        )
