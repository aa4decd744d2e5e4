"""Leaves out the tests that need a Tcl interpreter if Python has none (Debian: python3-tk)."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("_tkinter") else ["test_build.py"]
