"""The editable copy on which passes work: order, dead code, names of graph outputs."""

from dataclasses import fields, replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from cnna.compiler.graph.dump import describe_graph
from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Add, Affine, Chain, Clip, Conv, FloatOperator, Onnx
from cnna.compiler.graph.ir import Graph, IntegerOperator, Node, Tensor, Whole, Window, constants_of
from cnna.compiler.graph.validate import validate
from cnna.spec.errors import ModelError


def chain(*names: str, outputs: tuple[str, ...] | None = None) -> Graph:
    """Clips one behind the other, from the first name to the last."""
    nodes = tuple(Node(f"make {b}", Clip(), (a,), b) for a, b in pairwise(names))
    return Graph("chain", names[:1], outputs or names[-1:], nodes, {name: Tensor((1, 2, 3, 3)) for name in names})


def test_nodes_put_out_of_order_are_sorted():
    edit = Editor(chain("x", "a", "b", "y"))
    edit.remove(edit.nodes["a"])
    edit.put("new a", Clip(0.0), ("x",), "a")
    graph = edit.finish()
    validate(graph)
    assert [node.output for node in graph.nodes] == ["a", "b", "y"]


def test_a_node_with_a_new_output_keeps_its_place():
    """At the end of the order, a branch whose first tensor has a new name would run behind all other branches."""
    tensors = {name: Tensor((1, 2, 3, 3)) for name in "xabcdy"}
    nodes = [Node("first", Clip(), ("x",), "a"), Node("a's end", Clip(0.0), ("a",), "b"), Node("second", Clip(), ("x",), "c")]
    nodes += [Node("c's end", Clip(0.0), ("c",), "d"), Node("joined", Add(), ("b", "d"), "y")]
    edit = Editor(Graph("branches", ("x",), ("y",), tuple(nodes), tensors))
    edit.remove(edit.nodes["a"])
    renamed = edit.insert("first", Clip(), ("x",), "renamed", (1, 2, 3, 3))
    edit.redirect("a", renamed)
    assert [node.output for node in edit.finish().nodes] == ["renamed", "b", "c", "d", "y"]


def test_dead_nodes_tensors_and_constants_go():
    edit = Editor(chain("x", "a", "y"))
    edit.constant("unused", None)
    edit.insert("dead", Clip(), ("a",), "dead", (1,))
    graph = edit.finish()
    assert "dead" not in graph.tensors
    assert not graph.constants


def test_only_constants_that_operators_declare_are_kept():
    """A word in an operator's field was taken for the name of a constant: one called "Conv" stayed for ever, as did "x:scale"."""
    edit = Editor(chain("x", "a", "y"))
    edit.put("sum", Affine("gain", "offset"), ("x",), "a")
    edit.put("last", Onnx("Relu", domain="own"), ("a",), "y")
    for name in ("gain", "offset", "Relu", "own", "x:scale", "gain:scale"):
        edit.constants[name] = np.ones(2, np.float32)
    edit.scales = {"gain": np.ones(2), "gone": np.ones(2)}
    graph = edit.finish()
    assert (sorted(graph.constants), sorted(graph.scales)) == (["gain", "offset"], ["gain"])


@pytest.mark.parametrize("kind", [*get_args(FloatOperator), *get_args(IntegerOperator)])
def test_an_operator_declares_each_field_that_names_a_constant(kind):
    """A constant that an operator names without saying so would vanish with the next pass."""
    others = {Onnx: {"kind", "domain"}, Chain: {"source"}}.get(kind, set())
    texts = {one.name for one in fields(kind) if one.type in ("str", str, "str | None", str | None)}
    assert {*getattr(kind, "CONSTANTS", ())} == texts - others


def test_a_constant_that_an_operator_leaves_out_has_no_name():
    """A weight without a scale would be looked up under the name None."""
    assert constants_of(Conv(Window(), 1, "w", "b")) == ("w", "b")
    assert constants_of(Conv(Window(), 1, "w", "b", "s")) == ("w", "b", "s")


def test_the_input_graph_is_not_touched():
    graph = chain("x", "a", "y")
    edit = Editor(graph)
    edit.remove(edit.nodes["a"])
    edit.redirect("a", "x")
    edit.finish()
    assert graph == chain("x", "a", "y")


def test_nothing_is_made_anew_where_nothing_changes():
    """A pass that finds nothing to do would cost as much as one that does, and its graph would be checked again."""
    graph = Editor(chain("x", "a", "y")).finish()
    assert graph.finished
    assert Editor(graph).finish() is graph


def _put(edit: Editor) -> None:
    edit.put("other", Clip(0.0), ("a",), "y")


def _shorten(edit: Editor) -> None:
    edit.outputs = ("a",)


def _reshape(edit: Editor) -> None:
    edit.tensors["a"] = Tensor((2, 1, 3, 3))


def _recompute(edit: Editor) -> None:
    edit.constants["gain"] = edit.constants["gain"] + 1


def _rescale(edit: Editor) -> None:
    edit.scales["gain"] = np.zeros(2)


def test_whole_numbers_go_with_the_weights_that_they_are_of():
    """Those of weights that a pass has changed would run in their place."""
    ones = np.ones((2, 1, 1, 1), np.float32)
    constants = {"gain": ones, "offset": np.ones(2)}
    edit = Editor(replace(chain("x", "y"), constants=constants, wholes={"gain": Whole(ones, ones.astype(np.int8), ones)}))
    edit.put("make y", Affine("gain", "offset"), ("x",), "y")
    graph = edit.finish()
    assert [*graph.wholes] == ["gain"]
    again = Editor(graph)
    again.constants["gain"] = 2 * ones
    assert not again.finish().wholes


def _content(graph: Graph) -> list[str]:
    numbers = [f"{name} {value.tolist()}" for table in (graph.constants, graph.scales) for name, value in table.items()]
    return [describe_graph(graph), *numbers]


@pytest.mark.parametrize("change", [_put, _shorten, _reshape, _recompute, _rescale])
def test_each_kind_of_change_makes_another_graph(change):
    """A change that goes unnoticed would be lost."""
    edit = Editor(chain("x", "a", "y"))
    edit.put("make a", Affine("gain", "offset"), ("x",), "a")
    edit.constants = {"gain": np.ones(2), "offset": np.ones(2)}
    edit.scales = {"gain": np.ones(2)}
    graph = edit.finish()
    again = Editor(graph)
    change(again)
    made = again.finish()
    assert made is not graph
    assert _content(made) != _content(graph)


def test_a_graph_that_is_pieced_together_is_sorted_though_nothing_changes():
    """Only the editor's own graphs are known to be sorted and without dead nodes; `replace` may put anything into one."""
    graph = Editor(chain("x", "a", "b", "y")).finish()
    for nodes in (graph.nodes[::-1], (*graph.nodes, Node("dead", Clip(), ("a",), "dead"))):
        other = replace(graph, nodes=nodes)
        assert not other.finished
        assert Editor(other).finish().nodes == graph.nodes


def test_bypass_keeps_the_names_of_graph_outputs():
    """Readers must take the source, and an output's producer must take the output's name; between input and output a node stays."""
    inside = Editor(chain("x", "a", "y"))
    assert inside.bypass(inside.nodes["a"])
    assert inside.nodes["y"].inputs == ("x",)
    end = Editor(chain("x", "a", "y"))
    assert end.bypass(end.nodes["y"])
    assert [(node.name, node.output) for node in end.finish().nodes] == [("make a", "y")]
    both = Editor(chain("x", "a", "y", outputs=("a", "y")))
    assert not both.bypass(both.nodes["y"])
    whole = Editor(chain("x", "y"))
    assert not whole.bypass(whole.nodes["y"])


def test_uses_count_outputs():
    edit = Editor(chain("x", "a", "y", outputs=("a", "y")))
    assert edit.uses("a") == 2
    assert edit.sole("a") is None
    assert edit.sole("y") is edit.nodes["y"]


def test_more_outputs_keep_their_node_alive():
    graph = Graph(
        "two",
        ("x",),
        ("second",),
        (Node("split", Onnx("Split", {}, "", ("second",)), ("x",), "first"),),
        {name: Tensor((1,)) for name in ("x", "first", "second")},
    )
    assert len(Editor(graph).finish().nodes) == 1


def test_cycles_are_refused():
    edit = Editor(chain("x", "a", "y"))
    edit.put("make a", Clip(), ("y",), "a")
    with pytest.raises(ModelError, match="cycle"):
        edit.finish()
