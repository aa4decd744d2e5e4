"""What a version takes and gives, as its runtime says in a short process of its own.

The front never imports a runtime's packages, and a file that makes one of them crash does not take the front with it.
"""

import json
import subprocess
import sys
from contextlib import redirect_stdout

from cnna.serve.runtimes.installed import opened
from cnna.serve.runtimes.interface import Description, Place, error_of, name_of
from cnna.spec.errors import CnnaError, RunError, UserError, reason_of

SECONDS = 120.0


def described(runtime: str, place: Place) -> Description:
    """Asks a runtime. UserError, RunError: what it says; that it died, or took more than SECONDS."""
    line = [sys.executable, "-m", "cnna.serve.runtimes.describe", runtime, json.dumps(place.as_json())]
    try:
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(f"{place.folder}: runtime {runtime} did not say in {SECONDS:g} s what the version takes and gives") from None
    try:
        said = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise UserError(f"{place.folder}: runtime {runtime} ended with code {done.returncode}; its last words: {last}") from None
    if "error" in said:
        raise error_of(said["kind"], said["error"])
    return Description.from_json(said)


def main() -> int:
    """`python -m cnna.serve.runtimes.describe RUNTIME PLACE` prints a description, or an error, in JSON."""
    name, place = sys.argv[1], Place.from_json(json.loads(sys.argv[2]))
    try:
        with redirect_stdout(sys.stderr):  # whatever its packages print
            found = opened(name, place)
            said = found.describe().as_json()
            found.close()
    except CnnaError as error:
        said = {"error": str(error), "kind": name_of(error)}
    except Exception as error:
        text = f"{place.folder}: runtime {name}: {type(error).__name__}: {reason_of(error)}"
        said = {"error": text, "kind": UserError.__name__}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
