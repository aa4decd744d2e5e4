"""The wheel that a board installs, in an environment with numpy and nothing else."""

import email
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import tomllib

from cnna.spec.extras import install

CODE = ("api", "spec", "cli", "jobs", "host", "hw", "compiler", "evaluate", "pruning", "serve", "sim")
SHIPPED = (
    *(*CODE, "docs", "examples", "bitstreams", ".ci", ".devcontainer", ".github"),
    *(".editorconfig", ".gitignore", ".pre-commit-config.yaml"),
    *("pyproject.toml", "setup.py", "MANIFEST.in", "constraints.txt", "Makefile"),
    *("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
)
SDIST = "from setuptools import build_meta; print(build_meta.build_sdist('out'))"
SECONDS = 120
BOARDS = "--config-settings=--build-option=--plat-name=linux_aarch64"  # for a board, built on a PC
EVERYTHING = """
import importlib, pkgutil
import cnna.host
names = [module.name for module in pkgutil.walk_packages(cnna.host.__path__, "cnna.host.")]
for name in names:
    importlib.import_module(name)
print(" ".join(names))
"""
RUN = """
import numpy as np
from cnna.spec import cpu_ops
from cnna.host.selftest.selftest_network import network_for
from cnna.host.model.model import Model
from cnna.spec.config import PRESETS

for config in PRESETS.values():
    artifact, pictures, answers = network_for(config)
    with Model(artifact, "emulator") as model:  # of the wheel's own tools, this one needs no more than numpy
        y = model.run(pictures)
    assert np.array_equal(y, answers)
best, classes = cpu_ops.top_k(cpu_ops.softmax(y.reshape(len(y), -1)), 5)
assert (classes[:, 0] == y.reshape(len(y), -1).argmax(1)).all() and (np.diff(best) <= 0).all()
"""


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, built from a copy of the tree, since setuptools writes into its source."""
    tree = tmp_path_factory.mktemp("tree")
    for name in SHIPPED:
        source, copy = root / name, tree / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    (tree / "out").mkdir()
    subprocess.run([sys.executable, "-c", SDIST], cwd=tree, capture_output=True, timeout=SECONDS, check=True)
    (made,) = (tree / "out").glob("cnna-*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by pip from the source archive, as whoever packages it does; without the network."""
    out = tmp_path_factory.mktemp("wheel")
    _call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, sdist)
    (made,) = out.glob("cnna-*.whl")
    return made


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel and numpy, as on a PYNQ image."""
    folder = tmp_path_factory.mktemp("bare")
    _call(sys.executable, "-m", "venv", "--without-pip", folder)
    (packages,) = folder.glob("lib/python3*/site-packages")
    numpy = importlib.util.find_spec("numpy")
    assert numpy is not None
    assert numpy.origin is not None
    installed = Path(numpy.origin).parent.parent
    metadata = f"numpy-{importlib.metadata.version('numpy')}.dist-info"
    for name in ("numpy", "numpy.libs", metadata):  # linked, not installed: pip would need the network
        (packages / name).symlink_to(installed / name)
    _call(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-index", wheel)
    return folder / "bin"


def _call(*line: object, fails: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line outside the project's folder, without anything that points to it. more: of the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))} | more
    words = [str(word) for word in line]
    done = subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done


def test_every_module_of_host_imports(bare: Path, root: Path) -> None:
    """A package that is imported somewhere would be missing from the wheel."""
    done = _call(bare / "python", "-W", "error", "-c", EVERYTHING)
    files = [file for file in (root / "host").rglob("*.py") if file.name != "__init__.py"]
    found = set(done.stdout.split())
    assert {".".join(("cnna", *file.relative_to(root).with_suffix("").parts)) for file in files} <= found


@pytest.mark.parametrize("module", ["onnx", "amaranth", "onnxruntime", "pynq", "grpc", "matplotlib", "PIL"])
def test_the_environment_is_bare(bare: Path, module: str) -> None:
    """If this could be imported, the test above would prove nothing."""
    assert f"No module named '{module}'" in _call(bare / "python", "-c", f"import {module}", fails=True).stderr


def test_a_model_runs(bare: Path) -> None:
    """Artifact, pictures through tables, packing, unpacking and a tail in numpy must give the same bits as with everything."""
    _call(bare / "python", "-W", "error", "-c", RUN)


@pytest.mark.parametrize(
    ("device", "check", "what"),
    [("rtl", False, "device rtl"), ("reference", False, "device reference"), ("emulator", True, "--check")],
)
def test_a_session_says_which_package_its_device_needs(bare: Path, device: str, check: bool, what: str, root: Path) -> None:
    """The error would be Python's own, of a package that the user has never heard of, or name a module of ours."""
    artifact = root / "host" / "selftest" / "network" / "tiny.cnna"
    code = f"""
import cnna, numpy as np
from cnna.spec.errors import ToolError
try:
    with cnna.InferenceSession({str(artifact)!r}, device={device!r}, check={check}) as session:
        shape = [1, *session.get_inputs()[0].shape[1:]]
        session.run(None, {{session.get_inputs()[0].name: np.zeros(shape, np.uint8)}})
except ToolError as error:
    print(error)
"""
    said = _call(bare / "python", "-W", "error", "-c", code).stdout
    assert f"which is not installed: {install('tools')}" in said
    assert what in said
    assert "cnna." not in said


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("--version", 0, "cnna "),
        ("doctor", 1, "MISSING onnx "),
        ("doctor --board", 1, "missing: pynq"),
        ("board --help", 0, "selftest"),
        ("board info --help", 0, "--overlay"),
        ("board info --overlay none.bit", 2, "none.bit: no such file"),
        ("models", 2, install("tools")),
        ("serve m.cnna", 2, install("serve")),
        ("publish q.onnx --repo r --model m --config tiny", 2, install("tools")),
        ("quantize m.onnx --calib x.npz -o q.onnx", 2, install("tools")),
    ],
)
def test_commands_answer_or_say_what_to_install(bare: Path, line: str, code: int, said: str) -> None:
    """A board's user would get a traceback from the program that the wheel installs."""
    done = _call(bare / "cnna", *line.split(), fails=bool(code))
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_wheel_has_all_code(wheel: Path, root: Path) -> None:
    """A folder that the list of packages lacks would be missing only after an installation."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = [file.relative_to(root).as_posix() for folder in CODE for file in (root / folder).rglob("*.py")]
    wanted = {f"cnna/{file.removeprefix('api/')}" for file in files}
    assert wanted <= names, sorted(wanted - names)


def test_the_wheel_has_what_is_no_code(wheel: Path) -> None:
    """Notebooks or C++ in the tree, but not in `package-data`, would be missing only after an installation."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {
        "cnna/host/notebooks/1_classify.ipynb",
        "cnna/host/selftest/network/tiny.cnna",
        "cnna/host/selftest/network/answers.npz",
        "cnna/compiler/zoo/digits/digits.onnx",
        "cnna/compiler/zoo/digits/digits.csv.gz",
        "cnna/host/native/libcnna_host.so.0",
        "cnna/host/native/cnna_host.h",
        "cnna/host/native/pack.cpp",
        "cnna/sim/rtl/ddr.cpp",
        "cnna/sim/rtl/dsp48e2.v",
        *(
            f"cnna/serve/http/console/{name}"
            for name in ("index.html", "console.js", "preact.mjs", "LICENSE.preact", "LICENSE.htm")
        ),
    } <= names
    metadata = next(name for name in names if name.endswith("METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        wanted = [line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-")]
    assert [line.partition(">")[0] for line in wanted if "extra ==" not in line] == ["Requires-Python: ", "Requires-Dist: numpy"]


LIBRARY = "cnna/host/native/libcnna_host.so.0"
X86_64, AARCH64 = 62, 183  # processors, by their number in a library's header


def _platform(wheel: Path) -> tuple[str, str, int | None]:
    """The tags in a wheel's name, those inside, and the processor of its library; None: it has none."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/WHEEL"))
        (tag,) = re.findall("^Tag: (.*)$", archive.read(name).decode(), re.M)
        library = archive.read(LIBRARY) if LIBRARY in archive.namelist() else None
    return wheel.stem.split("-", 2)[2], tag, None if library is None else int.from_bytes(library[18:20], "little")


def _wheel(sdist: Path, out: Path, *more: str, fails: bool = False, **environment: str) -> Path | None:
    """The wheel that pip makes with more options."""
    line = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        *more,
        "-w",
        out,
        sdist,
    )
    _call(*line, fails=fails, **environment)
    return next(out.glob("cnna-*.whl"), None)


def test_a_wheel_is_for_the_platform_of_its_library(wheel: Path) -> None:
    """pip would install the library of a PC on a board, where numpy does all the work from then on."""
    assert _platform(wheel) == ("cp310-abi3-linux_x86_64", "cp310-abi3-linux_x86_64", X86_64)


def test_a_wheel_without_a_compiler_is_for_all(sdist: Path, tmp_path: Path) -> None:
    """It would be refused on a board for a library that it has not."""
    made = _wheel(sdist, tmp_path, CXX="none")
    assert made is not None
    assert _platform(made) == ("py3-none-any", "py3-none-any", None)


def test_a_wheel_for_a_board_needs_a_compiler_for_it(sdist: Path, tmp_path: Path) -> None:
    """Whoever asks for a board's library would get a wheel without one, and a tenth of the pace."""
    assert _wheel(sdist, tmp_path, BOARDS, fails=True, CXX="none") is None


@pytest.mark.aarch64
def test_a_wheel_for_a_board_has_a_boards_library(sdist: Path, tmp_path: Path, root: Path) -> None:
    """The guide's command would make a wheel that pip refuses on the board."""
    assert f"pip wheel --no-deps -w build {BOARDS} ." in (root / "docs" / "board.md").read_text()
    made = _wheel(sdist, tmp_path, BOARDS)
    assert made is not None
    assert _platform(made) == ("cp310-abi3-linux_aarch64", "cp310-abi3-linux_aarch64", AARCH64)


def test_every_folder_of_the_wheel_is_a_package_of_the_list(root: Path) -> None:
    """setuptools warns of code and data in a folder that is no package of the list, and will leave such folders out."""
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {name: place for name, place in listed["package-dir"].items() if place != "api"}
    here = {name: [path.parent for path in (root / place).rglob("*.py")] for name, place in folders.items()}
    code = {".".join((name, *path.relative_to(root).parts[1:])) for name, paths in here.items() for path in paths}
    assert code <= set(listed["packages"]), sorted(code - set(listed["packages"]))
    assert set(listed["package-data"]) <= set(listed["packages"])
    assert not [pattern for patterns in listed["package-data"].values() for pattern in patterns if "/" in pattern]


def test_the_source_archive_has_what_one_reads_and_runs(sdist: Path, root: Path) -> None:
    """Whoever packages it would have no documents, no examples, no tests to run, or caches of ours."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("docs", "examples", "bitstreams", ".devcontainer", ".github", "sim"):
        files = [path.relative_to(root).as_posix() for path in (root / folder).rglob("*") if path.is_file()]
        assert {name for name in files if "__pycache__" not in name} <= names, folder
    assert {".editorconfig", ".gitignore", ".pre-commit-config.yaml", ".ci/packages"} <= names, "the tests read them"
    assert {"CITATION.cff", "SECURITY.md", "CHANGELOG.md", "constraints.txt", "Makefile", "setup.py", ".ci/run"} <= names
    assert not [name for name in names if name.endswith(".pyc")]


def test_what_pypi_shows_has_no_link_into_the_tree(wheel: Path) -> None:
    """Every picture and page would be missing on the package's page; its licence, authors and home would be unknown."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        found = email.message_from_string(archive.read(name).decode())
    text, classifiers = found.get_payload(), found.get_all("Classifier")
    assert isinstance(text, str)
    assert classifiers
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert len(targets) > 10
    assert not [target for target in targets if not target.startswith(("https://", "#"))]
    assert "/raw/main/docs/detections.png)" in text
    assert found["Description-Content-Type"] == "text/markdown"
    assert (found["Author"], found["License-Expression"]) == ("cnna contributors", "Apache-2.0")
    assert {url.partition(",")[0] for url in found.get_all("Project-URL", [])} == {"Source", "Documentation", "Changelog", "Issues"}
    assert not [line for line in classifiers if line.startswith("License")], "the expression says it"


def test_one_version_and_one_address(root: Path) -> None:
    """A citation of a version that is not this one, or a link to another place, would mislead."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    citation = (root / "CITATION.cff").read_text()
    assert f"version: {project['version']}\n" in citation
    assert f"repository-code: {project['urls']['Source']}\n" in citation
    assert f"url: {project['urls']['Source']}/" in (root / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text()
    assert ".ci/run" in (root / ".github" / "workflows" / "ci.yml").read_text()


@pytest.mark.slow  # it installs from the package index: minutes, and the network
@pytest.mark.parametrize(
    ("release", "constrained"), [("3.10", True), ("3.11", True), ("3.12", True), ("3.13", True), ("3.13", False)]
)
def test_an_empty_environment_takes_it_and_runs_the_tour(
    release: str, constrained: bool, wheel: Path, root: Path, tmp_path: Path
) -> None:
    """The tour would need the repository, a package that nothing names, or a simulator that this Python cannot load.

    On 3.10 it is the host alone. Unconstrained, pip chooses the newest version of each package, as it does for users.
    """
    python = shutil.which(f"python{release}")
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:  # pyenv's, of none
        pytest.skip(f"python{release} is not installed")
    _call(python, "-m", "venv", tmp_path / "env")
    programs, tools = tmp_path / "env" / "bin", release != "3.10"
    versions: list[str | Path] = ["--constraint", root / "constraints.txt"] if constrained else []
    install: list[str | Path] = [programs / "python", "-m", "pip", "install", "--quiet", *versions]
    subprocess.run([*install, f"{wheel}[tools]" if tools else wheel], timeout=3600, check=True)
    _call(programs / "cnna", "doctor", *([] if tools else ["--board"]), fails=not tools)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}  # which has no simulator of another Python
    text, _ = (root / "docs" / "tour.md").read_text().split("## Bring your own model")
    for line in text.splitlines() if tools else ():
        words = line.split("#")[0].split()
        if line.startswith("    cnna ") and "rtl" not in words and "--trace" not in words and "--dsp" not in words:
            emulated = words[1] == "run" and "--check" not in words  # with it the RTL runs, in a simulator that this Python builds
            command: list[str | Path] = [programs / words[0], *words[1:], *(["--device", "emulator"] if emulated else [])]
            subprocess.run(command, cwd=tmp_path, env=environment, timeout=600, check=True)
    if tools:
        assert (tmp_path / "report.html").is_file()
        figures = json.loads((tmp_path / "r.json").read_text())
        assert (figures["device"], figures["matches_reference"]) == ("rtl", True)
