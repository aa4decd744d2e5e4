"""The names by which the testbench reads the accelerator's signals."""

import re
from dataclasses import replace
from typing import Any

import pytest
from amaranth import tracer

from cnna.hw.verilog.writer import generate_module
from cnna.sim.rtl.testbench_top import text
from cnna.spec.config import preset

READ = re.compile(r"\bdut\.((?:\w+\.)*)(\w+)\.(\w+)")  # a signal inside an instance


def test_its_names_do_not_depend_on_local_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amaranth names a signal after the variable that takes it, which it reads from Python's bytecode. In that of 3.13 it does not
    find the variables of `a, b = Signal(), Signal()`, so no simulator could be built there.
    """
    found = tracer.get_var_name

    def attributes_alone(depth: int = 2, default: Any = tracer._raise_exception) -> Any:
        name, code = found(depth + 1, default), tracer.sys._getframe(depth).f_code
        return default if name in code.co_varnames else name

    monkeypatch.setattr(tracer, "get_var_name", attributes_alone)
    config = replace(preset("tiny"), streams=True)
    wanted = {(instance, signal) for _, instance, signal in READ.findall(text(config, "top", probes=True, trace=True))}
    assert ("issue", "started") in wanted
    for instance, signal in sorted(wanted):
        assert re.search(rf"\b{signal};$", generate_module(config, instance), re.M), f"{instance}.{signal}"
