"""How a session's answers become a version's outputs, with the samples on axis 0.

A detector whose heads are known answers boxes: `boxes` float32 [n, 200, 4] (left, top, right, bottom, cut at the input's edges),
`scores` float32 [n, 200] and `classes` int64 [n, 200], the surest first. Places without a detection have the score 0 and the class
-1. On a board, the run loop finds them on the accelerator's own words, by a `plan`. Other devices give the heads as int8, which
are decoded here.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import named, outputs_of
from cnna.host.model.detector import MOST_BOXES, Decoder, Found, Heads, Settings, apart, found_in, settings_of
from cnna.host.model.planned import COUNT, Plan
from cnna.serve.models.signature import Arrays, Signature, rows_of, signature_of
from cnna.spec.artifact import Artifact
from cnna.spec.manifest import CPU

NOTHING = -1  # the class of a place without a detection
USUAL = settings_of()
MOST_SETTINGS = 16  # that are remembered of a detector: requests may have thresholds of their own
Made = TypeVar("Made")


class Answering:
    """One artifact. artifact: what a session must open. decode_seconds: how long `rows` decoded the last batch."""

    def __init__(self, name: str, artifact: Artifact) -> None:
        self.signature: Signature = signature_of(name, artifact.manifest)
        self.artifact: Artifact = artifact
        self.decode_seconds = 0.0
        self._heads: Heads | None = None
        if self.signature.detects:
            self.artifact, self._heads = apart(artifact)
        self._outputs = outputs_of(self.artifact.manifest)
        self._decoders: OrderedDict[Settings, Decoder] = OrderedDict()
        self._plans: OrderedDict[Settings, Plan | None] = OrderedDict()

    def plan(self, detecting: Callable[[Decoder], Plan | None], wanted: Settings) -> Plan | None:
        """How batches become detections without dense heads; None: they do not. detecting: of the model that runs them."""
        if self._heads is None:
            return None
        return _remembered(self._plans, wanted, lambda: detecting(self._decoder(wanted)))

    def rows(self, answers: Sequence[NDArray[np.generic]] | Arrays, samples: int, wanted: Settings = USUAL) -> Arrays:
        """The outputs. answers: a session's, in its order or by name; or what a `plan` has found. wanted: what counts."""
        self.decode_seconds = 0.0
        if isinstance(answers, dict) and COUNT in answers and self._heads is not None:
            return self._boxes([found_in(answers, number) for number in range(samples)])
        by_name = answers if isinstance(answers, dict) else named(self._outputs, answers)
        found = {output.name: output.apart(by_name, samples) for output in self._outputs}
        if self._heads is None:
            return rows_of(self.signature.outputs, found)
        began, decode = perf_counter(), self._decoder(wanted)
        heads = [[q[sample].reshape(q[sample].shape[-3:]) for q in found.values()] for sample in range(samples)]
        decoded = [decode(tensors) for tensors in heads]
        self.decode_seconds = perf_counter() - began
        return self._boxes(decoded)

    def _boxes(self, found: Sequence[Found]) -> Arrays:
        samples = len(found)
        made: Arrays = {
            "boxes": np.zeros((samples, MOST_BOXES, 4), np.float32),
            "scores": np.zeros((samples, MOST_BOXES), np.float32),
            "classes": np.full((samples, MOST_BOXES), NOTHING, np.int64),
        }
        for sample, one in enumerate(found):
            for name, values in one._asdict().items():
                made[name][sample, : len(values)] = values
        rows, columns = self.artifact.manifest["detector"]["picture"]
        np.clip(made["boxes"], 0, np.array([columns, rows] * 2, np.float32), out=made["boxes"])
        return made

    def _decoder(self, wanted: Settings) -> Decoder:
        assert self._heads is not None
        heads = self._heads
        return _remembered(self._decoders, wanted, lambda: Decoder(heads, wanted))


def _remembered(known: "OrderedDict[Settings, Made]", wanted: Settings, make: Callable[[], Made]) -> Made:
    """What belongs to settings; those that were asked for longest ago are forgotten."""
    if wanted not in known:
        known[wanted] = make()
    known.move_to_end(wanted)
    while len(known) > MOST_SETTINGS:
        known.popitem(last=False)
    return known[wanted]


def seconds_of(artifact: Artifact, mhz: float) -> float:
    """Predicted for a batch. Pieces on the CPU count too, since the accelerator waits for them, but for the last of a detector."""
    manifest, pieces = artifact.manifest, artifact.manifest["pieces"]
    own = pieces[:-1] if "detector" in manifest and pieces[-1]["kind"] == CPU else pieces
    cpu = sum(piece["seconds"] for piece in own if piece["kind"] == CPU) * manifest["batch"]
    return artifact.predicted_clocks() / (mhz * 1e6) + cpu
