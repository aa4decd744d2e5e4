"""`pipeline.yaml`: a model that is made of others, and of pieces on the CPU between them, served under its folder's name.

inputs:
  image: {type: float32, shape: [-1, 1, 48, 48]}
steps:
  find: {model: cards, version: 2, inputs: {image: image}}
  crop:
    function: crop:cards          # crop.py in this folder, or a module that is installed
    inputs: {image: image, corners: find.corners}
    outputs: {digits: {type: float32, shape: [-1, 1, 16, 16]}}
  scale: {onnx: scale.onnx, inputs: {x: crop.digits}}    # a file in this folder
  read: {model: digits, inputs: {image: scale.y}}
outputs: {logits: read.logits}

What is wrong with it is one line with file and step. Whether types and shapes fit is checked when its models are loaded.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cnna.host.model.answers import WHOLE
from cnna.serve.models.settings import settings_text, version_name
from cnna.serve.models.signature import Signature
from cnna.serve.runtimes.interface import ANY, FLOATS, Description, Tensor
from cnna.spec.errors import UserError
from cnna.spec.names import differences

FILE = "pipeline.yaml"
KINDS = ("model", "function", "onnx")
KEYS = (*KINDS, "version", "inputs", "outputs")
MOST_STEPS = 64
MOST_VALUES = 1 << 24  # in a sample of a declared tensor: a body has 64 MiB
FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True)
class Step:
    """One step. kind: of KINDS. what: the model, the function or the file. inputs: sources by the names that it has for them.

    outputs: of a function, as they are declared; empty for others, which say it themselves.
    """

    name: str
    kind: str
    what: str
    version: str | None
    inputs: Mapping[str, str]
    outputs: tuple[Tensor, ...] = ()
    after: frozenset[str] = frozenset()  # the steps that it waits for


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as its file says. steps: each behind those that it waits for. Sources are NAME or STEP.NAME."""

    path: Path
    inputs: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    outputs: Mapping[str, str]

    def models(self) -> set[str]:
        """The models that it needs."""
        return {step.what for step in self.steps if step.kind == "model"}


def pipeline_of(path: Path) -> Pipeline:
    """Reads a pipeline. UserError: a key, a name or a source is wrong, or steps wait for each other."""
    found = settings_text(path)
    for key in found:
        if key not in ("inputs", "steps", "outputs"):
            raise UserError(f"{path}: unknown key {key!r}; there are inputs, steps, outputs")
    inputs = _tensors(f"{path}: inputs", found.get("inputs"))
    steps = {name: _step(path, name, entry) for name, entry in _named(f"{path}: steps", found.get("steps")).items()}
    if len(steps) > MOST_STEPS:
        raise UserError(f"{path}: {len(steps)} steps; there may be {MOST_STEPS}")
    outputs = _named(f"{path}: outputs", found.get("outputs"))
    known = {tensor.name for tensor in inputs}
    for step in steps.values():
        for source in step.inputs.values():
            _check_source(f"{path}: step {step.name}", source, known, steps)
    for name, source in outputs.items():
        _check_source(f"{path}: output {name}", source, known, steps)
    for name, step in steps.items():
        after = {source.partition(".")[0] for source in step.inputs.values() if source not in known}
        steps[name] = replace(step, after=frozenset(after))
    return Pipeline(path, inputs, _ordered(path, steps), outputs)


def input_of(pipeline: Pipeline, step: Step, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """What a function gets: its sources' tensors under its own names. UserError: a step has no such output."""
    return tuple(_renamed(name, _source(pipeline, f"step {step.name}", source, tensors)) for name, source in step.inputs.items())


def check_step(pipeline: Pipeline, step: Step, signature: Signature, tensors: Mapping[str, Tensor]) -> None:
    """UserError: what a step gets is not what it takes. tensors: by source, of the inputs and the steps before."""
    where, wanted = f"{pipeline.path}: step {step.name}", {tensor.name: tensor for tensor in signature.inputs}
    if wrong := differences(step.inputs, wanted):
        raise UserError(f"{where}: {step.what} {wrong}")
    for name, source in step.inputs.items():
        have, want = _source(pipeline, f"step {step.name}", source, tensors), wanted[name]
        picture = signature.pictures and have.dtype == "uint8"
        same = have.dtype == want.dtype or picture or (have.dtype in FLOATS and want.dtype in FLOATS)
        fits = len(have.shape) == len(want.shape) and all(
            a == b or None in (a, b) for a, b in zip(have.shape, want.shape, strict=True)
        )
        if not same or not (fits or picture):
            raise UserError(
                f"{where}: input {name} is {want.dtype} {want.served_shape}, but {source} is {have.dtype} {have.served_shape}"
            )


def signature_of_pipeline(model: str, pipeline: Pipeline, tensors: Mapping[str, Tensor]) -> Signature:
    """What clients see of it. UserError: an output's source is none."""
    outputs = [_renamed(name, _source(pipeline, f"output {name}", source, tensors)) for name, source in pipeline.outputs.items()]
    return Signature(model, pipeline.inputs, tuple(outputs), False, None, Description(pipeline.inputs, tuple(outputs)))


def _source(pipeline: Pipeline, where: str, source: str, tensors: Mapping[str, Tensor]) -> Tensor:
    if source not in tensors:
        step = source.partition(".")[0]
        there = [name.partition(".")[2] for name in tensors if name.startswith(f"{step}.")]
        missing = source.partition(".")[2]
        raise UserError(f"{pipeline.path}: {where}: step {step} has no output {missing!r}; it has {', '.join(there)}")
    return tensors[source]


def _renamed(name: str, tensor: Tensor) -> Tensor:
    return replace(tensor, name=name, rows=1)


def _step(path: Path, name: str, entry: Any) -> Step:
    where = f"{path}: step {name}"
    if not name.isidentifier():
        raise UserError(f"{where}: a step's name has letters, digits and `_` alone")
    if not isinstance(entry, dict) or sum(kind in entry for kind in KINDS) != 1:
        raise UserError(f"{where}: must have one of {', '.join(KINDS)}, as in {{model: digits, inputs: {{image: image}}}}")
    for key in entry:
        if key not in KEYS:
            raise UserError(f"{where}: unknown key {key!r}; there are {', '.join(KEYS)}")
    kind = next(kind for kind in KINDS if kind in entry)
    what, version = entry[kind], entry.get("version")
    if not isinstance(what, str) or not what:
        raise UserError(f"{where}: {kind}: {what!r} is no name")
    if kind == "function" and not FUNCTION.fullmatch(what):
        raise UserError(f"{where}: function: {what!r} is not like package.module:function")
    if kind == "onnx" and (Path(what).name != what or what == ".."):
        raise UserError(f"{where}: onnx: {what!r} must be the name of a file in {path.parent}")
    if version is not None and (kind != "model" or version_name(version) is None):
        raise UserError(f"{where}: version: {version!r} must be a positive integer, and is for models")
    if ("outputs" in entry) != (kind == "function"):
        declared = "functions declare them, as in {y: {type: float32, shape: [-1, 3]}}; others have their own"
        raise UserError(f"{where}: outputs: {declared}")
    outputs = _tensors(f"{where}: outputs", entry["outputs"], ANY) if kind == "function" else ()
    return Step(name, kind, what, version_name(version), _named(f"{where}: inputs", entry.get("inputs")), outputs)


def _tensors(where: str, found: Any, rows: int = 1) -> tuple[Tensor, ...]:
    """Declared types and shapes."""
    tensors = []
    for name, entry in _named(where, found).items():
        shape = entry.get("shape") if isinstance(entry, dict) and set(entry) == {"type", "shape"} else None
        good = isinstance(shape, list) and bool(shape) and shape[0] == -1
        if not isinstance(shape, list) or not good or not all(type(size) is int and (size > 0 or size == -1) for size in shape[1:]):
            raise UserError(f"{where}: {name}: {entry!r} is not like {{type: float32, shape: [-1, 3, 16, 16]}}")
        if entry["type"] not in (*WHOLE, *FLOATS):
            raise UserError(f"{where}: {name}: there is no type {entry['type']!r}; there are {', '.join((*WHOLE, *FLOATS))}")
        sizes = tuple(None if size == -1 else size for size in shape[1:])
        if math.prod(size or 1 for size in sizes) > MOST_VALUES:
            raise UserError(f"{where}: {name}: a sample has more than {MOST_VALUES:,} values")
        tensors.append(Tensor(name, entry["type"], sizes, rows, entry["type"] not in FLOATS))
    return tuple(tensors)


def _named(where: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) and name for name in found):
        raise UserError(f"{where}: must be a table of names that is not empty")
    return found


def _check_source(where: str, source: Any, inputs: set[str], steps: Mapping[str, Step]) -> None:
    if not isinstance(source, str):
        raise UserError(f"{where}: {source!r} is no source; one is an input of the pipeline, or STEP.OUTPUT")
    step, dot, _ = source.partition(".")
    if source in inputs:
        return
    if dot and step not in steps:
        raise UserError(f"{where}: {source}: there is no step {step!r}; there are {', '.join(steps)}")
    if not dot:
        raise UserError(f"{where}: the pipeline has no input {source!r}; there are {', '.join(inputs)}; or say STEP.OUTPUT")


def _ordered(path: Path, steps: Mapping[str, Step]) -> tuple[Step, ...]:
    """Each behind those that it waits for. UserError: some wait for each other."""
    left, ordered = dict(steps), list[Step]()
    while left:
        ready = [step for step in left.values() if not step.after & set(left)]
        if not ready:
            raise UserError(f"{path}: step {next(iter(left))}: {_circle(left)} wait for each other; take one of the sources away")
        ordered += ready
        left = {name: step for name, step in left.items() if step not in ready}
    return tuple(ordered)


def _circle(steps: Mapping[str, Step]) -> str:
    name, seen = next(iter(steps)), list[str]()
    while name not in seen:
        seen.append(name)
        name = min(steps[name].after & set(steps))
    return ", ".join(seen[seen.index(name) :])
