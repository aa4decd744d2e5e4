"""docs/recipes.md: each recipe runs as it is printed, by itself, in a folder with the files that the page names."""

import re
import shutil
from pathlib import Path

import pytest

from cnna.cli.main import main

PAGE = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
LINES = 10


def recipes() -> dict[str, str]:
    """The code of each recipe by its title."""
    sections = re.split(r"(?m)^## ", PAGE.read_text())[1:]
    return {section.splitlines()[0]: section for section in sections}


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files that the page's first lines make."""
    folder = tmp_path_factory.mktemp("kitchen")
    command = re.search(r"(?m)^    cnna (models .*)$", PAGE.read_text())
    assert command
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(command[1].split()) == 0
    return folder


@pytest.mark.parametrize("title", recipes())
def test_it_runs_as_printed(
    title: str, kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader copies it, and nothing else, into a program."""
    shutil.copytree(kitchen, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", recipes()[title], re.DOTALL)
    if "cnna.bench(" in code:
        pytest.importorskip("mlperf_loadgen", reason="mlcommons-loadgen (extra `bench`) is not installed")
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES
    exec(compile(code, title, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip(), "it shows nothing"
