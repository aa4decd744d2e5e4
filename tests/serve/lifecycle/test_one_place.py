"""Where states are changed: in one place for versions, and in one for boards."""

import ast
from collections.abc import Iterator
from pathlib import Path

STATES = {"life", "reason"}
PLACES = {
    ("served.py", "becomes"),  # a model and its versions
    ("board.py", "happened"),
    ("catalogue.py", "load"),  # `reason` of a model: what is wrong with its folder, which is no state
    ("catalogue.py", "_read"),
    ("catalogue.py", "_assemble"),
}


def assigned(file: Path) -> Iterator[tuple[str, str, str]]:
    """(file, function, attribute) of each assignment to an attribute, but for those of a constructor."""
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield file.name, function.name, node.attr


def test_states_change_in_one_place(root: Path) -> None:
    """A state that is set beside its table could be one that no arrow leads to, or come without what follows from it."""
    found = [one for file in sorted((root / "serve" / "engine").glob("*.py")) for one in assigned(file)]
    places = {(file, function) for file, function, what in found if what in STATES}
    assert places == PLACES
    assert {what for file, function, what in found if file == "catalogue.py" and what in STATES} == {"reason"}
    assert sum(what == "life" for _, _, what in found) == 3  # of a model, of its versions, of a board
