"""The pages of the site: the repository's own Markdown, where it stands in the navigation, and its links in their new places."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tomllib

from cnna.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = (
    *("1_classify", "2_inside_a_layer", "3_your_own_model", "4_detector", "5_camera"),
    *("6_tune_a_design", "7_compare_with_a_peer"),
)
PICTURES = (".png", ".svg")


class Section(NamedTuple):
    """A part of the navigation. pages: names in the site, without their suffix."""

    title: str
    pages: Sequence[str]


NAVIGATION = (
    Section("Tutorials", ("tutorials/first-run", "tutorials/your-model", "tutorials/explore", "board", "tour")),
    Section("Notebooks", tuple(f"notebooks/{name}" for name in NOTEBOOKS)),
    Section(
        "How to",
        (
            "howto/bare-metal",
            "howto/cocotb",
            "pynq-image",
            "vivado",
            "own-vivado",
            "other-boards",
            "preprocess",
            "quantise",
            "pruning",
            "report",
            "explore",
            "eval",
            "detectors",
            "models",
            "serving",
            "cluster",
            "thousand-boards",
        ),
    ),
    Section("Reference", ("commands/index", "serving/reference", "python", "recipes", "api", "artifact", "registers", "operators")),
    Section("Rules", ("numerics", "engines", "glossary")),
    Section(
        "Figures",
        (
            "limits",
            "performance",
            "host-cost",
            "resources",
            "resources-x2",
            "boards",
            "accuracy",
            "benchmarks",
            "simulation",
            "serving/measurements",
        ),
    ),
    Section(
        "How it works",
        (
            "architecture",
            "pieces",
            "tables",
            "verilog",
            "speed",
            "codebook",
            "queue",
            "products",
            "host",
            "serving/lifecycle",
            "board-design",
            "bitstreams",
        ),
    ),
    Section(
        "Project", ("readme", "stability", "contributing", "changelog", "history", "security", "howto/index", "decisions/index")
    ),
)
INSIDE = {  # pages whose own navigation lists these
    "commands/index": tuple(f"commands/{name}" for name in COMMANDS),
    "howto/index": (
        "howto/operator",
        "howto/pass",
        "howto/register",
        "howto/preset",
        "howto/difference",
        "howto/profile",
        "howto/site",
        "howto/release",
    ),
    "decisions/index": (),
}
LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:)([^)#\s]+)([^)]*)\)")  # relative ones
TOP = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")


def sources(root: Path = ROOT) -> dict[str, str]:
    """The files of the repository that are pages: path from its root, and name in the site without suffix."""
    found = {f"{name}.md": name.lower() for name in TOP}
    found["bitstreams/README.md"] = "bitstreams"
    for path in sorted((root / "docs").rglob("*.md")):
        inside = path.relative_to(root / "docs").with_suffix("").as_posix()
        found[path.relative_to(root).as_posix()] = re.sub(r"README$", "index", inside)
    found.update({f"host/notebooks/{name}.ipynb": f"notebooks/{name}" for name in NOTEBOOKS})
    return found


def copy(folder: Path, root: Path = ROOT) -> None:
    """Writes the Markdown pages and the pictures of docs/ into the folder. LookupError: a link leads nowhere."""
    names = sources(root)
    address = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    for source, name in names.items():
        if source.endswith(".md"):
            target = folder / f"{name}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(linked((root / source).read_text(), source, names, address, root) + contents(name, names))
    for picture in (root / "docs").rglob("*"):
        if picture.suffix in PICTURES:
            target = folder / picture.relative_to(root / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(picture, target)


def linked(text: str, source: str, names: Mapping[str, str], address: str, root: Path = ROOT) -> str:
    """A page with its links in their new places: to pages of the site, or else to files in the repository at `address`."""
    here = os.path.dirname(names[source])

    def moved(found: re.Match[str]) -> str:
        picture, text, target, rest = found.groups()
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        if not (root / path).exists():
            raise LookupError(f"{source}: {target} is not there")
        if path in names:
            suffix = Path(path).suffix
            return f"{picture}[{text}]({os.path.relpath(names[path] + suffix, here or '.')}{rest})"
        if picture and path.startswith("docs/") and Path(path).suffix in PICTURES:
            return f"{picture}[{text}]({os.path.relpath(path.removeprefix('docs/'), here or '.')}{rest})"
        return f"{picture}[{text}]({address}/{'tree' if (root / path).is_dir() else 'blob'}/main/{path}{rest})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def contents(name: str, names: Mapping[str, str]) -> str:
    """The navigation at the end of a page: of the first page all sections, of others what lies inside them."""
    if name == "index":
        return "".join(_tree(section.pages, section.title) for section in NAVIGATION)
    if name == "decisions/index":
        return _tree([other for other in names.values() if other.startswith("decisions/") and other != name])
    return _tree(INSIDE[name]) if name in INSIDE else ""


def _tree(pages: Sequence[str], title: str = "") -> str:
    lines = ["", "```{toctree}", ":hidden:", *([f":caption: {title}"] if title else []), *(f"/{page}" for page in pages), "```", ""]
    return "\n".join(lines)


def navigated(names: Mapping[str, str]) -> Iterator[str]:
    """All pages that the navigation reaches."""
    for section in NAVIGATION:
        yield from section.pages
    for pages in INSIDE.values():
        yield from pages
    yield from (name for name in names.values() if name.startswith("decisions/"))
