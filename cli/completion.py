"""Tab completion in the shell, by argcomplete: `eval "$(register-python-argcomplete cnna)"` in ~/.bashrc switches it on.

The shell then runs `cnna` at each Tab, with the line so far in COMP_LINE. Only the command in that line is imported.
"""

import argparse
import os
from collections.abc import Callable

from cnna.spec.config import PRESETS
from cnna.spec.errors import ToolError

ASKED = "_ARGCOMPLETE"  # argcomplete's own variable, which the shell sets


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
    _with_presets(parser)
    argcomplete.autocomplete(parser)


def _with_presets(parser: argparse.ArgumentParser) -> None:
    """Lets `--config` offer the presets; files are offered where nothing else is known."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _with_presets(inner)
        elif action.dest == "config":
            # argcomplete reads this attribute, which argparse's own class does not declare
            action.completer = lambda **_: list(PRESETS)  # type: ignore[attr-defined]
