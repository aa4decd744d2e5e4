"""All legal tilings of a layer are listed, with the compiler's choice, and none is quicker by the compiler's own measure."""

from dataclasses import replace
from io import BytesIO

import pytest
from matplotlib.figure import Figure

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.layer import Choice, Layers, best, picture, tilings
from cnna.spec.config import preset
from cnna.spec.errors import UserError

from ... import networks
from ..apart import said_and_apart


@pytest.mark.parametrize("bank_words", [128, 1024])
def test_the_compilers_is_one_of_the_legal_ones(bank_words, tmp_path):
    """A tiling that is not among them would have been measured by another rule than the rest."""
    graph, config = networks.network(3), replace(preset("tiny"), bank_words=bank_words)
    layers = Layers(graph, config)
    for node in graph.nodes:
        if node.name:
            choices = layers.tilings(node.name)
            assert [choice.chosen for choice in choices] == [False] * (len(choices) - 1) + [True]
            assert any(replace(choice, chosen=True) == choices[-1] for choice in choices[:-1])
    picture("layer", choices, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_tiling_has_a_dot(monkeypatch):
    """The compiler's own would be a ring around nothing, and those at one place would hide each other."""
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.append(figure))
    one = Choice((), 0, 4, 1, 100, 1000, False)
    choices = [one, replace(one, staged=("dest",)), replace(one, staged=("source",)), replace(one, rows=2, cycles=200, chosen=True)]
    picture("layer", choices, BytesIO())
    *kinds, ring = kept[0].axes[0].collections
    dots = [tuple(spot) for kind in kinds for spot in kind.get_offsets()]
    assert sorted(dots) == sorted((choice.bytes, choice.cycles) for choice in choices)
    assert tuple(ring.get_offsets()[0]) in dots
    sizes = [kind.get_sizes()[0] for kind in kinds]
    assert sizes == sorted(set(sizes), reverse=True)


def test_what_is_best_in_all_respects_is_said_once():
    """Three equal lines would make a reader look for a difference. Of equally good tilings the compiler's must be named."""
    few = Choice((), 0, 8, 4, cycles=100, bytes=10, chosen=False)
    more, slow = replace(few, rows=4, bytes=30), replace(few, rows=2, cycles=300)
    assert best([more, few, replace(few, chosen=True)]) == [
        f"the compiler's, of the fewest clocks and of the fewest bytes: {few.about()}"
    ]
    assert best([few, slow, replace(slow, chosen=True)]) == [
        f"the compiler's and of the fewest bytes: {slow.about()}",
        f"of the fewest clocks: {few.about()}",
    ]
    assert [line.split(":")[0] for line in best([more, replace(slow, bytes=5), replace(few, rows=1, cycles=200, chosen=True)])] == [
        "the compiler's",
        "of the fewest clocks",
        "of the fewest bytes",
    ]


@pytest.mark.parametrize("least_bytes", [0, 5120])
def test_words_of_the_picture_do_not_overlap(least_bytes, monkeypatch):
    """Numbers would overlap, as at a layer of few and many bytes, or a reader would have to work out powers."""
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **options: drawn.append(self))
    choices = [
        Choice(("source",), 1, 1, 1, cycles=3543 + 97 * n, bytes=least_bytes + 7001 * n**2, chosen=n == 0) for n in range(500)
    ]
    picture("layer", choices, BytesIO())
    said = said_and_apart(drawn[0])
    assert "50,000" in said
    assert any(word.endswith(",000,000") for word in said)


def test_an_unknown_layer_is_refused():
    """The user could not tell how the layer is spelled, or would get the names of all thousand layers in a line."""
    graphs, config = [networks.network(3), networks.network(4)], preset("tiny")
    with pytest.raises(UserError, match=r"no such layer; there are .*\(cnna report and cnna explain list all\)"):
        tilings(graphs, config, "?")
    last = Layers(graphs[1], config).names[-1]
    with pytest.raises(UserError, match=rf"--layer {last}x: no such layer; the nearest of \d+ are .*{last}"):
        tilings(graphs, config, f"{last}x")


def test_a_layer_of_a_later_piece_is_found():
    """A model in several pieces would have layers that `--layer` does not know."""
    small = replace(networks.network(4), nodes=tuple(replace(node, name=f"late.{node.name}") for node in networks.network(4).nodes))
    name = Layers(small, preset("tiny")).names[0]
    assert tilings([networks.network(3), small], preset("tiny"), name) == tilings([small], preset("tiny"), name)


@pytest.mark.parametrize("case", range(4))
def test_what_is_said_to_be_in_ddr_is_moved_by_the_program(case):
    """The compiler tries several ways: a tiling of a way that it has not taken would be shown as its own."""
    graph, config = networks.network(case, 6), replace(preset("tiny"), bank_words=128)
    program = compile_graph(graph, config)
    working = [program.layers[number] for number in sorted({command["layer"] for command in program.entry()["commands"]})]
    layers = Layers(graph, config)
    for layer in working:
        if "dest" in layers.tilings(layer["name"])[-1].staged:
            assert layer["ddr_write_bytes"] > 0
