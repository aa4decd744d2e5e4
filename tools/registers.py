"""The register map for other tools, by PeakRDL: the C header of examples/cpp and the HTML pages of the site.

.venv/bin/python tools/registers.py    # writes the header; `make pages` runs it

Both are made from the SystemRDL file that `cnna rtl` writes too. Offsets and fields are the same for every configuration. The
`_reset` of a capability register (ID to CLOCK) is that of `CONFIG`; a program reads those registers instead.
"""

import tempfile
from pathlib import Path

from peakrdl_cheader.exporter import CHeaderExporter
from systemrdl import RDLCompiler
from systemrdl.node import RootNode

from cnna.hw.verilog.describe import systemrdl
from cnna.spec.config import preset

ROOT = Path(__file__).resolve().parent.parent
HEADER = "examples/cpp/cnna_registers.h"
CONFIG = "zcu102"
MATHS = '<script async src="https://cdn.jsdelivr.net/npm/mathjax@2/MathJax.js"></script>'  # loaded from elsewhere, for formulae
NO_MATHS = "<script>window.MathJax = { Hub: { Config() {}, Queue() {} } };</script>"  # of which no description has one


def compiled() -> RootNode:
    """The map, read and checked by the SystemRDL compiler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registers.rdl"
        path.write_text(systemrdl(preset(CONFIG)))
        compiler = RDLCompiler()
        compiler.compile_file(str(path))
        return compiler.elaborate()


def header() -> str:
    """The text of the C header: a struct `cnna_t` of all registers, and mask, position, width and reset of every field."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(HEADER).name  # which names the header's guard
        CHeaderExporter().export(compiled(), str(path))
        return path.read_text()


def pages(folder: Path) -> None:
    """Writes the map as HTML, with a search; begin with index.html."""
    from peakrdl_html import HTMLExporter

    HTMLExporter(generate_source_links=False).export(
        compiled(), str(folder), title="Registers of cnna", home_url="../registers.html"
    )
    for launcher in folder.glob("launcher-*"):  # scripts that start a browser: the site has a server
        launcher.unlink()
    page = (folder / "index.html").read_text()
    assert page.count(MATHS) == 1
    (folder / "index.html").write_text(page.replace(MATHS, NO_MATHS))


if __name__ == "__main__":
    (ROOT / HEADER).write_text(header())
