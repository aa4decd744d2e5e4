"""Hollow copies of models: everything but the data of large weights."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import _copy_fields, hollow


def model_with(elements: int) -> ModelProto:
    """A model with one weight, and a field of each kind that protobuf has."""
    weight = numpy_helper.from_array(np.ones(elements, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [], [weight], doc_string="text")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="test")
    model.metadata_props.add(key="a", value="b")
    return model


def test_a_small_model_is_copied_whole() -> None:
    """Fields that are left out would make another model."""
    model = model_with(4)
    assert hollow(model) == model


def test_a_large_weight_has_no_data() -> None:
    """A model of 2 GB could not be checked."""
    model = model_with(5000)
    copy = hollow(model)
    assert not copy.graph.initializer[0].raw_data
    assert copy.graph.initializer[0].dims == [5000]
    model.graph.initializer[0].ClearField("raw_data")
    copy.graph.initializer[0].ClearField("data_location")
    copy.graph.initializer[0].ClearField("external_data")
    assert copy == model


def test_protobuf_need_not_say_label() -> None:
    """From protobuf 7 on, which pip installs today, `FieldDescriptor` has no `label`: no model could be read."""
    model = model_with(4)

    fields = [(SimpleNamespace(name=field.name, message_type=field.message_type), value) for field, value in model.ListFields()]
    newer: Any = SimpleNamespace(ListFields=lambda: fields)
    copy = ModelProto()
    _copy_fields(newer, copy, "graph")
    copy.graph.CopyFrom(model.graph)
    assert copy == model
