"""What pyproject.toml cannot say: the long description, and the native host library, which pip builds where there is a compiler.

A wheel is for the platform of its library. One without a library is for all; `--plat-name` asks for one of another processor.
"""

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from sysconfig import get_platform
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

HERE = Path(__file__).parent
SOURCE = re.search(r'^Source = "(.*)"', (HERE / "pyproject.toml").read_text(), re.M)
assert SOURCE
PAGES, FILES = f"{SOURCE[1]}/blob/main/", f"{SOURCE[1]}/raw/main/"  # a picture is shown from its raw file
OLDEST = "cp310"  # Python from which on the wheel is for all: the library knows nothing of Python

text = (HERE / "README.md").read_text()  # PyPI shows it alone, so its links must be absolute
text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\g<1>{FILES}", text)
text = re.sub(r"((?<!!)\[[^]!]*\]\()(?!\w+:|#)", rf"\g<1>{PAGES}", text)

spec = importlib.util.spec_from_file_location("build", HERE / "host" / "native" / "build.py")
assert spec
assert spec.loader
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)


class BuildNative(build_ext):
    """Builds the host library by one call of the compiler. Without a compiler, numpy does its work."""

    def get_ext_filename(self, fullname: str) -> str:
        """The library's file, whose name Python does not take for a module's."""
        return str(Path(*fullname.split(".")[:-1], native.NAME))

    def build_extension(self, ext: Extension) -> None:
        """CompileError: there is no compiler, or it fails; setuptools then goes on, unless a wheel for a platform was asked for."""
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)  # of an earlier build, for another processor
        wheel: Any = self.distribution.get_command_obj("bdist_wheel", create=False)
        asked = wheel.plat_name.replace("-", "_") if getattr(wheel, "plat_name_supplied", False) else None
        ext.optional = asked is None
        other = asked if asked and asked != get_platform().replace("-", "_") else None
        compiler = f"{other.removeprefix('linux_')}-linux-gnu-g++" if other and "CXX" not in os.environ else None
        try:
            subprocess.run(native.command(output, compiler), check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            if wheel is not None:
                wheel.root_is_pure = True
            said = "the native host library is not built"
            raise CompileError(f"{said}: {error}" if asked else f"{said}, so numpy does its work: {error}") from None


library = Extension(
    "cnna.host.native.library_file",
    [str(path.relative_to(HERE)) for path in native.sources() if path.suffix == ".cpp"],
    depends=[str(path.relative_to(HERE)) for path in native.sources()],
    optional=True,
    py_limited_api=True,
)
setup(
    long_description=text,
    long_description_content_type="text/markdown",
    ext_modules=[library],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": OLDEST}},
)
