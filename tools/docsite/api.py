"""The page of the public Python interface: classes, errors and functions, from their docstrings by Sphinx's autodoc."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cnna.spec import errors


class Part(NamedTuple):
    """A section of the page: names of one module, each a class or a function."""

    title: str
    module: str
    names: tuple[str, ...]


ERRORS = tuple(name for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, errors.CnnaError))
PARTS = (
    Part("What the commands do", "cnna.jobs.explain", ("explain", "Explained")),
    Part("", "cnna.jobs.quantize", ("quantize", "Quantized")),
    Part("", "cnna.jobs.compile", ("compile", "load", "Compiled")),
    Part("", "cnna.jobs.convert", ("convert", "Converted")),
    Part("", "cnna.jobs.eval", ("eval", "Evaluated")),
    Part("", "cnna.jobs.bench", ("bench", "Benched")),
    Part("", "cnna.jobs.publish", ("publish", "Published")),
    Part("", "cnna.jobs.split", ("split", "Split")),
    Part("", "cnna.jobs.rtl", ("rtl", "Generated")),
    Part("", "cnna.jobs.run", ("run", "Ran")),
    Part("", "cnna.jobs.report", ("report", "Reported")),
    Part(
        "",
        "cnna.jobs.compare",
        ("compare", "Compared", "compare_evaluations", "ComparedEvaluations", "compare_benchmarks", "ComparedBenchmarks"),
    ),
    Part("", "cnna.jobs.prune", ("prune", "Pruned")),
    Part("", "cnna.jobs.explore.explore", ("explore", "Explored", "tilings", "Tilings")),
    Part("", "cnna.jobs.explore.search_choices", ("search_choices", "FoundChoices")),
    Part("", "cnna.jobs.options.ddr", ("Ddr",)),
    Part("Sessions", "cnna.host.model.session", ("InferenceSession", "Pending")),
    Part("", "cnna.host.model.answers", ("NodeArg",)),
    Part("Detectors", "cnna.host.model.detector", ("Detector",)),
    Part("Runners, with the habits of a DPU", "cnna.host.model.vart", ("Overlay", "Runner", "Tensor")),
    Part("Errors", "cnna.spec.errors", ERRORS),
    Part("Configurations", "cnna.spec.config", ("Config", "preset", "as_dict")),
    Part("Artifacts", "cnna.spec.artifact", ("Artifact", "ProgramPiece", "CpuPiece", "load", "save")),
    Part("Quantising and compiling", "cnna.compiler.frontend.onnx_import", ("load_model",)),
    Part("", "cnna.compiler.quantise.quantise", ("quantise", "Report")),
    Part("", "cnna.compiler.compile", ("compile_model",)),
    Part("", "cnna.spec.samples.preprocess", ("Preprocess",)),
    Part("Pictures and detections", "cnna.host.samples.pictures", ("Samples", "find", "read", "samples", "taken", "shown")),
    Part(
        "",
        "cnna.host.model.detections",
        ("Detections", "best", "matches", "ssd_boxes", "ssd_priors", "yolo_rows", "yolox_rows", "yolov5_rows"),
    ),
    Part("Devices and boards", "cnna.spec.device", ("Device",)),
    Part("", "cnna.boards", ("configuration", "power")),
    Part("Serving", "cnna.serve.in_process", ("Engine",)),
    Part("", "cnna.serve.requests.request", ("Result",)),
    Part("", "cnna.serve.boards.limits", ("Limits",)),
    Part("Runtimes", "cnna.serve.runtimes.interface", ("Place", "Tensor", "Description", "Call", "Runtime")),
    Part("Tests of your own", "cnna.sim.testbench", ("Testbench", "run_tests")),
)
HEAD = """\
# Classes and functions

[Python](python.md) shows how they are used. The names that it lists are those of `cnna` itself, such as `cnna.compile`, whatever
module they stand in below. Everything else is imported from its module.
"""


def write(folder: Path) -> None:
    """Writes api.md."""
    (folder / "api.md").write_text("\n".join([HEAD, *_sections()]))


def _sections() -> Iterator[str]:
    for part in PARTS:
        if part.title:
            yield f"## {part.title}\n"
        module = __import__(part.module, fromlist=part.names)
        for name in part.names:
            found = getattr(module, name)
            kind = "function" if inspect.isroutine(found) else "exception" if issubclass(found, Exception) else "class"
            yield from ("```{eval-rst}", f".. auto{kind}:: {part.module}.{name}")
            if kind == "class":
                yield "   :members:"
            if kind == "exception":
                yield "   :show-inheritance:"
            yield "```\n"
