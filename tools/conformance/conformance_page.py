"""docs/operators.md: the outcome of the cases of onnx's suites, by suite and by operator, and why some are refused."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

from conformance_cases import WHOLE


class Tested(Protocol):
    """What the page needs to know of a case."""

    @property
    def suite(self) -> str:
        """The suite of the onnx package."""

    @property
    def name(self) -> str:
        """The name of the case."""

    @property
    def operator(self) -> str:
        """The ONNX operator that it is about."""


class Judged(Protocol):
    """What the page needs to know of a result."""

    @property
    def case(self) -> Tested:
        """The case that was judged."""

    @property
    def verdict(self) -> str:
        """accelerated, cpu, refused, wrong or crash."""

    @property
    def steps(self) -> float:
        """How far off an accelerated answer was."""

    @property
    def line(self) -> str:
        """What the user sees."""

    @property
    def share(self) -> float:
        """The accelerator's share of a network's multiply-accumulates."""

    @property
    def cpu(self) -> Sequence[str]:
        """The operators that the CPU runs."""


HEAD = """# Operators

`make conformance` writes this page. It runs the suites of the onnx package {version} through `cnna.backend`. A float model is
quantised with the case's own inputs as calibration, compiled for `tiny` (the light models for `zcu102`), and run on the emulator. A
model that is quantised already, or that reads integers, is compiled as it is.

- **accelerated**: at least one layer runs on the accelerator. A float answer differs by at most {steps} quantisation steps ({light}
  for whole networks, which are the light models and graphs by exporters). A step is 1/255 of the range of the expected values.
  Integers are equal.
- **CPU alone**: the answer is right, and the CPU computes all of it.
- **refused**: the user gets one line that says why.
- **wrong**, **crash**: a fault of ours.
"""
EXPORTED = """## Graphs by exporters

Small networks with random weights, as PyTorch's two exporters (`torchscript`, `dynamo`), tf2onnx and onnxruntime's quantiser write
them (`tools/exporter_graphs.py`). The share is that of the multiply-accumulates on the accelerator; the last column has the
operators that the CPU runs, or the line of the refusal.

"""
COLUMNS = ("accelerated", "cpu", "refused", "wrong", "crash")
NAMES = {"cpu": "CPU alone"}


def page(results: Sequence[Judged], steps: int, light: int) -> str:
    """The whole text of the page."""
    from onnx import __version__

    reasons = _reasons(results)
    parts = [
        HEAD.format(version=__version__, steps=steps, light=light),
        "## By suite\n\n" + _table(("suite", "cases", *(NAMES.get(c, c) for c in COLUMNS), "steps off"), _by(results, "suite")),
        "## By operator\n\nA case with several operators counts under the first that computes. "
        "The last column has the numbers of the lines below.\n\n" + _operators(results, reasons),
    ]
    if graphs := [result for result in results if result.case.suite == "exported"]:
        parts.append(EXPORTED + _exported(graphs))
    if reasons:
        parts.append(
            "## Refused\n\nOne line of each kind, as a user sees it, and how many cases end so.\n\n" + _lines(results, reasons)
        )
    return "\n".join(parts)


def kind_of_line(line: str) -> str:
    """A line without names and numbers. Lines that are refused for one reason have the same."""
    text = line.partition(": ")[2] or line
    return re.sub(r"\[[^]]*\]|'[^']*'|\([^)]*\)|\d+", "_", text)[:80]


def _reasons(results: Iterable[Judged]) -> dict[str, int]:
    """The number of each kind of line, most frequent first."""
    counts = Counter(kind_of_line(result.line) for result in results if result.verdict == "refused")
    return {kind: number for number, (kind, _) in enumerate(sorted(counts.items(), key=lambda item: (-item[1], item[0])), 1)}


def _by(results: Iterable[Judged], attribute: str) -> list[tuple[str, ...]]:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for result in results:
        groups[getattr(result.case, attribute)].append(result)
    rows = [(name, *_counts(group)) for name, group in groups.items()]
    return [*rows, ("all", *_counts([result for group in groups.values() for result in group]))]


def _counts(group: Sequence[Judged]) -> tuple[str, ...]:
    counts = [sum(result.verdict == verdict for result in group) for verdict in COLUMNS]
    off = max(result.steps for result in group)
    return (str(len(group)), *(str(count or "") for count in counts), f"{off:.1f}" if counts[0] else "")


def _operators(results: Sequence[Judged], reasons: dict[str, int]) -> str:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for result in results:
        if result.case.suite not in WHOLE:
            groups[result.case.operator].append(result)
    rows = []
    for name, group in sorted(groups.items()):
        whys = sorted({reasons[kind_of_line(result.line)] for result in group if result.verdict == "refused"})
        rows.append((name, *_counts(group), " ".join(map(str, whys))))
    return _table(("operator", "cases", *(NAMES.get(c, c) for c in COLUMNS), "steps off", "why refused"), rows)


def _exported(graphs: Iterable[Judged]) -> str:
    rows = []
    for result in sorted(graphs, key=lambda result: result.case.name):
        runs = result.verdict in ("accelerated", "cpu")
        rest = (
            ", ".join(f"{kind} {n}x" if n > 1 else kind for kind, n in Counter(result.cpu).items()) if runs else _cell(result.line)
        )
        figures = (f"{result.share:.1%}", f"{result.steps:.1f}") if runs else ("", "")
        rows.append((result.case.name, NAMES.get(result.verdict, result.verdict), *figures, rest))
    return _table(("graph", "", "MACs accelerated", "steps off", "on the CPU, or refused because"), rows)


def _cell(line: str) -> str:
    """A line in the form that a table's cell takes."""
    return line[:240].replace("|", "\\|")


def _lines(results: Iterable[Judged], reasons: dict[str, int]) -> str:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for result in results:
        if result.verdict == "refused":
            groups[kind_of_line(result.line)].append(result)
    rows = []
    for kind, number in reasons.items():
        first = min(groups[kind], key=lambda result: (result.case.suite, result.case.name))
        rows.append((str(number), str(len(groups[kind])), first.case.name, _cell(first.line)))
    return _table(("", "cases", "such as", "line"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
