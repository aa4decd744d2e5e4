"""Every argument of every public function, of wrong kinds and with odd values: one line of a cnna error, or an answer."""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.jobs.options import arguments

from ..conftest import samples

FUNCTIONS = sorted(name for name in cnna.__all__ if inspect.isfunction(getattr(cnna, name)))
OPEN = {"models", "device"}  # have checks of their own, since a model may be one of several kinds, and a device anything
LONGEST = 600  # letters of a line; some list what there is


def wrong() -> Iterator[Any]:
    """Values that fit few parameters."""
    yield from (object(), 5, -1, 1.5, True, "nonsense", "", b"junk", [], {}, [object()], {"z": object()}, {"": 5}, "a\0b")
    yield from (float("nan"), 10**30, (1, 3, 8, 8), np.zeros((2, 3)), np.array(["a"]), onnx.ModelProto(), lambda *given: 1 / 0)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, in_float: onnx.ModelProto, quantised: onnx.ModelProto) -> dict[str, Any]:
    """Arguments with which each function answers soon."""
    folder = tmp_path_factory.mktemp("given")
    float_model, model, calib, data = (str(folder / name) for name in ("m.onnx", "q.onnx", "calib.npz", "d.npz"))
    onnx.save(in_float, float_model)
    onnx.save(quantised, model)
    np.savez(calib, x=samples(3))
    np.savez(data, x=samples(2))
    compiled = cnna.compile(model, "tiny", output=folder / "m.cnna")
    report = cnna.report(compiled).figures()
    (folder / "r.json").write_text(json.dumps(report))
    return {
        "bench": {"matrix": {"models": model, "scenarios": "Offline", "devices": "no such device"}, "cache": folder},
        "compare": {"first": str(folder / "r.json"), "second": report},
        "compare_benchmarks": {"first": {"kind": "benchmark"}, "second": str(folder / "r.json")},
        "compare_evaluations": {"first": {"kind": "evaluation"}, "second": str(folder / "r.json")},
        "compile": {"model": model, "config": "tiny"},
        "convert": {"model": float_model, "data": calib, "config": "tiny", "limit": 1},
        "eval": {"models": compiled, "data": data, "metric": lambda answers, target: 1.0, "cache": folder},
        "explain": {"model": float_model, "config": "tiny"},
        "explore": {"model": model, "dsp": 1},
        "load": {"path": str(folder / "m.cnna")},
        "prune": {"model": float_model, "data": calib, "fewer_clocks": 0.1},
        "publish": {"model": model, "repository": str(folder / "r"), "name": "m", "configs": "nonsense"},
        "quantize": {"model": float_model, "data": calib},
        "report": {"artifact": compiled},
        "rtl": {"config": "tiny", "module": "no such module"},
        "run": {"artifact": compiled, "data": calib, "limit": 1},
        "split": {"model": model, "link": 100, "output": str(folder / "r.json")},
        "search_choices": {"model": model, "config": "tiny", "tries": 1},
        "tilings": {"model": model, "layer": "stem", "config": "tiny"},
    }


def said(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """The line of the error; None: there is an answer, or the caller's own function has failed. All else fails the test."""
    line = None
    try:
        call(*args, **kwargs)
    except cnna.CnnaError as error:
        line = str(error)
    except ZeroDivisionError:
        pass
    assert line is None or ("\n" not in line and len(line) < LONGEST)
    return line


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_a_wrong_kind_is_one_line(
    name: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip would end in an AttributeError deep inside, which names nothing that the caller wrote."""
    monkeypatch.chdir(tmp_path)  # where "nonsense" may be written
    function = getattr(cnna, name)
    for parameter in inspect.signature(function).parameters:
        for value in wrong():
            said(function, **{**given[name], parameter: value})
        assert said(function, **{**given[name], parameter: object()}) or parameter == "device"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_has_a_kind(name: str) -> None:
    """A parameter that is added would be the one that is not checked."""
    names = set(inspect.signature(getattr(cnna, name)).parameters)
    assert names - OPEN <= {*arguments.KINDS, *arguments.OWN.get(name, {})}


def test_the_line_names_argument_kind_and_value(quantised: onnx.ModelProto) -> None:
    """A line that does not say what was expected sends the reader to the source."""
    public: Any = cnna  # what a type checker would say
    for call, line in (
        (lambda: public.explore(quantised, ddr=5), "ddr must be a cnna.Ddr, such as cnna.Ddr(bytes_per_cycle=16), or None, not 5"),
        (lambda: public.tilings(quantised, 5), "layer must be a text, not 5"),
        (lambda: public.compile(quantised, "tiny", batch=1.5), "batch must be a whole number, or None, not 1.5"),
        (lambda: public.compile(quantised, "tiny", shapes={"x": 5}), "shapes must be sizes by input name, such as "),
        (lambda: public.Ddr(latency="9"), "latency must be a whole number, or None, not '9'"),
        (lambda: public.eval(5, "d.npz"), "a model is a path, bytes, a ModelProto, or what compile or quantize gave, not int"),
    ):
        with pytest.raises(cnna.ArgumentError) as raised:
            call()
        assert str(raised.value).startswith(line)
        assert isinstance(raised.value, TypeError)
    with pytest.raises(TypeError, match="limt"):
        public.eval("m.cnna", "d.npz", limt=5)


def test_methods_and_classes_do_so_too(quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, for whatever a function gives and for the classes beside them."""
    monkeypatch.chdir(tmp_path)
    compiled = cnna.compile(quantised, "tiny")
    found = [compiled, cnna.report(compiled), cnna.explain(quantised, "tiny"), cnna.compare(*[cnna.report(compiled)] * 2)]
    names = ("save", "save_trace", "slowest", "page")
    methods: list[Callable[..., Any]] = [getattr(one, name) for one in found for name in names if hasattr(one, name)]
    methods = [method for method in methods if inspect.signature(method).parameters]
    with compiled.session("reference") as session, cnna.Overlay("emulator") as overlay:
        calls: list[Callable[..., Any]] = [*methods, session.buffer, overlay.load_model, cnna.Overlay, cnna.InferenceSession]
        calls += [cnna.Detector, lambda one: cnna.InferenceSession(compiled, one)]
        calls += [lambda one: cnna.InferenceSession(compiled, check=one), lambda one: list(session.stream(None, one))]
        calls += [lambda one: session.run(None, one), lambda one: session.run(one, {"x": samples(1)})]
        calls += [lambda one: session.run_async(None, one), lambda one: session.run_async(one, {"x": samples(1)})]
        calls += [lambda one: session.run(None, {"x": one}), lambda one: cnna.Config("own", 2, 4, one, 1, 4, 1024, 512, 256)]
        for value in wrong():
            for call in calls:
                said(call, value)
