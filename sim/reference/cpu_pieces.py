"""What the pieces on the CPU must compute: onnxruntime runs the same nodes, cut out of the quantised model as it came.

The compiler has rewritten, exported and cut a piece; this check uses the original model. Each cut is given the tensors that the
piece was given. Both round where the model does. Kernels may add in another order, so there is a stated tolerance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx.utils import Extractor

from cnna.compiler.frontend.source_model import SourceModel
from cnna.sim.reference.same_rounding import with_roundings
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.counts import many
from cnna.spec.cpu_ops import makes, onnxruntime_errors, reads, session_options
from cnna.spec.errors import ArtifactError, CheckError

TOLERANCE = 1e-4  # share of a tensor's greatest magnitude
# Of the coarsest rounding in a cut: a value on the border may fall to either side, and so may a value that depends on it. A cut may
# begin before the piece, if what the accelerator makes for it is in the model in another order alone.
STEPS = 2

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class CpuAgreement:
    """What was compared with the quantised model, over all samples.

    left: tensors of which the model has none of the same name. whole: tensors of whole numbers, such as classes, in which a
    difference within the tolerance may be a whole step.
    """

    tensors: int = 0
    elements: int = 0
    left: int = 0
    whole: int = 0

    def __str__(self) -> str:
        out = [f"{many(self.left, 'tensor')} that it does not name"] if self.left else []
        out += [f"{many(self.whole, 'tensor')} of whole numbers"] if self.whole else []
        if not self.tensors:
            return f"CPU pieces: not compared with the quantised model: {', '.join(out)}"
        elements = f"{self.elements} element{'s' * (self.elements != 1)}"
        rest = f"; not compared: {', '.join(out)}" if out else ""
        return f"CPU pieces == quantised model within {TOLERANCE:g}: {many(self.tensors, 'tensor')}, {elements}{rest}"


class CpuCheck:
    """Checks the CPU pieces of one artifact. `found` grows with each check. source: the model in it."""

    def __init__(self, artifact: Artifact, source: SourceModel) -> None:
        self.name = artifact.manifest["name"]
        self.found = CpuAgreement()
        model = source.whole()
        cpu = {number: piece for number, piece in enumerate(artifact.pieces) if isinstance(piece, CpuPiece)}
        steps = _steps(model)
        names = {number: [*makes(piece.manifest["operators"])] for number, piece in cpu.items()}
        parts = {number: _part(piece, f"{self.name}: the model of piece {number} on the CPU") for number, piece in cpu.items()}
        # For each piece: the model's name for each of its tensors, taken behind its rounding where the piece rounds it.
        self._source = {number: with_roundings(model, part, names[number]) for number, part in parts.items()}
        cuts = {number: _cut(model, piece, self._source[number], parts[number]) for number, piece in cpu.items()}
        self._cut = {number: _session(cut) if cut else None for number, cut in cuts.items()}
        rounded = {number: {*names[number], *(_made(cut) if cut else ())} for number, cut in cuts.items()}
        self._steps = {number: max((steps.get(name, 0.0) for name in rounded[number]), default=0.0) for number in cpu}
        self._counted: set[str] = set()

    def check(self, number: int, given: Arrays, made: Arrays) -> None:
        """Checks one sample of the piece with that number.

        CheckError: a tensor differs from the quantised model's by more than the tolerance. ArtifactError: the manifest says that
        the piece reads something that it does not.
        """
        session, source = self._cut[number], self._source[number]
        names = [entry.name for entry in session.get_outputs()] if session else []
        compared = [name for name in made if source[name] in names and made[name].dtype == np.float32]
        new = set(made) - self._counted
        self._counted |= new
        self.found.tensors += len(new & set(compared))
        whole = {name for name in new if made[name].dtype != np.float32}
        self.found.whole += len(whole)
        self.found.left += len(new - whole - set(compared))
        if not session or not compared:
            return
        feeds = {entry.name: given[entry.name] for entry in session.get_inputs() if entry.name in given}
        if missing := [entry.name for entry in session.get_inputs() if entry.name not in feeds]:
            raise ArtifactError(f"{self.name}: nothing before its piece {number} on the CPU makes '{missing[0]}'; compile it again")
        for name, wanted in zip(compared, session.run([source[name] for name in compared], feeds), strict=True):
            self._compare(number, name, made[name], wanted)

    def _compare(self, number: int, name: str, found: NDArray[Any], wanted: NDArray[Any]) -> None:
        where = f"piece {number} on the CPU != quantised model: tensor {name}"
        if found.shape != wanted.shape:
            raise CheckError(f"{where} has shape {list(found.shape)}, not {list(wanted.shape)}")
        most = TOLERANCE * float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) + STEPS * self._steps[number]
        with np.errstate(invalid="ignore"):  # infinity less infinity; equal ones are
            near = np.abs(found - wanted) <= most
        bad = np.argwhere(~(near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))))
        if len(bad):
            place = tuple(int(index) for index in bad[0])
            raise CheckError(f"{where}, element {list(place)}: {found[place]:g}, quantised model {wanted[place]:g}")
        self.found.elements += found.size


def _part(piece: CpuPiece, name: str) -> onnx.ModelProto:
    """The ONNX model of a piece. ArtifactError: it cannot be read."""
    try:
        return onnx.load_from_string(piece.model)
    except DecodeError:
        raise ArtifactError(f"{name} is damaged: its protobuf cannot be read; compile it again") from None


def _cut(model: onnx.ModelProto, piece: CpuPiece, source: Mapping[str, str], part: onnx.ModelProto) -> onnx.ModelProto | None:
    """The nodes between the piece's inputs and outputs in the original model; None if they cannot be found by name."""
    known = {value.name for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    held = {tensor.name for tensor in part.graph.initializer}  # the original model may compute some of these
    operators = piece.manifest["operators"]
    inputs = [name for name in reads(operators) if name in known - held]
    outputs = sorted({source[name] for name in makes(operators) if source[name] in known})
    try:
        return Extractor(model).extract_model(inputs, outputs)
    except (onnx.checker.ValidationError, ValueError, KeyError):
        return None


def _session(cut: onnx.ModelProto) -> onnxruntime.InferenceSession | None:
    """None if onnxruntime refuses the nodes: they may lack an input."""
    try:
        return onnxruntime.InferenceSession(cut.SerializeToString(), session_options(onnxruntime), ["CPUExecutionProvider"])
    except onnxruntime_errors():
        return None


def _made(cut: onnx.ModelProto) -> set[str]:
    """The tensors that the nodes of a cut make."""
    return {name for node in cut.graph.node for name in node.output}


def _steps(model: onnx.ModelProto) -> dict[str, float]:
    """The greatest scale with which each tensor is rounded, by its names before and after Q and DQ."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    scales: dict[str, float] = {}
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[1] in constants:
            scale = float(np.max(onnx.numpy_helper.to_array(constants[node.input[1]])))
            scales |= {node.input[0]: scale, node.output[0]: scale}
    return scales
