"""Documents that would become wrong unnoticed: generated ones are current, drawn modules exist, printed code runs."""

import re
import subprocess
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import accuracy
import lives
import numpy as np
import onnx
import picture
import pytest
import rooms
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import cnna
from cnna.cli.main import COMMANDS, main
from cnna.hw.verilog import describe
from cnna.spec.artifact import SCHEMA
from cnna.spec.regmap import VERSION

ROOT = Path(__file__).resolve().parent.parent


def test_registers_are_current(root: Path) -> None:
    """Somebody has changed the register map without `make pages`."""
    assert (root / "docs" / "registers.md").read_text() == describe.markdown()


def test_accuracy_begins_as_its_tool_writes_it(root: Path) -> None:
    """A text that was changed only in the page would be lost when a row is measured again."""
    assert (root / "docs" / "accuracy.md").read_text().startswith(accuracy.HEAD)


def test_the_picture_shows_modules_that_exist(root: Path) -> None:
    """A picture of modules that are gone would mislead; the committed one must be what `make pages` draws now."""
    assert (root / "docs" / "architecture.svg").read_text() == picture.picture()
    assert not [box.path for box in picture.BOXES if box.room and not (root / f"{box.path}.py").is_file()]


def test_the_picture_of_lives_is_current() -> None:
    """A table of states has changed without `make pages`: readers would see arrows that are gone."""
    assert lives.OUT.read_text() == lives.picture()


def test_the_picture_and_the_table_of_rooms_are_current(root: Path) -> None:
    """ROOMS has changed without `make pages`: readers would see other imports than the test allows."""
    table = rooms.read(root)
    assert (root / rooms.PICTURE).read_text() == rooms.svg(table)
    assert (root / rooms.PAGE).read_text() == rooms.with_table((root / rooms.PAGE).read_text(), table)


def test_drawn_arrows_imply_all_that_are_allowed_and_are_no_more() -> None:
    """An import that is neither drawn nor implied by a chain of arrows would be one that nobody sees."""
    table = rooms.read()
    drawn = rooms.reduced(table)
    reach: dict[str, set[str]] = {}
    for room in table:
        ends = {end for start, end in drawn if start == room}
        reach[room] = ends.union(*(reach[end] for end in ends))
        assert reach[room] >= set(table[room][1])
        assert not [end for end in ends if any(end in reach[other] for other in ends)]
    height = rooms.ranks(table)
    assert all(height[start] > height[end] for start, end in drawn)


PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bitstreams" / "README.md")
    if page.name not in ("CHANGELOG.md", "history.md")  # they name what once was
)
FILES = ("hwh", "bit", "bin", "bif", "dtso", "dtbo", "xdc")  # endings of files that are called cnna
FOLDERS = "hw|compiler|evaluate|host|serve|sim|spec|jobs|cli|api|tests|tools|docs|examples|bitstreams"


@pytest.mark.parametrize("name", PAGES)
def test_links_and_file_names_lead_somewhere(root: Path, name: str) -> None:
    """Files move, and documents must follow.

    Links are relative to the page, paths in backticks to the root; NAME stands for any.
    """
    text = (root / name).read_text()
    folder = (root / name).parent
    for target in re.findall(r"\]\(([^)#:\s]+)[^)]*\)", text):
        if "://" not in target and target not in ("http", "https"):
            assert (folder / target).exists(), target
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
        assert "NAME" in path or (root / path).exists() or (root / f"{path}.py").exists(), path


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_the_versions_of_interfaces(root: Path, name: str) -> None:
    """A reader would look for an IP, registers or entries of a manifest that this version does not have."""
    text = (root / name).read_text()
    assert set(re.findall(r"manifest (?:schema |\()(\d+)", text)) <= {str(SCHEMA)}
    named = re.findall(r"register map \(?(\d+\.\d+)|cnna:ip:cnna:(\d+\.\d+)", text)
    assert {one or other for one, other in named} <= {"{}.{}".format(*VERSION)}


# docs/resources*.md name modules of the Verilog
@pytest.mark.parametrize("name", [page for page in PAGES if not page.startswith("docs/resources")])
def test_modules_that_pages_name_exist(root: Path, name: str) -> None:
    """A reader would import what is gone; a dotted name must be a module, or something within one."""
    for dotted in re.findall(r"`(cnna(?:\.\w+)+)", (root / name).read_text()):
        parts = dotted.split(".")[1:]
        known = any(
            (top.joinpath(*parts[:end])).is_dir() or top.joinpath(*parts[:end]).with_suffix(".py").is_file()
            for end in range(max(1, len(parts) - 2), len(parts) + 1)
            for top in (root, root / "api")  # which is the package `cnna` itself
        )
        assert known or parts[0] in (*FILES, *cnna.__all__), dotted


def test_make_help_says_what_every_target_does(root: Path) -> None:
    """`make help` lists the targets: nobody would know one without its line."""
    said = subprocess.run(["make", "--no-print-directory", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.M)[0].split()
    assert sorted(line.split()[0] for line in said.splitlines()) == sorted(targets)
    assert all(len(line.split()) > 2 for line in said.splitlines())


def test_tour_names_every_command(root: Path) -> None:
    """A command that the tour leaves out is found by nobody."""
    text = (root / "docs" / "tour.md").read_text()
    assert all(f"cnna {name}" in text for name in COMMANDS)


def test_readme_is_read_in_a_minute(root: Path) -> None:
    """Who meets the project decides by one short page with one picture; everything else has a page of its own."""
    text = (root / "README.md").read_text()
    assert len(text.split()) < 700
    assert text.count("![") == 1


OUTPUT_OPTIONS = ("-o", "--calib", "--test", "--dump", "--json", "--html", "--png", "--trace", "--report")


TUTORIALS = ("first-run", "your-model", "explore")


@pytest.mark.parametrize(
    "name", ["README.md", "docs/tour.md", "docs/board.md", "docs/explore.md", *(f"docs/tutorials/{name}.md" for name in TUTORIALS)]
)
def test_files_of_the_tour_are_ignored(root: Path, name: str) -> None:
    """In a clone they would appear among the user's own changes and be committed; sources in folders are never meant."""
    lines = [line.split("#")[0].split() for line in (root / name).read_text().splitlines() if line.startswith("    cnna ")]
    made = {after for words in lines for word, after in pairwise(words) if word in OUTPUT_OPTIONS}
    at_the_top = [line[1:] for line in (root / ".gitignore").read_text().splitlines() if line.startswith("/")]
    assert made
    assert not [file for file in made if not any(fnmatchcase(file, pattern) for pattern in at_the_top)]
    assert all("/" not in pattern.rstrip("/") for pattern in at_the_top)
    assert not {"compiler/", "docs/", "host/", "hw/", "sim/", "tests/", "pyproject.toml"} & set(at_the_top)


OWN_MODEL = "## Bring your own model"


def commands_in(text: str) -> list[list[str]]:
    """The words of each command that a page shows, as arguments of `main`."""
    return [line.split("#")[0].split()[1:] for line in text.splitlines() if line.startswith("    cnna ")]


def test_tour_and_its_python_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user copies these lines first, and those of docs/python.md. `run` goes to the emulator; what needs the RTL is left out."""
    monkeypatch.chdir(tmp_path)
    text, _ = (root / "docs" / "tour.md").read_text().split(OWN_MODEL)
    for command in commands_in(text):
        if "rtl" in command or "--trace" in command:
            continue
        assert main([*command, *(["--device", "emulator"] if command[0] == "run" else [])]) == 0
    capsys.readouterr()
    run_python(text, "docs/tour.md")
    said = capsys.readouterr().out
    with np.load("y.npz") as answers:
        assert said.strip() == str(answers["logits"].argmax(axis=1))
    run_python((root / "docs" / "python.md").read_text(), "docs/python.md")
    assert said.strip() in capsys.readouterr().out


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_run_as_typed_and_show_what_is_printed(
    name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A beginner types these lines, and compares what comes, figures apart. `run` goes to the emulator; the RTL is left out."""
    monkeypatch.chdir(tmp_path)
    text = (root / "docs" / "tutorials" / f"{name}.md").read_text()
    if name == "your-model":
        onnx.save(exported(), "mine.onnx")
        photographs(Path("photos"))
    else:
        assert main(["models", "digits", "-o", "digits.onnx", "--calib", "calib.npz", "--test", "test.npz"]) == 0
    for command in commands_in(text):
        if command[0] != "rtl":
            device = ["--device", "emulator"] if command[0] == "run" and "--device" not in command else []
            assert main([*command, *device]) == 0
    if name == "first-run":
        run_python(text, name)
    said = {form(line) for line in capsys.readouterr().out.splitlines()}
    shown = [line for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert not [line for line in shown if line != "..." and "RTL" not in line and "on rtl" not in line and form(line) not in said]


def form(line: str) -> str:
    """A line with its words alone: figures change whenever the predictor becomes better, and with them the columns."""
    return " ".join(re.sub(r"[\d.,]+", "#", line).split())


def run_python(text: str, page: str) -> None:
    """Runs a page's blocks of Python as typed, one after another, as a reader would in one session."""
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks, page
    for block in blocks:
        exec(compile(block, page, "exec"), names)


@pytest.mark.cosim
def test_own_model_of_the_tour_runs_as_typed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """These lines lead from an exported model and a folder of pictures to the RTL's answer: a user has no other guide."""
    monkeypatch.chdir(tmp_path)
    onnx.save(exported(), "mine.onnx")
    photographs(Path("photos"))
    _, text = (root / "docs" / "tour.md").read_text().split(OWN_MODEL)
    lines = commands_in(text)
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code
    assert len(lines) + len(code[1].splitlines()) <= 10
    for command in lines:
        assert main(command) == 0
    said = capsys.readouterr().out
    for part in ("agreement with float: good", "tensors on the accelerator are in it", "RTL == emulator == reference"):
        assert part in said
    run_python(text, "docs/tour.md")
    assert capsys.readouterr().out.startswith("scores (1, 5) [")


def photographs(folder: Path) -> None:
    """Six pictures of several sizes."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number in range(6):
        Image.fromarray(rng.integers(0, 256, (20 + number, 24, 3), np.uint8)).save(folder / f"{number}.png")


def exported() -> onnx.ModelProto:
    """A classifier as exporters write it, for any batch: two convolutions, the mean, a fully connected layer, softmax."""
    rng = np.random.default_rng(2)
    shapes = {"a": (8, 3, 3, 3), "b": (8, 8, 3, 3), "c": (5, 8)}
    arrays = [numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["images", "a"], ["p"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["t"]),
        helper.make_node("Flatten", ["t"], ["u"]),
        helper.make_node("Gemm", ["u", "c"], ["v"], transB=1),
        helper.make_node("Softmax", ["v"], ["scores"]),
    ]
    sizes: dict[str, list[str | int]] = {"images": ["batch", 3, 16, 16], "scores": ["batch", 5]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    graph = helper.make_graph(nodes, "exported", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_no_two_pages_have_one_title(root: Path) -> None:
    """The site's list of pages has an entry by title: two would be told apart by a try."""
    pages = [page for folder in ("docs", "docs/howto", "docs/tutorials") for page in (root / folder).glob("*.md")]
    titles = [page.read_text().splitlines()[0] for page in pages if page.name not in ("index.md", "README.md")]
    assert sorted({title for title in titles if titles.count(title) > 1}) == []


EVERYDAY = {"CPU", "CI", "HTTP", "CHANGELOG", "CONTRIBUTING"}  # in the README, and known to whoever programs


def test_the_glossary_explains_the_readmes_abbreviations(root: Path) -> None:
    """Who is new to the field would have to look elsewhere to learn what the project is."""
    text = re.sub(r"(?m)^    .*$|`[^`]*`|\]\([^)]*\)", "", (root / "README.md").read_text())
    known = re.split(r"(?m)^## ", (root / "docs" / "glossary.md").read_text())[1]
    short = {word.removesuffix("s") for word in re.findall(r"\b[A-Z]{2,}\d*s?\b", text)} - EVERYDAY
    assert {"CNN", "FPGA", "RTL"} <= short
    assert sorted(word for word in short if word not in known) == []


def test_words_of_the_glossary_are_used_where_it_says(root: Path) -> None:
    """A word whose file has been renamed, or has another word for it by now, would send a newcomer to the wrong place."""
    lost = []
    for words, _, where in re.findall(r"^\| (\*\*.+?) \| (.*) \| (.*) \|$", (root / "docs" / "glossary.md").read_text(), re.M):
        text = "".join((root / name).read_text() for name in re.findall(r"`([^`]+)`", where))
        stems = [word.removesuffix("d").removesuffix("e")[:7] for word in re.findall(r"\*\*(.+?)\*\*", words)]
        lost += [(stem, where) for stem in stems if not re.search(rf"\b{stem}", text, re.I)]
    assert not lost


ONE_SENSE = ("piece", "part", "run", "block", "slot")


def test_a_common_word_has_one_sense_and_its_other_senses_have_words(root: Path) -> None:
    """A reader would have to guess which of four things a piece is; a word that stands for another sense must be explained."""
    text = (root / "docs" / "glossary.md").read_text()
    section = re.split(r"(?m)^## ", text.split("## One word, one sense\n")[1])[0]
    rows = dict(re.findall(r"^\| \*(\w+)\* \| .* \| (.*) \|$", section, re.M))
    defined = {word for words in re.findall(r"^\| (\*\*.+?) \|", text, re.M) for word in re.findall(r"\*\*(.+?)\*\*", words)}
    assert tuple(rows) == ONE_SENSE
    assert {"piece", "block", "slot"} <= defined
    assert not [word for word in ONE_SENSE if sum(word == other for other in defined) > 1]
    own = {"fragment", "quantum", "kernel part", "request part", "word run"}  # the others are the field's
    assert own <= {word for others in rows.values() for word in re.findall(r"\*([\w ]+)\*", others)}
    assert own <= defined


WRITTEN = ("docs/performance.md", "docs/resources.md", "docs/resources-x2.md", "docs/registers.md", "docs/operators.md")
COLUMNS = 160


@pytest.mark.parametrize("name", [page for page in PAGES if page not in WRITTEN])
def test_lines_of_prose_fit_a_window(root: Path, name: str) -> None:
    """A long line is cut or wrapped anyhow in an editor and in a review. Tables, code and generated pages are free."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", (root / name).read_text())
    lines = [line for line in text.splitlines() if not line.startswith(("|", "    ", "<!--"))]
    assert not [line for line in lines if len(line) > COLUMNS]


def test_the_changelog_is_read_by_users(root: Path) -> None:
    """Nobody reads hundreds of lines to learn what a version brings: these are in the history, whose links must lead somewhere."""
    entries = re.split(r"(?m)^## ", (root / "CHANGELOG.md").read_text())[1:]
    version = re.search(r'(?m)^version = "(.*)"', (root / "pyproject.toml").read_text())
    assert version
    assert [entry for entry in entries if entry.startswith(version[1])]
    assert all(len(entry.splitlines()) <= 30 for entry in entries)
    for folder, name in ((root, "CHANGELOG.md"), (root / "docs", "history.md")):
        targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", (folder / name).read_text())
        assert targets
        assert all((folder / target).exists() for target in targets), name
