"""`make conformance`: a part of its cases, and that it judges as the page says."""

from dataclasses import replace
from pathlib import Path

import conformance
import numpy as np
import pytest
from conformance import Result, WrongAnswerError, fallen, kept, record, run, steps_off
from conformance_cases import SUITES, Case, cases
from conformance_page import kind_of_line, page

import cnna.backend as backend

QUICK = {"accelerated": 40, "cpu": 40, "refused": 20}  # the cases that `make test` runs


def case_of(key: str) -> Case:
    """The case called SUITE/NAME."""
    suite, _, name = key.partition("/")
    return next(case for case in cases([suite]) if case.name == name)


def test_a_part_of_the_suites_does_as_well_as_committed(root: Path, seed: int) -> None:
    """A case would crash, be answered wrongly, or move from the accelerator to the CPU or from the CPU to a refusal."""
    before, rng = kept(root / "docs"), np.random.default_rng(seed)
    all_cases = {case.key: case for case in cases([suite for suite in SUITES if suite != "light"])}
    chosen = []
    for verdict, count in QUICK.items():
        keys = [key for key, was in before.items() if was == verdict and key in all_cases]
        chosen += [all_cases[str(key)] for key in rng.permutation(keys)[:count]]
    results = [run(case) for case in chosen]
    assert len(results) >= 60
    worse = [f"{result}; it was {was}" for result, was in fallen(results, before)]
    assert not worse, "\n".join(worse)


def test_the_page_and_the_record_are_of_the_same_run(root: Path) -> None:
    """The page's totals would come from another run than the record with which tests compare, or that run had found a fault."""
    found = record(Result(case, kept(root / "docs")[case.key]) for case in cases())
    counts = [str(len(found[verdict]) or "") for verdict in conformance.VERDICTS]
    row = "| all | " + " | ".join([str(len(cases())), *counts]) + " |"
    assert row in (root / "docs" / conformance.PAGE).read_text()
    assert not found["wrong"]
    assert not found["crash"]


def test_an_answer_that_is_off_is_wrong() -> None:
    """If every answer passed, the table would be worthless."""
    case = case_of("pytorch-converted/test_Conv2d")
    prepared = backend.prepare(case.model)
    ((inputs, (want,)),) = case.data()
    found = prepared.run(inputs)[0]
    assert 0 < conformance.compare(case, prepared, [want], [found]) <= conformance.NODE_STEPS
    span = float(want.max() - want.min())
    for bad in (found + 0.1 * span, found[:, :-1], found.astype(np.float64), np.full_like(found, np.nan)):
        with pytest.raises(WrongAnswerError):
            conformance.compare(case, prepared, [want], [bad])
    with pytest.raises(WrongAnswerError, match="2 outputs, not 1"):
        conformance.compare(case, prepared, [want], [found, found])
    with pytest.raises(WrongAnswerError, match="output 0 is None"):
        conformance.compare(case, prepared, [want], [None])
    whole = np.arange(4)
    assert conformance.compare(case, prepared, [[whole]], [[whole]]) == 0
    with pytest.raises(WrongAnswerError, match=r"element \[0\] is 1, not 0"):
        conformance.compare(case, prepared, [[whole]], [[whole + 1]])


def test_a_step_is_a_255th_of_the_expected_range() -> None:
    """The page says so; zero belongs to the range."""
    want = np.array([1.0, 2.55], np.float32)
    assert steps_off(want, want + np.float32(0.02)) == pytest.approx(2, rel=1e-4)
    assert steps_off(want, want) == 0
    assert steps_off(want * 0, want) == float("inf")


def test_a_masks_infinity_is_equal_or_wrong() -> None:
    """Attention answers -inf at places that its mask hides; infinity less infinity is no number, so right answers would count as
    wrong, or wrong ones as right.
    """
    want = np.array([-np.inf, 1.0, 2.55, np.nan], np.float32)
    near = want + np.float32(0.01)
    assert steps_off(want, near) == pytest.approx(1, rel=1e-4)
    for place, value in ((0, -1e9), (0, np.inf), (1, -np.inf), (3, 0.0), (2, np.nan)):
        other = near.copy()
        other[place] = value
        assert not steps_off(want, other) <= conformance.NODE_STEPS


def test_worse_results_are_found_and_better_ones_are_not() -> None:
    """A move from the accelerator to the CPU keeps answers right, so nothing else would notice it."""
    case = case_of("node/test_relu")
    results = [Result(case, verdict) for verdict in conformance.VERDICTS]
    assert [result.verdict for result, _ in fallen(results, {case.key: "cpu"})] == ["refused", "wrong", "crash"]
    assert not fallen(results, {})


def test_page_counts_cases_and_groups_lines() -> None:
    """Lines with one reason, but other names and numbers, must count as one."""
    case = case_of("node/test_relu")
    other = replace(case, name="test_other")
    lines = ["a: node 'x' has 3 | 4", "b: node 'y' has 5 | 6"]
    results = [Result(case, "accelerated", 1.25), *(Result(other, "refused", 0.0, line) for line in lines)]
    text = page(results, 4, 8)
    assert "| node | 3 | 1 |  | 2 |  |  | 1.2 |" in text
    assert "| Relu | 3 | 1 |  | 2 |  |  | 1.2 | 1 |" in text
    assert "| 1 | 2 | test_other | a: node 'x' has 3 \\| 4 |" in text
    assert kind_of_line(lines[0]) == kind_of_line(lines[1])
