"""The aarch64 programs and libraries that measured programs run with, below the user's cache folder, and the tools that run them.

Debian's Python and numpy are unpacked without root, from lists of packages of our own; onnxruntime and Pillow are wheels. Whatever
is missing is a ToolError of one line.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cnna.sim.rtl.cache import private
from cnna.spec.errors import ToolError
from cnna.spec.files import default_cache
from cnna.spec.regmap import REGISTERS, offset

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = (
    *("libc6", "libgcc-s1", "libstdc++6", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "python3-numpy"),
    *("libblas3", "liblapack3", "libgfortran5", "zlib1g", "libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libssl3"),
    *("libuuid1", "libcrypt1"),
)
WHEELS = (  # later versions of onnxruntime end with a fault under emulation, when they look for the CPU's topology
    "onnxruntime==1.23.2",
    "pillow==13.0.0",
)
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64", "manylinux_2_17_aarch64")
CPU = "cortex-a53"
NEEDED = {  # program: the package of Debian that has it
    "qemu-aarch64": "qemu-user",
    "setarch": "util-linux",
    "g++": "g++",
    "apt-get": "apt",
    "dpkg": "dpkg",
    "llvm-mc": "llvm",
    "llvm-mca": "llvm",
}
COMPILER = "aarch64-linux-gnu-g++"
NATIVE = {COMPILER: "g++-aarch64-linux-gnu"}


@dataclass(frozen=True)
class Machine:
    """What runs aarch64 programs. root: their files. plugin: the counting plugin."""

    root: Path
    plugin: Path

    def command(self, out: Path, site: Path, arguments: Sequence[object]) -> list[str]:
        """The command that runs Python under emulation and writes counts to `out`. site: a folder that has cnna.

        Addresses are the same in every run, and so are hashes, so that counts repeat.
        """
        libraries = self.root / "usr" / "lib" / "aarch64-linux-gnu"
        paths = {
            "LD_LIBRARY_PATH": (libraries / "blas", libraries / "lapack"),
            "PYTHONPATH": (site, HERE, self.root / "wheels"),
            "TMPDIR": (out.parent,),  # where the board's turn is taken: programs that run at once must not wait for each other
            "PYTHONHASHSEED": (0,),
            "PYTHONDONTWRITEBYTECODE": (1,),
        }
        inside = [word for name, values in paths.items() for word in ("-E", f"{name}={':'.join(map(str, values))}")]
        plugin = ",".join([str(self.plugin), f"out={out}", *(f"{name}={value}" for name, value in played().items())])
        emulator = ["setarch", "--addr-no-randomize", "qemu-aarch64", "-B", "0", "-cpu", CPU, "-L", str(self.root)]
        return [*emulator, *inside, "-plugin", plugin, str(self.root / "usr/bin/python3.11"), *map(str, arguments)]


def played() -> dict[str, int]:
    """The registers of the accelerator that the plugin plays: offsets and masks."""
    ctrl = REGISTERS["CTRL"]
    return {
        "ctrl": offset("CTRL"),
        "start": ctrl.pack(start=1) | ctrl.pack(begin=1),
        "queue": ctrl.pack(queue=1),
        "reset": ctrl.pack(soft_reset=1),
        "status": offset("STATUS"),
        "done": REGISTERS["STATUS"].pack(done=1),
        "finished": offset("FINISHED"),
    }


def check_tools(native: bool = False) -> None:
    """ToolError: a program is missing; the line names the packages that bring all that are."""
    wanted = NEEDED | (NATIVE if native else {})
    if missing := [name for name in wanted if shutil.which(name) is None]:
        packages = " ".join(sorted({wanted[name] for name in missing}))
        raise ToolError(f"host costs are counted with {', '.join(missing)}, not installed here: apt-get install {packages}")


def machine(cache: Path | None = None) -> Machine:
    """The machine, made at the first use. ToolError: something is missing, or cannot be fetched."""
    check_tools()
    folder = private(cache or default_cache()) / "host_cost"
    folder.mkdir(exist_ok=True)
    return Machine(_root(folder), _plugin(folder))


def _plugin(folder: Path) -> Path:
    sources = [HERE / "counter.cpp", HERE / "plugin_interface.h"]
    built = folder / f"counter-{_digest(*(source.read_text() for source in sources))}.so"
    if not built.exists():
        with TemporaryDirectory(dir=folder) as name:
            made = Path(name) / built.name
            _run("g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", sources[0], "-o", made)
            made.rename(built)
    return built


def _root(folder: Path) -> Path:
    found = folder / f"root-{_digest(SUITE, MIRROR, *PACKAGES, *WHEELS)}"
    if not found.exists():
        print("host cost: fetching Debian's aarch64 Python and numpy, and two wheels", file=sys.stderr)
        with TemporaryDirectory(dir=folder) as name:
            made = Path(name) / "root"
            made.mkdir()
            _unpack_packages(made, Path(name) / "apt")
            _unpack_wheels(made / "wheels")
            made.rename(found)
    return found


def _unpack_packages(root: Path, apt: Path) -> None:
    """Debian's packages, by an apt of its own: the machine's lists and architectures stay as they are."""
    for folder in ("state/lists/partial", "cache/archives/partial", "packages"):
        (apt / folder).mkdir(parents=True)
    (apt / "state" / "status").touch()
    if not Path(KEYS).exists():
        raise ToolError(f"{KEYS} is missing, by which Debian's packages are checked: apt-get install debian-archive-keyring")
    (apt / "sources.list").write_text(f"deb [signed-by={KEYS}] {MIRROR} {SUITE} main\n")
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "state" / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "",
    }
    configuration = apt / "apt.conf"
    configuration.write_text("".join(f'{name} "{value}";\n' for name, value in options.items()))
    for command in (("update", "-q"), ("download", "-q", *PACKAGES)):
        _run("apt-get", *command, cwd=apt / "packages", env={"APT_CONFIG": str(configuration)})
    for package in sorted((apt / "packages").glob("*.deb")):
        _run("dpkg", "-x", package, root)


def _unpack_wheels(folder: Path) -> None:
    with TemporaryDirectory() as name:
        kind = ("--no-deps", "--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311")
        platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
        _run(sys.executable, "-m", "pip", "download", "--quiet", *kind, *platforms, "--dest", name, *WHEELS)
        for wheel in sorted(Path(name).glob("*.whl")):
            shutil.unpack_archive(wheel, folder, "zip")


def _run(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """ToolError: the command failed; says how."""
    words = ["env", *(f"{name}={value}" for name, value in (env or {}).items()), *map(str, command)]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise ToolError(f"{' '.join(map(str, command[:2]))} failed, so nothing is counted: {said[-1]}")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
