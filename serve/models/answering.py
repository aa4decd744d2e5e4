"""How a session's answers become a version's outputs, with the samples on axis 0.

A detector whose heads are known answers boxes. The session then gives its heads as int8, and this decodes them: `boxes` float32
[n, 200, 4] (left, top, right, bottom, cut at the input's edges), `scores` float32 [n, 200] and `classes` int64 [n, 200], the surest
first. Places without a detection have the score 0 and the class -1.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import named, outputs_of
from cnna.host.model.detector import MOST_BOXES, Found, apart
from cnna.serve.models.signature import Arrays, Signature, rows_of, signature_of
from cnna.spec.artifact import Artifact
from cnna.spec.manifest import CPU

NOTHING = -1  # the class of a place without a detection


class Answering:
    """One artifact. artifact: what a session must open."""

    def __init__(self, name: str, artifact: Artifact) -> None:
        self.signature: Signature = signature_of(name, artifact.manifest)
        self.artifact: Artifact = artifact
        self._decode: Callable[[list[NDArray[np.int8]]], Found] | None = None
        if self.signature.detects:
            self.artifact, self._decode = apart(artifact)
        self._outputs = outputs_of(self.artifact.manifest)

    def rows(self, answers: Sequence[NDArray[np.generic]] | Arrays, samples: int) -> Arrays:
        """The outputs. answers: a session's, in its order or by name."""
        by_name = answers if isinstance(answers, dict) else named(self._outputs, answers)
        found = {output.name: output.apart(by_name, samples) for output in self._outputs}
        if self._decode is None:
            return rows_of(self.signature.outputs, found)
        made: Arrays = {
            "boxes": np.zeros((samples, MOST_BOXES, 4), np.float32),
            "scores": np.zeros((samples, MOST_BOXES), np.float32),
            "classes": np.full((samples, MOST_BOXES), NOTHING, np.int64),
        }
        rows, columns = self.artifact.manifest["detector"]["picture"]
        for sample in range(samples):
            for name, values in self._decode([q[sample].reshape(q[sample].shape[-3:]) for q in found.values()])._asdict().items():
                made[name][sample, : len(values)] = values
        np.clip(made["boxes"], 0, np.array([columns, rows] * 2, np.float32), out=made["boxes"])
        return made


def seconds_of(artifact: Artifact, mhz: float) -> float:
    """Predicted for a batch. Pieces on the CPU count too, since the accelerator waits for them, but for the last of a detector."""
    manifest, pieces = artifact.manifest, artifact.manifest["pieces"]
    own = pieces[:-1] if "detector" in manifest and pieces[-1]["kind"] == CPU else pieces
    cpu = sum(piece["seconds"] for piece in own if piece["kind"] == CPU) * manifest["batch"]
    return artifact.predicted_clocks() / (mhz * 1e6) + cpu
