"""The predictor as machine code: it gives the figures of its sources, and is used only where it was made of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.predict import machine_code, predict
from cnna.compiler.predict.machine_code import FOLDER, READY, SOURCES, BuildError, build, state, usable
from cnna.spec.config import preset

from ...networks import network


def test_it_is_used_where_it_is():
    """A clone would have built it for nothing."""
    assert (Path(predict.__file__).parent == FOLDER) == (state() == READY)


@pytest.mark.parametrize("config", ["tiny", "zcu102", "ultra96"])
def test_both_forms_predict_the_same(config, interpreted, seed):
    """A plan would be chosen by the form in which the predictor runs, and programs would differ between machines."""
    programs = [compile_graph(network(seed * 100 + number), preset(config), 1 + number % 3) for number in range(5)]
    found = [predict.predicted_spans(program.program, program.config) for program in programs]
    source = interpreted("predict")
    assert source.__file__.endswith(".py")
    for program, spans in zip(programs, found, strict=True):
        own = source.predicted_spans(program.program, program.config)
        assert [vars(span) for span in own] == [span_of(span) for span in spans]


def span_of(span):
    """The fields of a span, of either form."""
    return {name: getattr(span, name) for name in ("engine", "begin", "end", "held")}


def test_that_of_other_sources_is_not_used(tmp_path):
    """After a change of a source, the old figures would still come."""
    remedy = f"{sys.executable} -m cnna.compiler.predict makes it quicker"
    assert state(tmp_path) == f"Python ({remedy})"
    digests = {"compiler/predict/predict.py": machine_code.digest(machine_code.ROOT / "compiler/predict/predict.py")}
    (tmp_path / SOURCES).write_text(json.dumps(digests))
    assert usable(tmp_path)
    (tmp_path / SOURCES).write_text(json.dumps(digests | {"spec/config.py": "0"}))
    assert state(tmp_path) == f"Python, since spec/config.py has changed ({remedy})"
    assert not usable(tmp_path)
    (tmp_path / SOURCES).write_text("cut off")
    assert not usable(tmp_path)


def test_make_makes_it_anew_after_a_change_of_any_source():
    """Else the predictor would take three times as long without a word, until somebody asks `cnna doctor`."""
    line = "import sys, cnna.compiler.predict.predict; print(*(name for name in sys.modules if name.startswith('cnna.')))"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    rooms = {module[len("cnna.") :].rpartition(".")[0].replace(".", "/") for module in done.stdout.split()} - {"", "compiler"}
    known = next(line for line in (machine_code.ROOT / "Makefile").read_text().splitlines() if line.startswith("PREDICTOR = "))
    assert rooms <= set(known.partition("#")[0].split())


def test_a_debugger_sees_the_sources(tmp_path):
    """One could not step into machine code, and coverage would call every line of it unreached."""
    (tmp_path / SOURCES).write_text("{}")
    assert usable(tmp_path)
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert not usable(tmp_path)
    finally:
        sys.settrace(before)


def test_what_fails_is_one_line_and_changes_nothing(tmp_path, monkeypatch):
    """Without mypy or a C compiler, an install would end with pages of text, or take half of the modules."""
    monkeypatch.setattr(machine_code, "SETUP", "import nowhere_to_be_found")
    killed = tmp_path / "made" / f"{machine_code.BUILDING}of-yesterday"
    (killed / "cnna").mkdir(parents=True)
    os.utime(killed, (0, 0))
    with pytest.raises(BuildError, match=r"^ModuleNotFoundError: No module named 'nowhere_to_be_found' \(it takes mypy, "):
        build(tmp_path / "made")
    assert not list((tmp_path / "made").iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match="file: File exists"):
        build(tmp_path / "file")


def test_the_cause_of_a_failure_is_said(tmp_path, monkeypatch):
    """A missing package would end in a line of Python's, and missing headers in that `gcc` has failed."""
    monkeypatch.setattr(machine_code, "MAKERS", {"nowhere_to_be_found": "nowhere", "json": "json"})
    with pytest.raises(BuildError, match=r"^nowhere missing: .* -m pip install nowhere$"):
        build(tmp_path / "made")
    monkeypatch.setattr(machine_code, "MAKERS", {})
    output = "c/x.c:1:10: fatal error: Python.h: No such file or directory\nerror: command 'gcc' failed with exit code 1"
    monkeypatch.setattr(machine_code, "SETUP", f"print({output!r}); raise SystemExit(1)")
    with pytest.raises(BuildError, match=r"fatal error: Python\.h: No such file or directory \("):
        build(tmp_path / "made")


def test_no_source_appears_beside_the_sources_meanwhile(tmp_path, monkeypatch):
    """What `cnna explore` kept is of all sources in the packages: during a build, none of it would be found."""
    setup = f"import pathlib; print('error', list(pathlib.Path({str(tmp_path)!r}).rglob('*.py'))); raise SystemExit(1)"
    monkeypatch.setattr(machine_code, "SETUP", setup)
    with pytest.raises(BuildError, match=r"^error \[\]"):
        build(tmp_path)


@pytest.mark.slow
def test_it_is_made_anew(tmp_path):
    """All modules come, and load beside each other."""
    build(tmp_path / "made")
    code = (
        "import sys, cnna.compiler.predict as package; package.__path__.insert(0, sys.argv[1])\n"
        "import cnna.compiler.predict.predict as module; print(module.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "made")], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.startswith(str(tmp_path / "made"))
