"""`python -m cnna.compiler.predict` makes the machine code of the predictor."""

import sys

from cnna.compiler.predict.machine_code import FOLDER, PACKAGE, READY, BuildError, build, state


def main() -> int:
    """The command. Returns its exit code: 0 also if there is nothing to do."""
    if state() == READY:
        print(f"cnna: {FOLDER} is of these sources already")
        return 0
    print("cnna: making machine code of the predictor, half a minute on an idle machine", flush=True)
    try:
        build()
    except KeyboardInterrupt:
        print("cnna: interrupted; the predictor is as it was", file=sys.stderr)
        return 130
    except BuildError as error:
        print(f"cnna: the predictor stays interpreted, which takes longer and gives the same figures: {error}", file=sys.stderr)
        print(f"cnna: when that is mended, {sys.executable} -m {PACKAGE} makes it anew", file=sys.stderr)
        return 1
    print(f"cnna: the predictor runs as machine code now ({FOLDER})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
