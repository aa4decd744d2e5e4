"""`python -m cnna`: the command line, as the program `cnna` runs it."""

import sys

from cnna.cli.program import main

sys.exit(main())
