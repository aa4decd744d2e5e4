"""Tab completion in the shell, by argcomplete: `eval "$(register-python-argcomplete cnna)"` in ~/.bashrc switches it on.

The shell then runs `cnna` at each Tab, with the line so far in COMP_LINE. Only the command in that line is imported.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

from cnna.spec.config import PRESETS
from cnna.spec.errors import ToolError

ASKED = "_ARGCOMPLETE"  # argcomplete's own variable, which the shell sets
TILED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Pool")  # ends of the operators whose layers have tilings (`explore --layer`)


def asked() -> bool:
    """Whether the shell asks for completions."""
    return ASKED in os.environ


def complete(parser_for: Callable[[list[str]], argparse.ArgumentParser]) -> None:
    """Answers the shell, and ends the process. ToolError: argcomplete is missing."""
    try:
        import argcomplete
    except ImportError:
        raise ToolError("tab completion needs argcomplete, which is not installed: pip install argcomplete") from None
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    parser = parser_for(line.split()[1:])
    _with_values(parser)
    argcomplete.autocomplete(parser)


def _with_values(parser: argparse.ArgumentParser) -> None:
    """Lets options and arguments offer their values; files are offered where nothing else is known."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if name == "models":
                    _offer(inner, "name", _models)
                _with_values(inner)
    _offer(parser, "config", lambda **_: list(PRESETS))
    _offer(parser, "layer", _layers)


def _offer(parser: argparse.ArgumentParser, name: str, completer: Callable[..., list[str]]) -> None:
    for action in parser._actions:
        if action.dest == name:
            offered: Any = action  # argcomplete reads an attribute that argparse's own class does not declare
            offered.completer = completer


def _models(**_: Any) -> list[str]:
    """The models that `cnna models` writes. None on a board, which has no compiler."""
    try:
        from cnna.compiler.zoo import catalogue
    except ImportError:
        return []
    return [entry.name for entry in catalogue.entries()]


def _layers(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The layers with tilings of the model that the line has named before. None if it cannot be read; the command will say why."""
    try:
        import onnx

        model = onnx.load(parsed_args.model[0], load_external_data=False)
    except Exception:  # of files, of protobuf, or that onnx is missing: a Tab has no place for an error
        return []
    return [node.name for node in model.graph.node if node.op_type.endswith(TILED)]
