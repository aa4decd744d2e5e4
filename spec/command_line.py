"""What all programs of cnna say to users in the same way: the line of an error, and that of a mistake in the options.

`cnna` itself and `python -m cnna.serve.ray` use it.
"""

import argparse
from typing import Any, NoReturn

BAD_INPUT = 2


def line_of(error: BaseException, before: str = "", after: str = "") -> str:
    """The one line that a user sees of an error, whatever lines its text has."""
    return f"cnna: {before}{' '.join(str(error).split())}{after}"


class Parser(argparse.ArgumentParser):
    """argparse, with one line for a mistake."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse, but a command refuses what it does not know itself, and so names its own help."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Prints the message and ends with code 2."""
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")
