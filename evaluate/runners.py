"""Models that answer samples: a .cnna on any device, and an .onnx, float or quantised, in onnxruntime without optimisations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cnna.evaluate.datasets.dataset import Inputs, Intake
from cnna.evaluate.datasets.labels import digest_of_file
from cnna.evaluate.options import Options
from cnna.evaluate.tasks.decoding import Ready
from cnna.evaluate.tasks.task import Answers
from cnna.host.model.answers import WHOLE, named, outputs_of
from cnna.host.model.detector import Detector
from cnna.host.model.session import BIT, DEVICES, InferenceSession
from cnna.host.samples.given import beside
from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import DataError, UserError
from cnna.spec.samples.preprocess import NORMALISATION, Preprocess

CNNA, FLOAT, QUANTISED = "cnna", "float", "quantised"
QUANTISERS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeLinear",
)


@dataclass(frozen=True)
class Identity:
    """Which model it is. kind: CNNA, FLOAT or QUANTISED. device: where it runs. digest: of the file."""

    name: str
    file: str
    kind: str
    device: str
    digest: str


class Runner(Protocol):
    """A model, ready to answer."""

    identity: Identity
    intake: Intake
    batch: int  # samples that it runs at once

    def run(self, inputs: Inputs) -> list[Answers]:
        """The outputs for each sample."""

    def close(self) -> None:
        """Frees what the model holds."""


class CnnaModel:
    """A .cnna on a device. table: how pictures become the input."""

    def __init__(
        self, artifact: Artifact, identity: Identity, table: Mapping[str, Any], device: Any, options: Mapping[str, Any]
    ) -> None:
        self.identity, self.batch = identity, int(artifact.manifest["batch"])
        self.intake = _intake(artifact, identity, table)
        self._outputs = outputs_of(artifact.manifest)
        self._session = InferenceSession(artifact, device, **options)

    def run(self, inputs: Inputs) -> list[Answers]:
        """As of Runner."""
        samples = len(next(iter(inputs.values())))
        answers = named(self._outputs, self._session.run(None, inputs))
        apart = {output.name: output.apart(answers, samples) for output in self._outputs}
        return [{name: values[number] for name, values in apart.items()} for number in range(samples)]

    def close(self) -> None:
        """As of Runner."""
        self._session.close()


class DetectorModel:
    """A .cnna that knows a detector's heads: its boxes are those of `cnna.Detector`, decoded from the heads' integers."""

    def __init__(
        self, artifact: Artifact, identity: Identity, table: Mapping[str, Any], device: Any, limits: Mapping[str, Any]
    ) -> None:
        self.identity, self.batch = identity, int(artifact.manifest["batch"])
        self.intake = _intake(artifact, identity, table)
        self._detector = Detector(artifact, device, **limits)

    def run(self, inputs: Inputs) -> list[Answers]:
        """As of Runner."""
        found = self._detector.in_inputs(inputs)
        return [Ready(boxes=one.boxes.astype(float), scores=one.scores.astype(float), classes=one.classes) for one in found]

    def close(self) -> None:
        """As of Runner."""
        self._detector.close()


class OnnxModel:
    """An .onnx in onnxruntime, one sample at a time, since many exporters fix the batch to one."""

    batch = 1

    def __init__(self, source: Any, identity: Identity, table: Mapping[str, Any]) -> None:
        from cnna.compiler.frontend.onnx_model.input_shapes import sizes_of
        from cnna.compiler.frontend.other_model import OtherModel

        self.identity = identity
        shapes = {value.name: tuple(sizes_of(value)) for value in source.inputs}
        inputs = {name: shape if name in source.single else shape[1:] for name, shape in shapes.items()}
        self.intake = Intake(identity.file, inputs, _whole_inputs(source), table)
        self._model = OtherModel(source.proto, identity.file, (), optimised=False)

    def run(self, inputs: Inputs) -> list[Answers]:
        """As of Runner."""
        samples = len(next(iter(inputs.values())))
        return [self._model.run({name: x[number : number + 1] for name, x in inputs.items()}) for number in range(samples)]

    def close(self) -> None:
        """As of Runner."""


def _intake(artifact: Artifact, identity: Identity, table: Mapping[str, Any]) -> Intake:
    """What a .cnna takes."""
    entries = artifact.manifest["model_inputs"]
    stored: Mapping[str, Any] = artifact.manifest["preprocess"] or {}
    return Intake(
        name=identity.file,
        inputs={entry["name"]: entry["shape"] for entry in entries},
        types={entry["name"]: entry["dtype"] for entry in entries if entry["dtype"] in WHOLE},
        table=table,
        takes_pixels=bool(stored) and all(table.get(key) == stored.get(key) for key in (*NORMALISATION, "layout")),
    )


def _whole_inputs(source: Any) -> dict[str, str]:
    """The types of inputs of integers or bool."""
    from onnx import helper

    kinds = {value.name: str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)) for value in source.inputs}
    return {name: kind for name, kind in kinds.items() if kind in WHOLE}


def open_models(paths: Sequence[Path], options: Options, limits: Mapping[str, Any] | None = None) -> list[Runner]:
    """The models, open, in their order. limits: of `Detector`, where boxes are wanted as the models know them; else None.

    A model that stores none, and has no preprocess.json beside it, takes what another of the models stores: they are one network.
    UserError: a file is neither, cannot be read, or is given twice.
    """
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise UserError(f"{twice}: is given twice")
    device, shapes, given = options.get("device"), options.get("shapes"), options.get("preprocess") or {}
    device, given = DEVICES[0] if device is None else device, given.entry() if isinstance(given, Preprocess) else given
    where, settings = device_name(device), options.get("device_options") or {}
    shapes = shapes if isinstance(shapes, Mapping) else {} if shapes is None else {"": shapes}
    read = [_read(path, shapes) for path in paths]
    tables = [_table(path, model) for path, model in zip(paths, read, strict=True)]
    common = next((table for table in tables if table), {})
    names = _names(paths)
    opened: list[Runner] = []
    try:
        for path, name, model, own in zip(paths, names, read, tables, strict=True):
            table = {**(own or common), **given}
            if isinstance(model, Artifact):
                identity = Identity(name, str(path), CNNA, where, digest_of_file(path))
                if limits is not None and model.manifest.get("detector") and model.manifest["preprocess"]:
                    opened.append(DetectorModel(model, identity, table, device, {**settings, **limits}))
                else:
                    opened.append(CnnaModel(model, identity, table, device, settings))
            else:
                kind = QUANTISED if any(node.op_type in QUANTISERS for node in model.proto.graph.node) else FLOAT
                identity = Identity(name, str(path), kind, "onnxruntime", digest_of_file(path))
                opened.append(OnnxModel(model, identity, table))
    except BaseException:
        close_all(opened)
        raise
    return opened


def close_all(runners: Sequence[Runner]) -> None:
    """Closes all of them."""
    for runner in runners:
        runner.close()


def device_name(device: Any) -> str:
    """What the JSON and the page call a device. DataError: there is none of that name."""
    if isinstance(device, str) and device in DEVICES:
        return device
    if isinstance(device, str | Path) and Path(device).suffix != BIT:
        raise DataError(f"there is no device {str(device)!r:.99}; there are {', '.join(DEVICES)} and a cnna{BIT}")
    return "pynq"


def _read(path: Path, shapes: Mapping[str, Sequence[int]]) -> Any:
    """An `Artifact`, or a `SourceModel`."""
    if path.suffix.lower() == ".onnx":
        from cnna.compiler.frontend.onnx_import import read

        return read(path, None, {name: tuple(sizes) for name, sizes in shapes.items()})
    if path.is_dir() or path.suffix.lower() != ".cnna":
        raise UserError(f"{path}: a model is a .cnna or an .onnx file; data are named with --data")
    return load(path)


def _table(path: Path, model: Any) -> dict[str, Any]:
    """How pictures become the input, as the model stores it or as the file beside an .onnx says."""
    if isinstance(model, Artifact):
        return dict(model.manifest["preprocess"] or {})
    from cnna.compiler.frontend.preprocess import entries

    return {**entries(model.proto), **beside(path)}


def _names(paths: Sequence[Path]) -> list[str]:
    """The file names, with their folders where two have the same."""
    names = [path.name for path in paths]
    return [str(path) if names.count(path.name) > 1 else path.name for path in paths]
