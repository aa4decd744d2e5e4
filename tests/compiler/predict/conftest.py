"""Modules of the predictor as Python interprets them: tests that look inside see nothing in machine code."""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest

PACKAGE = "cnna.compiler.predict"


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a module of the predictor from its source, whether or not there is machine code."""
    monkeypatch.setattr("cnna.compiler.predict", import_module(PACKAGE))
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        monkeypatch.delitem(sys.modules, name)
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)  # with a profiler at work, the sources are taken
    try:
        import_module(PACKAGE)
    finally:
        sys.setprofile(before)
    return lambda name: import_module(f"{PACKAGE}.{name}")
