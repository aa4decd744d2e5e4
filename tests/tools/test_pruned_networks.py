"""The tool of docs/pruning.md: rows are what the command has written, and a new row leaves the others as they are."""

from pathlib import Path
from typing import Any

import pruned_networks
import pytest

FOUND: dict[str, Any] = {
    "config": "tiny",
    "clocks": 10000,
    "clocks_left": 7500,
    "saved": 0.25,
    "top1": {"float": 0.5, "pruned_float": 0.25, "int8": 0.5, "pruned_int8": 0.125},
    "agreement": {"pruned_int8": 0.75},
    "lost": 37.5,
    "lost_error": 2.04,
    "right_alone": [12, 4],
    "seconds": 3.6,
}


def test_a_row_has_the_figures_of_the_command() -> None:
    """The page would say something else than the command that it prints."""
    cells = "digits | tiny | 10,000 | 7,500 | 25.0% | {} | 50.0% | 25.0% | 50.0% | 12.5% | 37.5 ± 2.0 | 12, 4 | 0.077 | 75.0% | 4"
    assert pruned_networks.row("digits", FOUND, None) == f"| {cells.format('-')} |"
    assert pruned_networks.row("digits", FOUND, (10000, 7600)) == f"| {cells.format('10,000 to 7,600, 24.0%')} |"
    no_classes = {
        **FOUND,
        "top1": dict.fromkeys(("float", "pruned_float", "int8", "pruned_int8")),
        "agreement": {"pruned_int8": None},
        "right_alone": None,
    }
    assert pruned_networks.row("digits", no_classes, None).count(" - |") == 9


def test_a_new_row_leaves_the_others(root: Path) -> None:
    """Measuring one model would lose the rows of those that took an hour."""
    page = (root / "docs" / "pruning.md").read_text()
    one = pruned_networks.page_of(page, {"squeezenet": "| squeezenet | x |"})
    both = pruned_networks.page_of(one, {**pruned_networks.rows_of(one), "digits": "| digits | y |"})
    assert pruned_networks.rows_of(both) == {"digits": "| digits | y |", "squeezenet": "| squeezenet | x |"}
    assert both.index("digits | y") < both.index("squeezenet | x")
    outside = [text.partition(pruned_networks.BEGIN)[0] + text.partition(pruned_networks.END)[2] for text in (page, both)]
    assert outside[0] == outside[1]


def test_fine_tuned_rows_stay_where_torch_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has no torch would lose the figure, or get that of the network before it was trained."""
    monkeypatch.setattr(pruned_networks, "find_spec", lambda name: None)
    tuned = [name for name, wanted in pruned_networks.WANTED.items() if wanted.finetune]
    assert tuned
    assert not list(pruned_networks.measured(tuned, None, None, False, "row"))
    assert capsys.readouterr().out.count("torch is missing") == len(tuned)


def test_the_command_names_what_it_trains_on() -> None:
    """The page's command would make another network than its row has."""
    tuned = pruned_networks.WANTED["digits, fine-tuned"]
    assert tuned.options()[-4:] == ["--finetune", "train.npz", "--epochs", "20"]
    assert tuned.options(Path("f"))[-3] == "f/train.npz"
    assert "--finetune" not in pruned_networks.WANTED["digits"].options()


@pytest.mark.parametrize(("pair", "likely"), [((0, 0), 1.0), ((5, 5), 1.0), ((8, 0), 2 / 256), ((0, 1), 1.0), ((9, 1), 22 / 1024)])
def test_differences_of_the_same_samples_are_counted(pair: tuple[int, int], likely: float) -> None:
    """A row would call chance a loss, or a loss chance."""
    assert pruned_networks.mcnemar(*pair) == pytest.approx(likely)


def test_rows_are_of_samples_that_chose_nothing() -> None:
    """A constant that fits the samples of a row would make it look better than the network is."""
    row, constants, whole = (pruned_networks.PARTS[part](10) for part in ("row", "constants", "all"))
    assert not (row & constants).any()
    assert ((row | constants) == whole).all()
    assert row.sum() == 7
