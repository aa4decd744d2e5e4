"""cnna: an open int8 CNN accelerator for FPGAs, the compiler that feeds it and the host that drives it.

`cnna.__version__` is the installed version, and `python -m cnna` is the command line. Everything else lives in `cnna.spec`, `hw`,
`compiler`, `host`, `sim` and `cli`; each says in its docstring what it owns. Importing this package imports none of them.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Looks the version up only when it is asked for: reading an installation's metadata takes milliseconds."""
    if name == "__version__":
        from cnna.cli.main import installed_version

        return installed_version()
    raise AttributeError(f"module 'cnna' has no attribute {name!r}")
