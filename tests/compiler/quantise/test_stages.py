"""Stages of a quantised network: the tensors between them are onnxruntime's, and no more of them are kept than are read."""

import numpy as np

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.graph.editor import Editor
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.compiler.quantise.calibrate import calibrate
from cnna.compiler.quantise.quantise import float_body
from cnna.compiler.quantise.ranges import minmax, quant_of
from cnna.compiler.quantise.refine import FEWEST, MEMORY, Refinement, refined
from cnna.compiler.quantise.stages import convolutions, cut_at, live_bytes

from ..written import answers, images, written

CHAIN = """g (float[N,3,8,8] x) => (float[N,2,8,8] y) {
    a = Conv <kernel_shape=[1,1]> (x, w1)
    b = Relu (a)
    c = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (b, w2)
    d = Add (c, b)
    y = Conv <kernel_shape=[1,1]> (d, w3, b3)}"""
WEIGHTS = {"w1": (5, 3, 1, 1), "w2": (5, 5, 3, 3), "w3": (2, 5, 1, 1), "b3": (2,)}


def test_what_is_kept_is_what_is_read_later():
    """Twice as much would halve the samples that a large network is refined with; too little would be read and not be there."""
    model = written(CHAIN, WEIGHTS)
    graph = run_passes(to_graph(model), REWRITES)
    _, body = float_body(graph)
    stages = cut_at(graph.nodes, [node.output for node in graph.nodes if node.output in ("b", "d", "y", "c")])
    assert not stages[0]
    assert live_bytes(graph, stages, body.tensors) == 2 * 5 * 64  # b and c, in int8
    assert live_bytes(graph, stages, ()) == 4 * 2 * 5 * 64


def test_large_networks_are_refined_with_fewer_samples():
    """A network of 4,096 x 4,096 pixels would otherwise take 8 GB."""
    text = CHAIN.replace("8,8", "4096,4096")
    graph = run_passes(to_graph(written(text, WEIGHTS)), REWRITES)
    _, body = float_body(graph)
    assert live_bytes(graph, cut_at(graph.nodes, [node.output for node in convolutions(body)]), body.tensors) == 5 * 4096**2
    chosen = sorted(Refinement.of(graph, body, 100).chosen)
    assert FEWEST < len(chosen) == MEMORY // (5 * 4096**2)
    assert chosen[0] == 0
    assert chosen[-1] == 99
    small = run_passes(to_graph(written(CHAIN, WEIGHTS)), REWRITES)
    assert Refinement.of(small, float_body(small)[1], 100).chosen == set(range(100))


def test_corrected_biases_bring_every_mean_back():
    """Behind the last convolution, which no limit follows, the mean of each channel is float's but for the steps of int8."""
    model = written(CHAIN, WEIGHTS)
    feeds = images(model, 20, seed=3)
    graph = run_passes(to_graph(model), REWRITES)
    _, body = float_body(graph)
    for effort in (1, 2):
        given = Refinement.of(graph, body, 20)
        statistics = calibrate(graph, tuple(body.tensors), feeds, False, watch=[given.watch])
        edit = Editor(graph)
        for name in body.tensors:
            quant = quant_of(minmax(statistics[name]))
            edit.tensors[name] = type(edit.tensors[name])(edit.tensors[name].shape, quant)
        refined(edit, given, effort)
        got, expected = answers(to_model(edit.finish()), feeds)[0], answers(model, feeds)[0]
        away = got.mean(axis=(0, 2, 3)) - expected.mean(axis=(0, 2, 3))
        assert np.abs(away).max() < 0.1 * edit.tensors["y"].quant.scale
