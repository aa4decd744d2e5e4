"""cnna: an open int8 CNN accelerator for FPGAs, the compiler that feeds it and the host that drives it.

`cnna.InferenceSession` runs a compiled model on any device, and `cnna.Overlay` offers it as a DPU's users know it (docs/python.md).
`cnna.__version__` is the installed version, and `python -m cnna` is the command line. Everything else lives in `cnna.spec`, `hw`,
`compiler`, `host`, `sim` and `cli`; each says in its docstring what it owns. Importing this package imports none of them.
"""

import os

TYPE_CHECKING = False  # as in `typing`, whose import would be a tenth of the time until the command line minds Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from cnna.host.model.session import InferenceSession
    from cnna.host.model.vart import Overlay

    __version__: str

__all__ = ["InferenceSession", "Overlay", "__version__"]

# onnxruntime reads it when it is first imported. Otherwise it numbers this computer in the home folder, and reports to its maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> "Any":
    """Looks a name up only when it is asked for: a session imports numpy, and an installation's metadata takes milliseconds."""
    if name == "InferenceSession":
        from cnna.host.model.session import InferenceSession

        return InferenceSession
    if name == "Overlay":
        from cnna.host.model.vart import Overlay

        return Overlay
    if name == "__version__":
        from cnna.cli.main import installed_version

        return installed_version()
    raise AttributeError(f"module 'cnna' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What Tab completes: the names of `__getattr__` too."""
    return sorted({*globals(), *__all__})
