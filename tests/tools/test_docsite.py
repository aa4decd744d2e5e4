"""The documentation site: nothing that users type or import lacks its entry, and the whole of it is built without a warning."""

import argparse
import ast
import fcntl
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from docsite import api, commands, links, pages

import cnna
from cnna.cli.main import COMMANDS
from cnna.spec import errors

from ..sim.board import stock

BUILD_SECONDS = 1800


def test_every_page_has_one_place_in_the_navigation(root: Path) -> None:
    """A page outside of it is found by nobody; Sphinx would end the build."""
    written = {*pages.sources(root).values(), "api", "commands/index", *(f"commands/{name}" for name in COMMANDS)}
    places = Counter(pages.navigated(pages.sources(root)))
    assert written - {"index"} - {page for page in written if page.startswith("decisions/")} <= set(places)
    assert set(places) <= written
    assert not [page for page, count in places.items() if count > 1 and not page.startswith("decisions/")]


def test_links_lead_to_pages_or_to_the_repository(root: Path, tmp_path: Path) -> None:
    """A link would lead out of the site beside its page, or to a file that is not in the site."""
    pages.copy(tmp_path, root)
    for page in tmp_path.rglob("*.md"):
        for picture, _, target, _ in pages.LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)):
            here = (page.parent / target).resolve()
            assert here.is_file() or here.suffix == ".ipynb" or not picture, f"{page.name}: {target}"
    names = {"docs/a.md": "a", "docs/howto/operator.md": "howto/operator"}
    text = "[one](howto/operator.md#x) ![two](report.png) [three](../spec/arith.py) [four](https://e.org/a.md)\n```\n[five](../no)\n```\n"
    assert pages.linked(text, "docs/a.md", names, "https://e.org/r", root) == (
        "[one](howto/operator.md#x) ![two](report.png) [three](https://e.org/r/blob/main/spec/arith.py) [four](https://e.org/a.md)\n"
        "```\n[five](../no)\n```\n"
    )
    with pytest.raises(LookupError, match=r"docs/a\.md: gone\.md"):
        pages.linked("[one](gone.md)", "docs/a.md", names, "", root)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_all_that_one_can_type(name: str) -> None:
    """An option without its line would be known to those alone who read --help."""
    text = commands.page(name)
    for parser in _parsers(commands.command(name)):
        assert parser.prog in text
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
                assert all(f"`{option}" in text for option in action.option_strings or [str(action.metavar or action.dest)])
    assert "%(" not in text


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for _, part in commands.parts_of(parser):
        yield from _parsers(part)


def test_every_public_class_has_its_entry(root: Path, tmp_path: Path) -> None:
    """What the package exports, every error, and every class that a notebook or a document imports must be looked up somewhere."""
    api.write(tmp_path)
    text = (tmp_path / "api.md").read_text()
    wanted = [getattr(cnna, name) for name in cnna.__all__ if not name.startswith("__")]
    wanted += [found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, errors.CnnaError)]
    wanted += [found for found in imported(root) if inspect.isclass(found)]
    for found in wanted:
        assert f"{found.__module__}.{found.__name__}\n" in text


def imported(root: Path) -> Iterator[object]:
    """What the notebooks and the Python of the documents import from cnna's modules by name."""
    sources = []
    for path in (root / "host" / "notebooks").glob("*.ipynb"):
        sources.append("\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"))
    for path in (root / "docs").rglob("*.md"):
        sources += re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cnna."):
                yield from (getattr(import_module(str(node.module)), name.name, None) for name in node.names)


def test_a_broken_link_of_the_built_site_is_found(tmp_path: Path) -> None:
    """The check would pass whatever it reads. A page that loads from another site would not work without a network."""
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a><a href="https://e.org/gone">x</a>')
    assert links.broken(tmp_path) == []
    (tmp_path / "a.html").write_text('<a href="b.html#gone">x</a><img src="c.png"><a href="#no">x</a>')
    assert links.broken(tmp_path) == ["a.html: b.html#gone", "a.html: c.png", "a.html: #no"]
    (tmp_path / "a.html").write_text('<script src="https://e.org/x.js"></script>')
    assert links.broken(tmp_path) == ["a.html: https://e.org/x.js"]


@pytest.mark.slow  # it runs the notebooks, and Sphinx: minutes
def test_the_site_is_built_without_a_warning(root: Path, tmp_path: Path) -> None:
    """`make docs` would fail, or lack a page, a notebook's picture, or the registers."""
    pytest.importorskip("sphinx", reason="make docs and make test-all install it")
    pytest.importorskip("pynq", reason="it runs the notebooks; pynq has no release for this Python")
    line = [sys.executable, "-m", "docsite.build", str(tmp_path / "site"), "--backend", "emulator"]
    environment = {**os.environ, "PYTHONPATH": str(root / "tools")}
    with stock.LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(line, cwd=root, env=environment, timeout=BUILD_SECONDS, check=True)
    site = tmp_path / "site"
    for page in ("index", "tutorials/first-run", "commands/run", "api", "registers", "register-map/index", "howto/bare-metal"):
        assert (site / f"{page}.html").is_file()
    assert 'id="cnna.host.model.session.InferenceSession.run"' in (site / "api.html").read_text()
    for name in pages.NOTEBOOKS:
        assert "_images/" in (site / "notebooks" / f"{name}.html").read_text(), "it has no picture"
    assert (site / "cnna_registers.h").is_file()
