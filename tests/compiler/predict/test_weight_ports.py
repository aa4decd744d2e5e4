"""The requests of the ports that bring weights: never more than may be outstanding, however wide a word is."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.graph import ir
from cnna.compiler.predict.predict import predicted_spans
from cnna.spec.commands import commands
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.ddr import PLANNED

from ...graph_builder import Builder

ZCU102 = preset("zcu102")


@pytest.mark.parametrize(("ports", "co"), [(1, 32), (1, 48), (1, 64), (2, 64), (4, 64)])
def test_weights_come_as_fast_as_their_ports_bring_them(ports, co):
    """Sixteen of one port's widest words are more than may be outstanding: waiting for room for all of them would never end."""
    b = Builder(np.random.default_rng(1), "fc")
    graph = b.graph(b.conv(b.input(256, 1, 1), 512, ir.Window()))
    program = compile_graph(graph, replace(ZCU102, name="wide", co=co, ports=ports))
    spans = predicted_spans(program.program, program.config)
    played = zip(commands(program.program), spans, strict=True)
    weights = [(vars(command.f), span) for command, span in played if command.engine == "weight" and not command.f.ring]
    moved = sum(ddr_bytes("weight", fields, program.config) for fields, _ in weights)
    clocks = max(span.end for _, span in weights) - min(span.begin for _, span in weights)
    least = moved / min(PLANNED.bytes_per_cycle, BEAT_BYTES * ports)
    assert least <= clocks + 1
    assert clocks <= 1.1 * least + PLANNED.latency_cycles
