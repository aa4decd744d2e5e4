"""The cases of the onnx package's own suites, and graphs as exporters write them: models, inputs and expected outputs.

Node, simple, pytorch-converted and pytorch-operator cases have their data in files. The light models have the layers of published
networks, but no real weights; the package's own runner makes their inputs, and files hold their outputs. For an exported graph,
onnxruntime's answer is the expected one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import exported
import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.backend.test.runner import Runner

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "light", "exported")
WHOLE = ("light", "exported")  # suites of whole networks, which do not test a single operator
ARRANGING = ("Constant", "Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten")


@dataclass(frozen=True)
class Case:
    """One model and its data. `model_path`: its ONNX file. `rtol`, `atol`: how far the package lets a float answer be off."""

    suite: str
    name: str
    model_path: Path
    rtol: float
    atol: float

    @property
    def key(self) -> str:
        """The case's name on the command line and in docs/operators.json."""
        return f"{self.suite}/{self.name}"

    @cached_property
    def model(self) -> ModelProto:
        """The model as it is shipped."""
        return onnx.load(self.model_path)

    @property
    def operator(self) -> str:
        """The operator that the case is about; if there are several, the first that does more than rearrange elements."""
        name, cut, _ = self.name.partition("_expanded")
        whole = self.model_path.parent.with_name(name) / "model.onnx"
        model = onnx.load(whole) if cut and whole.is_file() else self.model
        kinds = [node.op_type for node in model.graph.node]
        return next((kind for kind in kinds if kind not in ARRANGING), kinds[-1])

    def data(self) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """Inputs by name, and the expected outputs in the model's order, for each set of data."""
        weights = {tensor.name for tensor in self.model.graph.initializer}
        values = self.model.graph.input
        if self.suite == "light":
            free = [value for value in values if value.name not in weights]
            inputs = {value.name: Runner.generate_dummy_data(value, name=self.name) for value in free}
            outputs = sorted(self.model_path.parent.glob(f"{self.model_path.stem}_output_*.pb"))
            yield inputs, _arrays(outputs, self.model.graph.output)
            return
        for folder in sorted(self.model_path.parent.glob("test_data_set_*")):
            given = _arrays(_numbered(folder, "input"), values)
            expected = _arrays(_numbered(folder, "output"), self.model.graph.output)
            yield {value.name: array for value, array in zip(values, given, strict=False)}, expected


@dataclass(frozen=True)
class ExportedCase(Case):
    """A graph of tests/exporter_graphs, with seeded weights."""

    @cached_property
    def model(self) -> ModelProto:
        """The graph with its weights."""
        return exported.load(self.name)

    def data(self) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """One sample; onnxruntime's answer to it, with nothing of a quantised model fused."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        inputs = exported.samples(self.model, 1)
        yield inputs, [np.asarray(answer) for answer in session.run(None, inputs)]


def exported_cases() -> list[Case]:
    """One case for each graph of tests/exporter_graphs."""
    return [ExportedCase("exported", name, exported.FOLDER / f"{name}.onnx", 1e-3, 1e-5) for name in exported.names()]


def cases(suites: Sequence[str] = SUITES) -> list[Case]:
    """All cases of some suites, sorted by name."""
    found = []
    for suite in suites:
        if suite == "light":
            files = sorted((Path(DATA_DIR) / "light").glob("*.onnx"))
            found += [Case(suite, file.stem, file, 1e-3, 1e-7) for file in files]
            continue
        if suite == "exported":
            found += exported_cases()
            continue
        for test in sorted(load_model_tests(kind=suite), key=lambda test: test.name):
            if test.model_dir:
                found.append(Case(suite, test.name, Path(test.model_dir) / "model.onnx", test.rtol, test.atol))
    return found


def _numbered(folder: Path, kind: str) -> list[Path]:
    return [folder / f"{kind}_{number}.pb" for number in range(len(list(folder.glob(f"{kind}_*.pb"))))]


def _arrays(files: Sequence[Path], values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The contents of files: arrays, lists of arrays for sequences, and None for an optional without a value."""
    found: list[Any] = []
    for file, value in zip(files, values, strict=False):
        content = file.read_bytes()
        if value.type.HasField("sequence_type"):
            found.append(numpy_helper.to_list(onnx.SequenceProto.FromString(content)))
        elif value.type.HasField("optional_type"):
            found.append(numpy_helper.to_optional(onnx.OptionalProto.FromString(content)))
        else:
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(content)))
    return found
