"""The C header of the registers: current, and what C and C++ compilers make of it is what `spec/regmap.py` says."""

import subprocess
from pathlib import Path

import pytest
import registers

from cnna.spec.regmap import REGISTERS

CHECKS = """\
#include <stddef.h>
#include "cnna_registers.h"
{}
int main(void) {{ return 0; }}
"""


def test_the_header_is_current(root: Path) -> None:
    """Somebody has changed the register map without `make pages`: a host in C would write to other registers."""
    assert (root / registers.HEADER).read_text() == registers.header()


@pytest.mark.parametrize("compiler", [("gcc", "-std=c11"), ("g++", "-std=c++17")], ids=["C", "C++"])
def test_a_compiler_finds_the_offsets_and_fields_of_the_map(compiler: tuple[str, str], root: Path, tmp_path: Path) -> None:
    """The header would not compile, or a struct with another padding would put registers elsewhere."""
    lines = []
    for register in REGISTERS.values():
        lines.append(f'static_assert(offsetof(cnna_t, {register.name}) == {register.offset}, "{register.name}");')
        bit = 0
        for field in register.fields:
            name = f"CNNA__{register.name}__{field.name.upper()}"
            lines.append(f'static_assert({name}_bp == {bit} && {name}_bw == {field.bits}, "{name}");')
            lines.append(f'static_assert({name}_bm == {((1 << field.bits) - 1) << bit}u, "{name}");')
            bit += field.bits
    source = tmp_path / ("checks.c" if compiler[0] == "gcc" else "checks.cpp")
    source.write_text(CHECKS.format("\n".join(lines)))
    strict = ["-Wall", "-Wextra", "-Werror", "-I", str((root / registers.HEADER).parent), "-fsyntax-only"]
    subprocess.run([*compiler, *strict, str(source)], check=True, timeout=60)
