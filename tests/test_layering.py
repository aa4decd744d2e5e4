"""Which room may import which: one table, from the bottom up, and what a board must be able to import.

A room is a top package or a folder of one; the files that stand directly in `hw/`, `compiler/`, `host/`, `serve/` or `sim/` are the
room of that name. `tools/pictures/rooms.py` draws docs/rooms.svg and CONTRIBUTING's table from ROOMS.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Room: (what it owns, the rooms that it may import). `spec` is not repeated: all may import it. A room imports only rooms above it
# in this table, so no arrow runs back.
ROOMS = {
    "spec": ("configuration, registers, numerics, commands, artifact, errors", ()),
    "hw.base": ("queues, FIFOs, delays, signatures between modules", ()),
    "hw.axi": ("buses and bus masters", ("hw.base",)),
    "hw.units": ("finished units, and waiting for them", ("hw.base",)),
    "hw.walk": ("walks over output pixels", ("hw.base",)),
    "hw.memory": ("feature memory", ("hw.base", "hw.walk")),
    "hw.dma": ("load, store, stream copies", ("hw.base", "hw.axi", "hw.units")),
    "hw.weights": ("the weight engine and its rings", ("hw.base", "hw.dma")),
    "hw.lanes": ("DSP48E2, rounding, requantisation", ("hw.base",)),
    "hw.array": ("the convolution engine", ("hw.base", "hw.units", "hw.walk", "hw.weights", "hw.lanes")),
    "hw.vector": ("the vector engine", ("hw.base", "hw.units", "hw.walk", "hw.weights", "hw.lanes")),
    "hw.control": ("registers, program, errors, counters", ("hw.base", "hw.axi", "hw.units", "hw.dma")),
    "hw": (
        "`top`, which connects the modules",
        ("hw.base", "hw.axi", "hw.units", "hw.memory", "hw.dma", "hw.weights", "hw.array", "hw.vector", "hw.control"),
    ),
    "hw.verilog": (
        "Verilog and the documents of the registers",
        (
            *("hw", "hw.base", "hw.axi", "hw.units", "hw.walk", "hw.memory", "hw.dma", "hw.weights", "hw.lanes"),
            *("hw.array", "hw.vector", "hw.control"),
        ),
    ),
    "compiler.graph": ("the int8 and the float graph", ()),
    "compiler.passes": ("rewrites of graphs", ("compiler.graph",)),
    "compiler.frontend": ("ONNX in and out", ("compiler.graph", "compiler.passes")),
    "compiler.quantise": ("calibration and ranges", ("compiler.graph", "compiler.passes", "compiler.frontend")),
    "compiler.lower": ("kernels and where words lie", ("compiler.graph",)),
    "compiler.cost": ("quick estimates of clocks", ("compiler.lower",)),
    "compiler.plan": ("places, tiles, commands, programs", ("compiler.graph", "compiler.lower", "compiler.cost")),
    "compiler.predict": ("clocks, simulated on a model", ("compiler.lower", "compiler.cost")),
    "compiler.choose": (
        "which plans are tried, and which one is taken",
        ("compiler.lower", "compiler.cost", "compiler.plan", "compiler.predict"),
    ),
    "compiler": (
        "`compile`: a model to an artifact",
        (
            *("compiler.graph", "compiler.passes", "compiler.frontend", "compiler.lower", "compiler.cost", "compiler.plan"),
            *("compiler.predict", "compiler.choose"),
        ),
    ),
    "compiler.report": ("what an artifact and its quantisation cost, in text and pictures", ("compiler.cost", "compiler.predict")),
    "compiler.heads": ("the heads of detectors, found in compiled models", ()),
    "compiler.explain": (
        "what will happen to each node of a model",
        (
            *("compiler", "compiler.graph", "compiler.passes", "compiler.frontend", "compiler.lower", "compiler.quantise"),
            *("compiler.report", "compiler.heads"),
        ),
    ),
    "compiler.explore": (
        "the quickest configurations and tilings",
        (
            *("compiler", "compiler.graph", "compiler.lower", "compiler.plan", "compiler.predict"),
            *("compiler.choose", "compiler.report"),
        ),
    ),
    "compiler.split": ("models cut in two, for an edge and a cloud", ("compiler.frontend",)),
    "compiler.zoo": ("models to try", ()),
    "pruning": (
        "channels removed from float models, to save clocks",
        ("compiler.frontend", "compiler.quantise", "compiler.report", "compiler.explain"),
    ),
    "host.native": ("C++ for what touches every byte, and numpy beside it", ()),
    "host.device": ("the driver of one accelerator", ("host.native",)),
    "host.board": ("PYNQ boards, real and virtual", ("host.native",)),
    "host.samples": ("what users hand over: arrays and pictures, read a few at a time", ()),
    "host.model": ("models that answer", ("host.native", "host.device", "host.board", "host.samples")),
    "host": ("the door to the rooms below", ()),
    "host.notebooks": ("notebooks for a board", ()),
    "host.selftest": ("a board's self-test", ("host.board", "host.model")),
    "sim.reference": ("the integer reference", ("compiler.graph", "compiler.frontend")),
    "sim.emulator": ("register programs without a clock", ()),
    "sim.rtl": ("the Verilog under Verilator", ("hw.verilog", "sim.emulator")),
    "sim.board": ("the virtual ZCU102", ("hw.axi", "sim.emulator", "sim.rtl")),
    "sim": (
        "`check`, and `testbench` for users",
        ("host.device", "host.model", "sim.emulator", "sim.rtl"),
    ),
    "serve.runtimes": ("what answers without an accelerator", ()),
    "serve.models": ("repositories, settings, golden answers", ("host.model", "host.samples", "serve.runtimes")),
    "serve.boards": ("worker processes and shared memory", ("host.board", "host.model", "serve.models", "serve.runtimes")),
    "serve.packages": (
        "what carries the engine or its models to where they run",
        ("host.native", "host.device", "host.board", "host.model", "serve.models", "serve.boards"),
    ),
    "serve.lifecycle": ("the states of versions, boards and batches, as pure functions", ()),
    "serve.requests": ("requests, their queues and batches, and counts of them", ("serve.models", "serve.runtimes")),
    "serve.engine": (
        "admission, batches, boards, versions",
        ("serve.models", "serve.boards", "serve.runtimes", "serve.lifecycle", "serve.requests"),
    ),
    "serve": ("the door: `Engine`", ("serve.models", "serve.boards", "serve.requests", "serve.engine")),
    "serve.protocol": (
        "the Open Inference Protocol, without a transport",
        ("host.samples", "serve.engine", "serve.models"),
    ),
    "serve.traces": ("traces of requests, by OpenTelemetry", ("serve.requests",)),
    "serve.fronts": ("what all fronts share: listening, start and end, the log", ("serve.engine",)),
    "serve.http": (
        "the protocol over HTTP, metrics, the console",
        ("serve.engine", "serve.protocol", "serve.runtimes", "serve.traces", "serve.requests", "serve.fronts"),
    ),
    "serve.grpc": (
        "the protocol over gRPC",
        ("serve.engine", "serve.protocol", "serve.runtimes", "serve.traces", "serve.requests", "serve.fronts"),
    ),
    "serve.remote": (
        "models of other servers, as a runtime",
        ("serve.models", "serve.protocol", "serve.runtimes", "serve.grpc"),
    ),
    "serve.ray": (
        "boards of several hosts behind one address, by Ray Serve",
        ("serve.boards", "serve.engine", "serve.fronts", "serve.http", "serve.lifecycle", "serve.models", "serve.protocol"),
    ),
    "evaluate.datasets": ("data that models are measured on, by layout", ("host.samples",)),
    "evaluate.tasks": ("what answers are judged by", ("host.model",)),
    "evaluate": (
        "`evaluate`: models measured on a user's data, side by side",
        ("compiler.frontend", "compiler.report", "host.model", "host.samples", "evaluate.datasets", "evaluate.tasks"),
    ),
    "evaluate.speed": (
        "models under the load of LoadGen",
        (
            *("evaluate", "evaluate.datasets", "evaluate.tasks", "compiler.frontend", "host.board", "host.model"),
            "host.samples",
            *("serve.models", "serve.protocol", "serve.grpc"),
        ),
    ),
    "jobs.options": ("what the arguments of a job stand for", ("sim.rtl",)),
    "jobs": (
        "what the commands do, as functions for Python",
        (
            *("compiler", "compiler.frontend", "compiler.quantise", "compiler.explain", "compiler.report"),
            *("compiler.explore", "compiler.heads", "evaluate", "host.board", "host.model", "host.native", "host.samples"),
            *("compiler.split", "evaluate.speed", "pruning", "sim.reference", "sim.rtl", "serve.models", "jobs.options"),
        ),
    ),
    "jobs.explore": (
        "which accelerator suits a network, confirmed by the RTL",
        (
            *("compiler", "compiler.frontend", "compiler.quantise", "compiler.report", "compiler.explore"),
            *("evaluate.speed", "host.model", "jobs", "jobs.options", "sim.rtl"),
        ),
    ),
    "cli": (
        "the command `cnna`",
        (
            *("jobs", "jobs.explore", "jobs.options", "compiler.frontend", "compiler.predict", "compiler.report"),
            *(
                "compiler.zoo",
                "evaluate",
                "evaluate.speed",
                "host.board",
                "host.model",
                "host.native",
                "host.samples",
                "host.selftest",
            ),
            *("sim.rtl", "sim.board"),
            *("serve.boards", "serve.engine", "serve.fronts", "serve.grpc", "serve.http", "serve.models"),
            *("serve.packages", "serve.traces"),
        ),
    ),
    "api": (
        "`cnna` itself: the version, `python -m cnna`, the backend for ONNX's tests",
        (
            *("compiler", "compiler.frontend", "compiler.quantise", "compiler.zoo", "host.board", "host.model", "host.samples"),
            *("jobs", "jobs.explore", "jobs.options", "cli"),
        ),
    ),
}
# What a room opens by name, inside functions, where the tools are installed: a board has no simulation.
BY_NAME = {"host.model": ("sim", "sim.reference", "sim.emulator", "sim.rtl"), "sim.rtl": ("hw", "sim"), "cli": ("host",)}
# The folders of `compiler.passes`, and the files beside them: which of the others each may import. From the bottom up, too.
PASSES = {
    "drop_identity": (),
    "fold_constants": (),
    "unroll_sequences": ("fold_constants",),
    "fusion": (),
    "canonical": ("fusion",),
    "views": ("fusion", "canonical"),
    "rounding": ("fold_constants", "canonical"),
    "pipeline": ("drop_identity", "fold_constants", "unroll_sequences", "fusion", "canonical", "views", "rounding"),
}
NAME = re.compile(r"cnna(\.\w+)+")
FOLDERS = ("api", "spec", "hw", "compiler", "pruning", "host", "serve", "sim", "evaluate", "jobs", "cli")
ON_A_BOARD = (
    "spec",
    "host",
    "serve/runtimes",
    "serve/models",
    "serve/packages",
    "serve/boards",
    "serve/lifecycle",
    "serve/requests",
    "serve/engine",
    "serve/fronts",
    "serve/protocol",
    "evaluate",
    "jobs",
    "cli",
)

BARRED = (
    *("onnx", "onnxruntime", "amaranth", "cocotb", "verilator", "matplotlib", "sklearn", "grpc", "pynq"),
    *("starlette", "uvicorn", "yaml", "prometheus_client", "google"),
    *("cnna.compiler", "cnna.pruning", "cnna.sim", "cnna.hw"),
)
PROGRAM = """
import importlib, importlib.abc, sys

class Bar(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == barred or name.startswith(barred + ".") for barred in {barred!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Bar())
{body}
"""


def _run(body: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code where the barred packages cannot be imported."""
    code = PROGRAM.format(barred=BARRED, body=body)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def _modules(root: Path) -> list[str]:
    files = sorted(file for folder in ON_A_BOARD for file in (root / folder).rglob("*.py"))
    return [".".join(("cnna", *file.relative_to(root).with_suffix("").parts)) for file in files if file.name != "__init__.py"]


def room_of(root: Path, module: str) -> str:
    """The room of `a.b.c` (without `cnna`); for a name inside a module it is the module's."""
    parts = module.split(".")
    if parts[0] in ("api", "spec", "cli") or parts[0] not in FOLDERS:
        return parts[0]
    return ".".join(parts[:2]) if len(parts) > 1 and (root / parts[0] / parts[1]).is_dir() else parts[0]


def imports_of(root: Path, file: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of the project in a file, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            named = [name.name[5:] or "api" for name in node.names if f"{name.name}.".startswith("cnna.")]
            yield from ((node.lineno, room_of(root, name)) for name in named)
        elif isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith("cnna."):
            inside = node.module[5:]
            yield from ((node.lineno, room_of(root, ".".join(filter(None, (inside, name.name))))) for name in node.names)


def _files(root: Path) -> list[tuple[Path, str]]:
    files = [(file, file.relative_to(root)) for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    return [(file, room_of(root, ".".join(inside.parent.parts))) for file, inside in files]


def test_no_arrow_of_the_table_runs_back() -> None:
    """A table with a circle would allow one in the code: no room could be read or tested without the other."""
    seen: set[str] = set()
    for room, (_, allowed) in ROOMS.items():
        assert set(allowed) <= seen, f"{room} may not import rooms further down: {sorted(set(allowed) - seen)}"
        seen.add(room)


def test_imports_are_in_the_table(root: Path) -> None:
    """There would be an arrow that nobody decided on. Imports inside functions count, because they couple as much."""
    wrong, used = [], set()
    for file, room in _files(root):
        for line, other in imports_of(root, file):
            if other not in (room, "spec"):
                used.add((room, other))
                if other not in ROOMS[room][1]:
                    wrong.append(f"{file.relative_to(root)}:{line}: {room} may not import {other}")
    assert not wrong, "\n".join(wrong)
    unused = {(room, other) for room, (_, allowed) in ROOMS.items() for other in allowed} - used
    assert not unused, f"the table allows what nobody imports: {sorted(unused)}"


def test_arrows_inside_passes_are_in_their_table(root: Path) -> None:
    """Rewrites of two folders that use each other could neither be read nor moved apart; the table of rooms sees one room."""
    arrows: dict[str, set[str]] = {own: set() for own in PASSES}
    folder = root / "compiler" / "passes"
    for file in sorted(folder.rglob("*.py")):
        for module in imported_modules(file):
            inside = module.removeprefix("cnna.compiler.passes.")
            if inside != module:
                arrows.setdefault(file.relative_to(folder).with_suffix("").parts[0], set()).add(inside.split(".")[0])
    assert {own: others - {own} for own, others in arrows.items()} == {own: set(allowed) for own, allowed in PASSES.items()}
    order = list(PASSES)
    assert all(order.index(other) < order.index(own) for own, allowed in PASSES.items() for other in allowed)


def imported_modules(file: Path) -> Iterator[str]:
    """The modules that `from ... import` names in a file."""
    yield from (node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module)


def test_modules_opened_by_name_are_in_the_table(root: Path) -> None:
    """`import_module("cnna.…")` is an arrow that `ast` sees only as a string; it must be allowed too."""
    wrong = []
    for file, room in _files(root):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                other = room_of(root, node.value[5:])
                if other in ROOMS and other not in ("spec", room, *ROOMS[room][1], *BY_NAME.get(room, ())):
                    wrong.append(f"{file.relative_to(root)}:{node.lineno}: {room} may not open {node.value}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_room_with_a_door(root: Path) -> None:
    """The table cannot reach a folder that it lacks; a door says in a few lines what lives there and where to begin."""
    for file, room in _files(root):
        assert room in ROOMS, file
        if file.name == "__init__.py" and room not in ("api", "host"):
            text = ast.get_docstring(ast.parse(file.read_text())) or ""
            assert 1 <= len(text.splitlines()) <= 8, f"{file}: no docstring of a few lines"


def test_every_module_for_a_board_imports_with_numpy_alone(root: Path) -> None:
    """An import that slips to the top of one of these modules would break every board."""
    modules = _modules(root)
    done = _run(f"for name in {modules!r}: importlib.import_module(name)")
    assert not done.returncode, done.stderr
    assert {"cnna.cli.main", "cnna.host.model.model", "cnna.spec.artifact"} <= set(modules)


def test_the_bar_bars() -> None:
    """Otherwise the test above would prove nothing."""
    assert "No module named 'onnx'" in _run("import onnx").stderr
    assert "No module named 'cnna.compiler'" in _run("import cnna.compiler.graph.ir").stderr


@pytest.mark.parametrize("command", ["models", "doctor --json -", "--version", "run --help", "compile --help"])
def test_commands_on_a_board_answer_or_say_what_to_install(command: str) -> None:
    """A board's user would get a traceback instead of an answer or one line."""
    done = _run(f"from cnna.cli.main import main; sys.exit(main({command.split()!r}))")
    assert "Traceback" not in done.stderr
    if command == "models":
        assert done.returncode == 2
        assert "pip install '.[tools]'" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
