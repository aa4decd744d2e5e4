"""`make split-link`: what it measures and writes; two networks through namespaces where that is possible."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import shaped_link
import split_link
import split_networks
import split_table

from cnna.compiler.split.costs import Cost
from cnna.compiler.split.cuts import Crossing, Cut


def costs(chosen: str = "late") -> list[Cost]:
    """An early cut of many bytes, and a late one of few; the chosen one first."""
    found = []
    for name, size, edge, cloud in (("early", 100_000, 0.001, 0.002), ("late", 100, 0.020, 0.001)):
        cut = Cut(name, frozenset({name}), (Crossing(name, name, "int8", (size,)),), 1)
        found.append(Cost(cut, edge, 0.0, cloud))
    return sorted(found, key=lambda cost: cost.cut.node != chosen)


def test_the_choice_is_compared_with_the_best_measured() -> None:
    """A choice would be called good because it is the chooser's own."""
    taken = {"early": [0.030, 0.010, 0.011], "late": [0.025, 0.022, 0.022]}
    found = split_link.compared(1.0, costs(), taken)
    assert (found["chosen"], found["best"]) == ("late", "early")
    assert found["over"] == pytest.approx(0.022 / 0.011 - 1)
    assert split_link.compared(1000.0, costs("early"), taken)["over"] == 0


def test_the_page_says_how_many_were_good(tmp_path: Path) -> None:
    """A bad choice would be left out of the sum, or the page keep an old table."""
    taken = {"early": [0.011], "late": [0.022]}
    rows = [split_link.compared(mbit, costs(name), taken) for mbit, name in ((1.0, "late"), (1000.0, "early"))]
    result, page = tmp_path / "a.json", tmp_path / "page.md"
    result.write_text(json.dumps({"network": "a", "config": "tiny", "cuts": 2, "links": rows}))
    page.write_text("before\n<!-- cuts: written by `make split-link` -->\nold\n<!-- end of cuts -->\nbehind\n")
    split_table.write_page(page, [result])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("behind\n")
    assert "old" not in text
    assert "1 networks, 2 cases" in text
    assert "in 1 of them" in text
    assert "100.0%" in text


def test_random_networks_are_the_same_and_run() -> None:
    """A second run would measure other networks."""
    for seed in (1, 2):
        first, second = (split_networks.random_network(seed) for _ in range(2))
        assert first.SerializeToString() == second.SerializeToString()
        onnx.checker.check_model(first, full_check=True)
    assert split_networks.random_network(1) != split_networks.random_network(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_two_engines_answer_over_a_shaped_link(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packed engines would not find each other, or the link not have its speed."""
    if why := shaped_link.able():
        pytest.skip(why)
    monkeypatch.setattr(split_link, "FOLDER", tmp_path)
    model = split_networks.random_network(seed)
    network = split_networks.quantised(f"random {seed}", model, "tiny")
    found: dict[str, Any] = split_link.measured(network, [1.0, 100.0], 5)
    assert found["cuts"] > 1
    for row in found["links"]:
        assert row["cuts"][row["best"]]["measured_seconds"] == min(one["measured_seconds"] for one in row["cuts"].values())
        for cut in row["cuts"].values():
            assert cut["measured_seconds"] > 8 * (cut["bytes"] - shaped_link.BURST_BYTES) / row["mbit"] / 1e6
