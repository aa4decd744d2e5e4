"""The example of a pipeline, as its user runs it."""

import numpy as np
import pipeline_demo
import pytest

from cnna.compiler.zoo.digits import data


def test_all_cards_are_found_and_read(capsys: pytest.CaptureFixture[str]) -> None:
    """A crop of another picture, or a digit at another card's place, would be read wrongly. The network itself errs at times."""
    assert pipeline_demo.main() == 0
    said = capsys.readouterr().out.splitlines()
    _, cards = pipeline_demo.drawn(6)
    assert said[-1].startswith(f"{len(cards)} of {len(cards)} cards found, ")
    labels = data.load().test.classes
    read = [line.rpartition(": ")[2][:1] for line in said if line.startswith("picture ")]
    assert np.mean([digit == str(labels[image]) for digit, (*_, image) in zip(read, cards, strict=True)]) > 0.9
