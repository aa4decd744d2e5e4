"""All legal tilings of a layer are there, the compiler's among them, and none of them is quicker by the compiler's own measure."""

from dataclasses import replace

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore_layer import picture, tilings
from cnna.host.errors import UserError
from cnna.hw.config import preset

from .. import networks


@pytest.mark.parametrize("bank_words", [128, 1024])
def test_the_compilers_is_one_of_the_legal_ones(bank_words, tmp_path):
    """One that is not would have been measured by another rule than the rest."""
    graph, config = networks.network(3), replace(preset("tiny"), bank_words=bank_words)
    for node in graph.nodes:
        if node.name:
            choices = tilings(graph, config, node.name)
            assert [choice.chosen for choice in choices] == [False] * (len(choices) - 1) + [True]
            assert any(replace(choice, chosen=True) == choices[-1] for choice in choices[:-1])
    picture("layer", choices, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_an_unknown_layer_is_refused():
    """The line names those that there are."""
    with pytest.raises(UserError, match="no such layer; there are "):
        tilings(networks.network(3), preset("tiny"), "nothing")


@pytest.mark.parametrize("case", range(4))
def test_what_is_said_to_be_in_ddr_is_moved_by_the_program(case):
    """The compiler tries several ways: a tiling of one that it has not taken would be shown as its own."""
    graph, config = networks.network(case, 6), replace(preset("tiny"), bank_words=128)
    program = compile_graph(graph, config)
    working = [program.layers[number] for number in sorted({command["layer"] for command in program.manifest()["commands"]})]
    for layer in working:
        if "dest" in tilings(graph, config, layer["name"])[-1].staged:
            assert layer["ddr_write_bytes"] > 0
