"""The page of what quantisation costs: what its numbers say."""

import re
from typing import Any

import pytest

from cnna.compiler.report.noise_page import noise_page


def page(clipped: float = 0.0, cost: float = 0.0, snr_db: float = 30.0) -> str:
    """Of one layer."""
    layer = {"name": "conv", "op": "Conv", "int8": True, "snr_db": snr_db, "clipped": clipped, "cost": cost}
    output = {"name": "scores", "said": "top-1 100.00%", "samples": 8, "verdict": "good", "why": "its name has 'score'"}
    found: dict[str, Any] = {
        "model": "m.onnx",
        "name": "m",
        "method": "minmax",
        "effort": 0,
        "calibration_samples": 40,
        "samples": 40,
    }
    found |= {"held_out": False, "agreement": 0.9776, "classified": ["scores", "boxes"], "float_top1": 0.9, "int8_top1": 0.8}
    return noise_page({**found, "outputs": [output], "layers": [layer], "worst": ["conv"]})


@pytest.mark.parametrize(
    ("clipped", "text"), [(0.0, "0"), (1e-9, "&lt; 0.0001%"), (9.9e-7, "&lt; 0.0001%"), (1e-6, "0.0001%"), (0.25, "25.0000%")]
)
def test_a_share_that_is_there_is_not_called_zero(clipped: float, text: str) -> None:
    """One clipped value of ten millions would read as 0.0000%, unlike the 0 of a tensor without any."""
    assert f">{text}</td>" in page(clipped=clipped)


@pytest.mark.parametrize("value", [-1e-9, -0.0004, 0.0, 0.0004])
def test_zero_has_no_sign(value: float) -> None:
    """-0.0% asks a reader what it means."""
    assert re.findall(r">(-?[\d.]+%)</td>", page(cost=value))[-1] == "0.0%"
    assert ">-0.0 dB<" not in page(snr_db=value)


def test_shares_say_what_they_are_of_and_on_how_many_samples() -> None:
    """Agreement of all outputs on all samples, and top-1 of one on eight, would contradict each other."""
    said = page()
    assert "agreement with float: the greatest class of scores, boxes" in said
    assert "top-1 of scores" in said
    assert "measured on 40 samples" in said
    assert "output scores: top-1 100.00% on 8 of the samples: good" in said
