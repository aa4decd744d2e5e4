"""Choices of plans that come from a file: they are obeyed, wrong ones are one line, and a search for them never loses."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cnna.compiler.choose.choices import Choices, ProgramChoices, choices_of
from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.choices import search
from cnna.compiler.graph import ir
from cnna.compiler.plan.fold import fold_inputs
from cnna.compiler.plan.forced import ForcedLayer
from cnna.compiler.plan.plan import Way
from cnna.spec.config import preset
from cnna.spec.errors import ModelError, UserError

from ...agreement import Case, agree_emulated, case_of
from ...graph_builder import Builder

TINY = preset("tiny")


WINDOW = ir.Window((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))


@pytest.fixture(scope="module")
def graph() -> ir.Graph:
    """Two 3x3 convolutions of 16 channels on 12 x 12 pixels."""
    b = Builder(np.random.default_rng(5), "chain")
    return b.graph(b.conv(b.conv(b.input(8, 12, 12), 16, WINDOW), 16, WINDOW))


def commands_of(graph: ir.Graph, choices: ProgramChoices | None, layer: int) -> int:
    """How many commands compute a layer."""
    made = compile_graph(graph, TINY, choices=choices)
    return sum(1 for entry in made.commands if entry["engine"] == "conv" and entry["layer"] == layer)


def test_a_layer_has_the_tiles_that_are_forced(graph: ir.Graph) -> None:
    """`cnna compile --choices` would compile what it likes, and a comparison of tiles be one of a program with itself."""
    first, second = (node.name for node in graph.nodes)
    assert commands_of(graph, None, 1) == 1
    assert commands_of(graph, ProgramChoices(layers={second: ForcedLayer(rows=3)}), 1) == 4
    whole = compile_graph(graph, TINY)
    spilled = compile_graph(graph, TINY, choices=ProgramChoices(layers={first: ForcedLayer(ddr=True)}))
    assert spilled.layers[0]["ddr_write_bytes"] > whole.layers[0]["ddr_write_bytes"] == 0


def test_the_way_that_is_forced_is_planned(graph: ir.Graph) -> None:
    """A batch that a search has cut would be compiled uncut."""
    whole, apart = (compile_graph(graph, TINY, 3, choices=ProgramChoices(Way(cut))) for cut in (0, 2))
    assert len(apart.commands) > len(whole.commands)
    with pytest.raises(ModelError, match="cut behind 3 of 2 kernels"):
        compile_graph(graph, TINY, 3, choices=ProgramChoices(Way(3)))


@pytest.mark.parametrize(
    ("layer", "forced", "said"),
    [
        ("nothing", ForcedLayer(rows=1), "no layer is called 'nothing'"),
        ("", ForcedLayer(rows=13), "cannot have tiles of 13 rows; it has 1 to 12"),
        ("", ForcedLayer(blocks=3), "cannot have tiles of 3 blocks; there are multiples of 2 below 4, and 4"),
    ],
)
def test_what_a_layer_cannot_have_is_one_line(graph: ir.Graph, layer: str, forced: ForcedLayer, said: str) -> None:
    """The compiler would stop in an assertion of its own, or pass a slip over in silence."""
    with pytest.raises(ModelError, match=said):
        compile_graph(graph, TINY, choices=ProgramChoices(layers={layer or graph.nodes[1].name: forced}))


def test_choices_for_another_network_are_refused(graph: ir.Graph) -> None:
    """Layers of many networks have the same names: a plan would be forced that suits another one, and be slower in silence."""
    with pytest.raises(ModelError, match=r"for a program of 7 MACs an image, and this one has [\d,]+; search again, or leave out"):
        compile_graph(graph, TINY, choices=ProgramChoices(macs=7))
    (found,) = search((graph,), TINY, 1, 1, lambda *_: None).choices.programs
    assert found.macs == compile_graph(graph, TINY).macs


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"macs": 7}, "the choices are for a program of 7 MACs"),
        ({"layers": {"nothing": {}}}, "no layer is called 'nothing'"),
        ({"layers": {"conv_1": {"rows": 61}}}, "'conv_1' cannot have tiles of 61 rows"),
        ({"way": {"cut": 3}}, "a batch cannot be cut behind 3 of 2 kernels"),
        ({"layers": {"conv_1": {"rows": 60, "blocks": 16}}}, "node 'conv_1': no plan fits that keeps to what is"),
    ],
)
def test_choices_that_cannot_be_name_their_file(program: dict[str, Any], said: str) -> None:
    """A user would look for the fault in the model, or read that a row of 3,000 words does not fit into 16,384."""
    b = Builder(np.random.default_rng(5), "chain")
    large = b.graph(b.conv(b.conv(b.input(64, 60, 60), 64, WINDOW), 64, WINDOW))
    (own,) = choices_of(json.dumps({"programs": [program]}), "f.json").programs
    with pytest.raises(ModelError, match=f"^f.json: chain: {said}"):
        compile_graph(large, TINY, 2, choices=own)


def test_a_model_that_is_too_large_is_not_the_fault_of_a_file_that_chooses_nothing() -> None:
    """A user would leave open what is open, and not read how much memory is missing."""
    b = Builder(np.random.default_rng(5), "wide")
    wide = b.graph(b.conv(b.input(64, 3, 4000), 64, WINDOW))
    (own,) = choices_of(json.dumps({"programs": [{"macs": None}]}), "f.json").programs
    with pytest.raises(ModelError, match=r"^wide: node 'conv_0': one output row needs \d+ words"):
        compile_graph(wide, TINY, choices=own)


def test_a_file_says_what_was_chosen() -> None:
    """What a search has found would be compiled as something else."""
    layers = {"n4": ForcedLayer(rows=14, blocks=4, ddr=True), "n5": ForcedLayer()}
    choices = Choices((ProgramChoices(Way(3, abreast=2, banded=True), layers), ProgramChoices(macs=9)), "zcu102", 4)
    assert choices_of(choices.text(), "f.json") == choices
    assert choices_of("{}", "f.json") == Choices()
    assert choices.of(7) == ProgramChoices()


def test_more_entries_than_programs_are_a_mistake() -> None:
    """Choices of a program that the model does not have would be passed over in silence."""
    choices = choices_of('{"programs": [{}, {}]}', "f.json")
    choices.check(2)
    with pytest.raises(UserError, match=r"f.json: programs has 2 entries, but the model has 1 program; leave out the others"):
        choices.check(1)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ([], "f.json: must be a table"),
        ({"program": []}, "f.json: 'program' is not known; there are config, batch, programs"),
        ({"programs": {}}, "f.json: programs must be a list"),
        ({"batch": "4"}, "f.json: config must be a text and batch a whole number"),
        ({"batch": True}, "f.json: config must be a text and batch a whole number"),
        ({"programs": [{"way": {"cut": -1}}]}, r"f.json: programs\[0\].way.cut: must be within 0"),
        ({"programs": [{"way": {"abreast": 0}}]}, r"f.json: programs\[0\].way.abreast: must be within 1..16, not 0"),
        ({"programs": [{"way": {"banded": 1}}]}, r"programs\[0\].way.banded: must be true or false, not 1"),
        ({"programs": [{"layers": {"n4": {"rows": 1.5}}}]}, r"programs\[0\].layers.n4.rows: must be a whole number, not 1.5"),
        ({"programs": [{"layers": {"n4": {"row": 1}}}]}, r"programs\[0\].layers.n4: 'row' is not known; there are rows"),
        ({"programs": [{"macs": True}]}, r"programs\[0\].macs: must be a whole number, not True"),
        ({"programs": [{"layers": []}]}, r"programs\[0\].layers: must be a table"),
    ],
)
def test_what_is_no_file_of_choices_says_where(entry: object, said: str) -> None:
    """A user would look for a slip in the whole file, or see a traceback."""
    with pytest.raises(UserError, match=said):
        choices_of(json.dumps(entry), "f.json")


def test_text_that_is_no_json_is_one_line() -> None:
    """A user who names the model by mistake would see a traceback."""
    with pytest.raises(UserError, match=r"f.json: no JSON"):
        choices_of(b"\xff\x00", "f.json")


def test_a_search_is_never_slower_and_its_file_compiles_to_what_it_says(graph: ir.Graph) -> None:
    """A user would compile what was found, and get another program than the one whose clocks were shown."""
    said: list[tuple[int, int, str]] = []
    found = search((graph, graph), TINY, 2, 24, lambda *step: said.append(step))
    assert found.after <= found.before
    assert found.tries == len(said) <= 24
    again = choices_of(found.choices.text(), "f.json")
    clocks = [compile_graph(graph, TINY, 2, choices=own).predicted().total()["cycles"] for own in again.programs]
    assert sum(clocks) == found.after


def forced_of(seed: int) -> Case:
    """A random network with random tiles and places for every layer."""
    rng, case = np.random.default_rng(seed), case_of(TINY, "network", seed)
    names = [node.name for node in fold_inputs(case.graph, TINY)[0].nodes]
    layers = {}
    for node in case.graph.nodes:
        shape = case.graph.tensors[node.output].shape
        rows = int(rng.integers(1, (shape[-2] if len(shape) > 2 else 1) + 1))
        layers[node.name] = ForcedLayer(rows=rows, ddr=bool(rng.random() < 0.3))
    way = None if seed % 2 else Way(0, reordered=bool(seed & 2), banded=bool(seed & 4))
    return replace(case, choose=ProgramChoices(way, layers).chooser("net", names, 0))


def test_forced_choices_change_no_bit() -> None:
    """A user who tries tiles of his own would get wrong answers. What does not fit is refused as ever."""
    refused = 0
    for case in map(forced_of, range(8)):
        try:
            compile_graph(case.graph, TINY, case.batch, choose=case.choose)
        except ModelError:
            refused += 1
        else:
            agree_emulated(case)
    assert refused <= 2
