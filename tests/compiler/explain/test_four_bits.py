"""What `cnna explain` says of weights of 4 bits, compared with what the compiler makes of them."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.explain.four_bits import CODED, DECODER, QUANTISE
from cnna.compiler.explain.text import table
from cnna.compiler.quantise.fc_bits import with_four_bits
from cnna.compiler.quantise.quantise import calibrated, float_graph, quantise
from cnna.compiler.report.report import coded_layers
from cnna.spec.config import preset

from ..quantise.test_books import network, samples

SLACK = 0.25  # share of what was predicted to be saved: what else the two programs differ in
LARGE = preset("kv260")  # whose blocks have as many channels as the network


@pytest.fixture(scope="module")
def models():
    """A network with two fully connected layers: float, in int8, and with books of 16 values a channel."""
    model = network(classes=200)
    given = samples(model)
    with_books = with_four_bits(calibrated(float_graph(model), given)).quantised()[0]
    return {"float": model, "int8": quantise(model, given)[0], "books": with_books}


def fully_connected(model, config, batch=1):
    """The rows of the fully connected layers."""
    _, *rows = [row for row in explain(model, config, batch=batch).rows if row.macs]
    assert len(rows) == 2
    return rows


def clocks(model, config):
    """What the compiler predicts for an image."""
    return compile_model(model, config).predicted_clocks()


@pytest.mark.parametrize("form", ["float", "int8"])
def test_what_halves_the_weights_is_said(models, form):
    """Nobody would find the option that doubles the speed of such a network."""
    for row in fully_connected(models[form], LARGE):
        assert QUANTISE in row.rewrite
        assert DECODER in row.rewrite
    for row in fully_connected(models[form], replace(LARGE, codebook=True)):
        assert QUANTISE in row.rewrite
        assert DECODER not in row.rewrite


def test_books_need_the_decoder_alone(models):
    """Whoever has quantised so already would be told to do it again."""
    found = explain(models["books"], LARGE)
    for row in fully_connected(models["books"], LARGE):
        assert QUANTISE not in row.rewrite
        assert f"{DECODER}; saves " in table(found)


def test_layers_that_come_as_codes_are_those_of_the_compiler(models):
    """A user would wait for a gain that has come already, or believe in one that has not."""
    config = replace(LARGE, codebook=True)
    rows = fully_connected(models["books"], config)
    assert len(rows) == len(coded_layers(compile_model(models["books"], config))) == 2
    assert [(row.reason, row.rewrite) for row in rows] == [(CODED, None)] * 2


def test_the_gain_is_what_the_compiler_predicts(models):
    """The figure would be no reason to quantise again and build other hardware."""
    said = sum(row.gain_clocks for row in fully_connected(models["books"], LARGE))
    won = clocks(models["books"], LARGE) - clocks(models["books"], replace(LARGE, codebook=True))
    assert said == pytest.approx(won, rel=SLACK)


@pytest.mark.parametrize(("config", "batch"), [(LARGE, 128), (replace(LARGE, ci=4, co=4, ports=1), 1)])
def test_nothing_is_said_where_codes_would_not_help(models, config, batch):
    """At large batches the array hides the weights; a stripe of one beat has no decoder."""
    rows = fully_connected(models["int8"], config, batch)
    assert [(row.reason, row.rewrite) for row in rows] == [(None, None)] * 2
    assert np.all([row.clocks for row in rows])


def test_zeros_beside_the_channels_are_values_too(models):
    """A block of 16 channels has 8 zeros here, for which a book of 16 other values has no entry: the layer would stay in int8."""
    config = replace(preset("zcu102"), codebook=True)
    rows = fully_connected(models["books"], config)
    assert [row.reason for row in rows] == [None, CODED]
    assert rows[0].rewrite is None
    assert len(coded_layers(compile_model(models["books"], config))) == 1
    assert [row.rewrite is None for row in fully_connected(models["int8"], preset("zcu102"))] == [True, False]
