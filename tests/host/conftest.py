"""Leaves out the tests that need pynq if it is missing (as on Python 3.13: pynq needs numpy 1.x)."""

from importlib.util import find_spec

_NEED_PYNQ = [
    "board/test_pynq_driver.py",
    "board/test_faults.py",
    "test_notebooks.py",
    "board/test_variants.py",
    "board/test_stream_faults.py",
    "local_pynq/test_buffers.py",
    "local_pynq/test_local_pynq.py",
    "local_pynq/test_other_processes.py",
]
collect_ignore = [] if find_spec("pynq") else _NEED_PYNQ
