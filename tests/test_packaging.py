"""The wheel that a board installs, in an environment with numpy and nothing else."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SHIPPED = ("api", "spec", "cli", "host", "hw", "compiler", "sim", "pyproject.toml", "README.md", "LICENSE")
SECONDS = 120
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
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by pip from a copy of the tree, since setuptools writes into its source; without the network."""
    tree = tmp_path_factory.mktemp("tree")
    for name in SHIPPED:
        source, copy = root / name, tree / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    out = tmp_path_factory.mktemp("wheel")
    _call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, tree)
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


def _call(*line: object, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a command line outside the project's folder, without anything that points to it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
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
    ("line", "code", "said"),
    [
        ("--version", 0, "cnna "),
        ("doctor", 0, "numpy"),
        ("board --help", 0, "selftest"),
        ("board info --help", 0, "--overlay"),
        ("board info --overlay none.bit", 2, "none.bit: no such file"),
        ("models", 2, "pip install 'cnna[tools]'"),
        ("quantize m.onnx --calib x.npz -o q.onnx", 2, "pip install 'cnna[tools]'"),
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
    folders = [name for name in SHIPPED if (root / name).is_dir()]
    files = [file.relative_to(root).as_posix() for folder in folders for file in (root / folder).rglob("*.py")]
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
        "cnna/sim/rtl/ddr.cpp",
        "cnna/sim/rtl/dsp48e2.v",
    } <= names
    metadata = next(name for name in names if name.endswith("METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        wanted = [line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-")]
    assert [line.partition(">")[0] for line in wanted if "extra ==" not in line] == ["Requires-Python: ", "Requires-Dist: numpy"]
