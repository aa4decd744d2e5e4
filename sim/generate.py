"""`python -m cnna.sim.generate CONFIG`: prints a configuration's Verilog, for `rtl.py`, from what the hw package is on disk now."""

import json
import sys

from cnna.hw.config import Config
from cnna.hw.verilog import generate

if __name__ == "__main__":
    sys.stdout.write(generate(Config(**json.loads(sys.argv[1]))))
