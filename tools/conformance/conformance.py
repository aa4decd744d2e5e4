"""Runs the onnx package's own suites through cnna.backend; writes docs/operators.md and docs/operators.json. `make conformance`.

    .venv/bin/python tools/conformance/conformance.py [--match PATTERN ...]

Code 1: a case crashed, was answered wrongly, or does worse than docs/operators.json says. --match runs only the cases whose names
match, prints each, and writes nothing. The whole takes a few minutes on one core and can be interrupted; it then writes nothing.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import exported
import numpy as np
from conformance_cases import Case, cases
from conformance_page import page

from cnna.backend import Placement, Prepared, prepare, runs_as_it_is
from cnna.spec.errors import UserError
from cnna.spec.files import write_text

ROOT = Path(__file__).resolve().parents[2]
KEPT, PAGE = "operators.json", "operators.md"
VERDICTS = ("accelerated", "cpu", "refused", "wrong", "crash")  # from best to worst
STEPS = {"light": 8, "exported": 8}  # that an accelerated float answer may be off, in suites of deep networks;
NODE_STEPS = 4  # and in the others
LARGE = "zcu102"  # configuration of the light models, which are large
FLOAT32_LOSS = 1e-5  # of the greatest number in a sum
FULL_RANGE = 255  # steps between the least and the greatest int8


class Result(NamedTuple):
    """The outcome of a case. `steps`: how far off an accelerated float answer was. `line`: what the user sees, or what is wrong.

    `share`: for an exporter's graph, the accelerator's share of its multiply-accumulates. `cpu`: the operators that the CPU runs.
    """

    case: Case
    verdict: str
    steps: float = 0.0
    line: str = ""
    share: float = 0.0
    cpu: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.case.key}: {self.verdict}" + (f", {self.steps:.1f} steps" if self.steps else "") + f" {self.line}".rstrip()


class WrongAnswerError(Exception):
    """An answer differs from the expected one."""


def run(case: Case) -> Result:
    """Runs one case on all of its data. Any error but a UserError counts as a crash, which is what this tool looks for."""
    steps = 0.0
    try:
        prepared = prepare(case.model, config=LARGE if case.suite == "light" else "tiny")
        for inputs, expected in case.data():
            found = prepared.run(inputs)
            steps = max(steps, compare(case, prepared, expected, list(found)))
    except UserError as error:
        return Result(case, "refused", 0.0, " ".join(str(error).split()))
    except WrongAnswerError as error:
        return Result(case, "wrong", 0.0, str(error))
    except Exception as error:
        return Result(case, "crash", 0.0, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    placement = prepared.placement
    share = _share(case, placement) if case.suite == "exported" else 0.0
    return Result(case, "accelerated" if placement.accelerated else "cpu", steps, "", share, placement.cpu)


def _share(case: Case, placement: Placement) -> float:
    """The accelerator's share of the model's multiply-accumulates. It may spend more of them on moving channels."""
    whole = max(1, exported.macs(case.model))
    return min(placement.macs / whole, 1 - placement.cpu_macs / whole)


def compare(case: Case, prepared: Prepared, expected: Sequence[Any], found: Sequence[Any]) -> float:
    """How many quantisation steps the answers are off at most; 0 where they must be equal. WrongAnswerError: too many."""
    if len(expected) != len(found):
        raise WrongAnswerError(f"{len(found)} outputs, not {len(expected)}")
    rounded = prepared.placement.accelerated and (case.suite == "exported" or not runs_as_it_is(prepared.model.proto))
    steps = 0.0
    for number, (want, have) in enumerate(zip(expected, found, strict=True)):
        if isinstance(want, list):
            steps = max(steps, compare(case, prepared, want, list(have)))
            continue
        off = _off(case, want, have, rounded, f"output {number}")
        steps = max(steps, off)
    return steps


def _off(case: Case, want: Any, have: Any, rounded: bool, name: str) -> float:
    if want is None or have is None:
        if want is not have:
            raise WrongAnswerError(f"{name} is {have}, not {want}")
        return 0.0
    want, have = np.asarray(want), np.asarray(have)
    if (want.shape, want.dtype) != (have.shape, have.dtype):
        raise WrongAnswerError(f"{name} is {have.dtype} {list(have.shape)}, not {want.dtype} {list(want.shape)}")
    if want.dtype.kind != "f" or not rounded:
        if not (_is_close(want, have, case) if want.dtype.kind in "fc" else np.array_equal(have, want)):
            raise WrongAnswerError(f"{name} differs: {_first_difference(want, have)}")
        return 0.0
    steps = steps_off(want, have)
    if not steps <= (limit := STEPS.get(case.suite, NODE_STEPS)):
        raise WrongAnswerError(f"{name} is {steps:.1f} quantisation steps off, above {limit}: {_first_difference(want, have)}")
    return steps


def _is_close(want: Any, have: Any, case: Case) -> bool:
    """Whether floats are as near as the package wants them. Sums of large numbers may be off by what float32 loses of these."""
    finite = np.abs(want[np.isfinite(want)])
    return np.allclose(have, want, case.rtol, max(case.atol, FLOAT32_LOSS * finite.max(initial=0)), equal_nan=True)


def steps_off(want: Any, have: Any) -> float:
    """The greatest difference, in steps of an int8 whose 256 values reach from the least to the greatest expected value and 0.

    What is not finite, such as a mask's infinity, must be equal, and has no step.
    """
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], have[~finite], equal_nan=True):
        return float("inf")
    want, have = want[finite].astype(np.float64), have[finite]
    if not want.size or np.array_equal(want, have):
        return 0.0
    step = (max(float(want.max()), 0.0) - min(float(want.min()), 0.0)) / FULL_RANGE
    return float(np.abs(want - have).max()) / step if step > 0 else float("inf")


def _first_difference(want: Any, have: Any) -> str:
    """Where floats differ most (NaN for a number is most of all), or where others differ first."""
    if want.dtype.kind == "f":
        same = (want == have) | (np.isnan(want) & np.isnan(have))
        with np.errstate(invalid="ignore"):  # infinities that are equal
            off = np.where(same, 0.0, np.nan_to_num(np.abs(want.astype(np.float64) - have), nan=np.inf))
        place = np.unravel_index(int(off.argmax()), want.shape)
    else:
        place = tuple(np.argwhere(want != have)[0])
    return f"element {[int(index) for index in place]} is {have[place]}, not {want[place]}"


# --- all cases ---


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the cases, writes the page, and returns the exit code."""
    args = _arguments(argv)
    chosen = [case for case in cases() if not args.match or any(fnmatchcase(case.key, f"*{word}*") for word in args.match)]
    results: list[Result] = []
    try:
        for number, case in enumerate(chosen, 1):
            results.append(run(case))
            _show(results[-1], number, len(chosen), bool(args.match))
    except KeyboardInterrupt:
        print(f"\ninterrupted after {len(results)} of {len(chosen)} cases; nothing is written", file=sys.stderr)
        return 130
    faults = [str(result) for result in results if result.verdict in ("wrong", "crash")]
    faults += [f"{result}; it was {was}" for result, was in fallen(results, kept(args.docs)) if str(result) not in faults]
    print("\n".join(faults), end="\n" if faults else "")
    if not args.match:
        write_text(args.docs / KEPT, json.dumps(record(results), indent=1) + "\n")
        write_text(args.docs / PAGE, page(results, NODE_STEPS, STEPS["light"]))
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in VERDICTS}
    print(f"{len(results)} cases: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    return 1 if faults else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", nargs="*", default=[], metavar="PATTERN", help="cases whose SUITE/NAME contains one of these")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="where the two files are")
    return parser.parse_args(argv)


def _show(result: Result, number: int, total: int, each: bool) -> None:
    if each:
        print(result, flush=True)
    elif sys.stderr.isatty() or number % 100 == 0 or number == total:
        print(
            f"{number} of {total}: {result.case.key[:60]:60}",
            end="\r" if sys.stderr.isatty() else "\n",
            file=sys.stderr,
            flush=True,
        )


def record(results: Iterable[Result]) -> dict[str, list[str]]:
    """The cases of each verdict."""
    found: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for result in results:
        found[result.verdict].append(result.case.key)
    return found


def kept(docs: Path) -> dict[str, str]:
    """The committed verdicts, by case; none if there is no such file."""
    path = docs / KEPT
    found: Mapping[str, list[str]] = json.loads(path.read_text()) if path.is_file() else {}
    return {key: verdict for verdict, keys in found.items() for key in keys}


def fallen(results: Iterable[Result], before: Mapping[str, str]) -> list[tuple[Result, str]]:
    """The results that are worse than before, and what they were."""
    pairs = ((result, before.get(result.case.key, result.verdict)) for result in results)
    return [(result, was) for result, was in pairs if VERDICTS.index(result.verdict) > VERDICTS.index(was)]


if __name__ == "__main__":
    sys.exit(main())
