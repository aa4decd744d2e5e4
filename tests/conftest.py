"""Options and fixtures of the whole suite: which tests run, from which seed, and where the trained models lie.

`pytest` alone runs the unmarked tests (seconds); `make test` adds `cosim`; `make soak` and `make aarch64` run the marks of their
names, and `make baseline` `yosys` and `host_cost`.
`-m ""` runs all, as `make test-all` does. A test or file that is named on the command line runs whatever its marks.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cnna.sim.rtl.cosim import CosimDevice
    from cnna.spec.config import Config

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_SEED = 1
SOAK_SECONDS = 30.0
LONG_FILES = (  # the longest without caches first: the last file of a run must not keep one processor alone
    "tests/test_agreement.py",
    "tests/sim/board/test_own_project.py",
    "tests/hw/verilog/test_writer.py",
    "tests/test_codebooks.py",
    "tests/compiler/test_compile.py",
    "tests/cli/test_commands.py",
    "tests/hw/array/test_conv.py",
    "tests/hw/array/test_array.py",
    "tests/test_models.py",
    "tests/host/board/test_variants.py",
    "tests/hw/vector/test_vector.py",
    "tests/sim/test_check.py",
    "tests/sim/rtl/test_cosim.py",
    "tests/compiler/plan/test_waves.py",
    "tests/hw/test_second_opinion.py",
    "tests/host/native/test_loop_rig.py",
    "tests/host/test_notebooks.py",
    "tests/test_exporter_graphs.py",
    "tests/test_style.py",
    "tests/tools/test_bench.py",
    "tests/test_cpp_pieces.py",
    "tests/compiler/explore/test_explore.py",
    "tests/test_packaging.py",
    "tests/host/board/test_pynq_driver.py",
    "tests/compiler/predict/test_cost_measured.py",
    "tests/host/native/test_mutants.py",
    "tests/serve/runtimes/test_remote.py",
    "tests/compiler/plan/test_hazards.py",
    "tests/hw/weights/test_weights.py",
    "tests/hw/lanes/test_requant.py",
    "tests/test_cpp_host.py",
    "tests/hw/walk/test_fetch.py",
    "tests/sim/board/test_server.py",
    "tests/tools/test_conformance.py",
)
COLLECT_AFTER = (200_000, 10, 50)  # objects, then collections: Python's own (700, 10, 10) searches the same objects all the time


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--seed`, `--models` and `--soak`."""
    group = parser.getgroup("cnna")
    group.addoption("--seed", type=int, default=DEFAULT_SEED, help="seed of the random layers and networks (default: 1)")
    group.addoption("--soak", type=float, default=SOAK_SECONDS, metavar="SECONDS", help="how long each soak lasts (default: 30)")
    group.addoption("--models", metavar="DIR", help="folder of trained models (default: ../shared/models where present)")


def pytest_configure(config: pytest.Config) -> None:
    """Makes of `--models` a folder that is there, or None; heeds Ctrl-C where a background job was told not to; collects rarely.

    A shell's background job ignores SIGINT, under nohup SIGHUP too, and so would every process that a test starts, and ends.
    """
    config.option.models = models_folder(config.option.models)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.set_threshold(*COLLECT_AFTER)


def pytest_collection_finish() -> None:
    """Lets the garbage collector leave out what lives to the end: the imported modules and thousands of test items."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Says in the first lines what the run depends on."""
    without = [name for name in ("pynq", "_tkinter") if find_spec(name) is None]
    left_out = f"; tests that need {' and '.join(without)} are left out: not installed" if without else ""
    return f"seed {config.getoption('--seed')}, models {config.getoption('--models') or 'none'}{left_out}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts long files first; leaves out marked tests unless `-m` asks for them, or a test or file is named."""
    rank = {ROOT / name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    named = any("::" in argument or argument.endswith(".py") for argument in config.args)
    if named or "-m" in _given(config):
        return
    marks = ("cosim", "soak", "yosys", "aarch64", "host_cost", "slow")
    marked = [item for item in items if any(map(item.get_closest_marker, marks))]
    if marked:
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]


def _given(config: pytest.Config) -> set[str]:
    """The names of the options on the command line, `-mEXPRESSION` among them."""
    return {argument[:2] for argument in config.invocation_params.args if isinstance(argument, str)}


def models_folder(given: str | None) -> Path | None:
    """The folder of the trained models; None if there is none. UsageError: `--models` names no folder."""
    if given:
        if not Path(given).is_dir():
            raise pytest.UsageError(f"--models {given}: no such folder")
        return Path(given).resolve()
    default = ROOT.parent / "shared" / "models"
    return default if default.is_dir() else None


@pytest.fixture(autouse=True)
def same_signals() -> Iterator[None]:
    """A test that leaves a signal handler behind fails, and not another test hours later, whose Ctrl-C then goes nowhere."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    left = [number for number in numbers if signal.getsignal(number) is not before[number]]
    for number in left:
        signal.signal(number, before[number])
    assert not left, f"the test left handlers of {', '.join(number.name for number in left)}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The number from which random cases start; `--seed N` gives new cases."""
    return int(pytestconfig.getoption("--seed"))


@pytest.fixture(scope="session")
def soak_seconds(pytestconfig: pytest.Config) -> float:
    """How long a soak lasts; `--soak 300` gives the long ones."""
    return float(pytestconfig.getoption("--soak"))


@pytest.fixture(scope="session")
def rtl() -> Iterator[Callable[..., "CosimDevice"]]:
    """`rtl(config, verilog)`: the simulated RTL of that configuration, or other Verilog. Tests that ask for the same share it."""
    devices: dict[object, CosimDevice] = {}

    def device(config: "Config", verilog: str | None = None) -> "CosimDevice":
        from cnna.sim.rtl.cosim import CosimDevice

        from .rigs.simulators import built_quickly

        key = (config, verilog)
        if key not in devices:
            with built_quickly(config):
                devices[key] = CosimDevice(config, verilog=verilog)
        return devices[key]

    yield device
    for opened in devices.values():
        opened.close()


@pytest.fixture
def quick_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that is built now is optimised less, and one that writes waveforms not at all: the test runs few clocks on it."""
    from .rigs.simulators import optimise_less

    optimise_less(monkeypatch)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def address() -> str:
    """A loopback address of this test process: stock pynq insists on one port, so virtual boards differ by address."""
    return f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.7"
