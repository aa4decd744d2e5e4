"""cnna: an open int8 CNN accelerator for FPGAs, the compiler that feeds it and the host that drives it.

The names in `__all__` are the public interface (docs/python.md). `cnna.InferenceSession` runs a compiled model on any device,
`cnna.Detector` gives a detector's boxes, `cnna.Overlay` offers a model as a DPU's users know it, and `cnna.compile`, `cnna.explain`
and the other functions do what the commands of the same names do. `cnna.__version__` is the installed version, and `python -m cnna`
is the command line. Everything else lives in `cnna.spec`, `hw`, `compiler`, `host`, `sim`, `jobs` and `cli`; each says in its
docstring what it owns. Importing this package imports none of them.
"""

import os

TYPE_CHECKING = False  # as in `typing`, whose import would be a tenth of the time until the command line minds Ctrl-C
if TYPE_CHECKING:
    from cnna.host.model.detector import Detector
    from cnna.host.model.session import InferenceSession
    from cnna.host.model.vart import Overlay
    from cnna.jobs.bench import Benched, bench
    from cnna.jobs.compare import (
        Compared,
        ComparedBenchmarks,
        ComparedEvaluations,
        compare,
        compare_benchmarks,
        compare_evaluations,
    )
    from cnna.jobs.compile import Compiled, compile, load
    from cnna.jobs.convert import Converted, convert
    from cnna.jobs.eval import Evaluated, eval
    from cnna.jobs.explain import Explained, explain
    from cnna.jobs.explore.explore import Explored, Tilings, explore, tilings
    from cnna.jobs.explore.search_choices import FoundChoices, search_choices
    from cnna.jobs.options.ddr import Ddr
    from cnna.jobs.prune import Pruned, prune
    from cnna.jobs.publish import Published, publish
    from cnna.jobs.quantize import Quantized, quantize
    from cnna.jobs.report import Reported, report
    from cnna.jobs.rtl import Generated, rtl
    from cnna.jobs.run import Ran, run
    from cnna.jobs.split import Split, split
    from cnna.spec.artifact import Artifact
    from cnna.spec.config import Config
    from cnna.spec.errors import (
        ArgumentError,
        ArtifactError,
        CheckError,
        CnnaError,
        DataError,
        ModelError,
        RunError,
        ToolError,
        UserError,
    )

    __version__: str

# Where the public names are: each is looked up when it is asked for, since a session imports numpy.
_PLACES = {
    "cnna.host.model.detector": ("Detector",),
    "cnna.host.model.session": ("InferenceSession",),
    "cnna.host.model.vart": ("Overlay",),
    "cnna.jobs.bench": ("Benched", "bench"),
    "cnna.jobs.compile": ("Compiled", "compile", "load"),
    "cnna.jobs.compare": (
        *("Compared", "ComparedBenchmarks", "ComparedEvaluations", "compare", "compare_benchmarks", "compare_evaluations"),
    ),
    "cnna.jobs.convert": ("Converted", "convert"),
    "cnna.jobs.options.ddr": ("Ddr",),
    "cnna.jobs.eval": ("Evaluated", "eval"),
    "cnna.jobs.explain": ("Explained", "explain"),
    "cnna.jobs.explore.explore": ("Explored", "Tilings", "explore", "tilings"),
    "cnna.jobs.prune": ("Pruned", "prune"),
    "cnna.jobs.explore.search_choices": ("FoundChoices", "search_choices"),
    "cnna.jobs.publish": ("Published", "publish"),
    "cnna.jobs.quantize": ("Quantized", "quantize"),
    "cnna.jobs.report": ("Reported", "report"),
    "cnna.jobs.rtl": ("Generated", "rtl"),
    "cnna.jobs.run": ("Ran", "run"),
    "cnna.jobs.split": ("Split", "split"),
    "cnna.spec.artifact": ("Artifact",),
    "cnna.spec.config": ("Config",),
    "cnna.spec.errors": (
        *("ArgumentError", "ArtifactError", "CheckError", "CnnaError", "DataError", "ModelError", "RunError", "ToolError"),
        "UserError",
    ),
}
__all__ = [
    "ArgumentError",
    "Artifact",
    "ArtifactError",
    "Benched",
    "CheckError",
    "CnnaError",
    "Compared",
    "ComparedBenchmarks",
    "ComparedEvaluations",
    "Compiled",
    "Config",
    "Converted",
    "DataError",
    "Ddr",
    "Detector",
    "Evaluated",
    "Explained",
    "Explored",
    "FoundChoices",
    "Generated",
    "InferenceSession",
    "ModelError",
    "Overlay",
    "Pruned",
    "Published",
    "Quantized",
    "Ran",
    "Reported",
    "RunError",
    "Split",
    "Tilings",
    "ToolError",
    "UserError",
    "__version__",
    "bench",
    "compare",
    "compare_benchmarks",
    "compare_evaluations",
    "compile",
    "convert",
    "eval",
    "explain",
    "explore",
    "load",
    "prune",
    "publish",
    "quantize",
    "report",
    "rtl",
    "run",
    "search_choices",
    "split",
    "tilings",
]

# onnxruntime reads it when it is first imported. Otherwise it numbers this computer in the home folder, and reports to its maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


if not TYPE_CHECKING:  # a type checker knows the names from above, and would take any other name for one that is there

    def __getattr__(name: str) -> object:
        """Looks a name up only when it is asked for: a session imports numpy, and an installation's metadata takes milliseconds."""
        if name == "__version__":
            from cnna.cli.main import installed_version

            return installed_version()
        for module, names in _PLACES.items():
            if name in names:
                from importlib import import_module

                return getattr(import_module(module), name)
        raise AttributeError(f"module 'cnna' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What Tab completes: the names of `__getattr__` too."""
    return sorted({*globals(), *__all__})
