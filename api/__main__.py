"""The program `cnna`, and `python -m cnna`: from its first line on Ctrl-C ends it with one line, and `main` does the rest.

`main` imports for a tenth of a second before it can set its own handlers. Nothing has been started until then, so the process ends
where it stands: an exception would be lost in an import, or end in a traceback.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

SAID, CODE = b"cnna: interrupted\n", 130  # as of `main.main`


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, SAID)
    os._exit(CODE)


def main() -> int:
    """Runs the command of the command line, and returns its exit code."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # nohup and the like set another, which stays
    if usual:
        signal.signal(signal.SIGINT, _end)
    try:
        from cnna.cli import main as command_line
        from cnna.spec.garbage import search_no_more

        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = command_line.main()
        search_no_more()
        return code
    except KeyboardInterrupt:  # between this handler and those of `main`
        _end(signal.SIGINT, None)


if __name__ == "__main__":
    sys.exit(main())
