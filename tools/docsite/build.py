"""Builds the documentation site: `make docs`.

PYTHONPATH=tools .venv/bin/python -m docsite.build build/site    # begin with build/site/index.html

A warning of Sphinx, or a link that leads nowhere, ends it with code 1 and no site.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import registers
from sphinx.cmd.build import build_main

from cnna.spec.errors import CnnaError, RunError
from docsite import api, commands, links, notebooks, pages

HERE = Path(__file__).resolve().parent
BACKENDS = ("rtl", "emulator")


def build(site: Path, backend: str = "rtl") -> None:
    """Writes the site into the folder, which is emptied first. RunError: it has a fault; the messages are on standard error."""
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "pages"
        pages.copy(made)
        commands.write(made)
        with (made / "commands" / "index.md").open("a") as index:
            index.write(pages.contents("commands/index", {}))
        api.write(made)
        notebooks.write(made, Path(work) / "notebooks", backend)
        _registers(made)
        built = Path(work) / "site"
        options = ["--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "--conf-dir", str(HERE)]
        options += ["--define", f"html_extra_path={made / 'extra'}", "--define", "exclude_patterns=extra"]
        if build_main([*options, "--doctree-dir", str(Path(work) / "trees"), str(made), str(built)]):
            raise RunError("Sphinx has found faults, which it names above")
        if found := links.broken(built):
            raise RunError("links that lead nowhere: " + ", ".join(found))
        shutil.copytree(built, site)


def _registers(made: Path) -> None:
    """Writes the register map as PeakRDL shows it, and the C header, and links to both at the top of the page of the registers."""
    header = Path(registers.HEADER).name
    registers.pages(made / "extra" / "register-map")
    shutil.copy(pages.ROOT / registers.HEADER, made / "extra" / header)
    page = made / "registers.md"
    title, rest = page.read_text().split("\n", 1)
    links_to = f'<a href="register-map/index.html">Register by register</a>, with a search; <a href="{header}">C header</a>'
    page.write_text(f"{title}\n\n<p>{links_to}</p>\n{rest}")


def main() -> int:
    """Builds the site that the command line asks for."""
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("site", type=Path)
    parser.add_argument("--backend", choices=BACKENDS, default="rtl", help="what computes for the notebooks")
    args = parser.parse_args()
    try:
        build(args.site, args.backend)
    except CnnaError as error:
        print(f"docs: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{args.site}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
