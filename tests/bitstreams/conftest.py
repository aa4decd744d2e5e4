"""Leaves out what needs a Tcl interpreter where Python has none (Debian: python3-tk)."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("_tkinter") else ["test_build.py"]
