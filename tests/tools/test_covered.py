"""The table of `make coverage`: rooms, sums and shares."""

import covered
import tomllib


def summary(lines: int, reached: int) -> dict[str, dict[str, int]]:
    """A file's figures, as coverage.py's JSON has them."""
    return {"summary": {"num_statements": lines, "covered_lines": reached}}


FILES = {
    "serve/http/console/page.py": summary(10, 5),
    "serve/http/app.py": summary(30, 25),
    "api/__init__.py": summary(0, 0),
    "serve/engine.py": summary(8, 8),
}


def test_files_are_counted_in_their_room() -> None:
    """A folder within a room would have a line of its own, or its lines would be lost from the sum."""
    rooms = covered.by_room(FILES)
    assert list(rooms) == ["api", "serve", "serve/http"]
    assert rooms["serve/http"] == covered.Count(files=2, lines=40, reached=30)
    assert sum(rooms.values(), covered.Count()).lines == sum(file["summary"]["num_statements"] for file in FILES.values())


def test_the_table_has_shares_and_all() -> None:
    """A room without lines would divide by zero; the last line would not be the whole."""
    lines = [line.split() for line in covered.table(covered.by_room(FILES)).splitlines()]
    assert lines[1:] == [
        ["api", "1", "0", "-"],
        ["serve", "1", "8", "100.0%"],
        ["serve/http", "2", "40", "75.0%"],
        ["all", "4", "48", "79.2%"],
    ]


def test_coverage_counts_every_room_of_the_package() -> None:
    """A new folder of code would not be counted, and its lines would seem reached."""
    project = tomllib.loads((covered.ROOT / "pyproject.toml").read_text())["tool"]
    folders = set(project["setuptools"]["package-dir"].values())
    assert set(project["coverage"]["run"]["source"]) == folders
    assert project["coverage"]["json"]["output"] == str((covered.OUT / "coverage.json").relative_to(covered.ROOT))
