"""The requests of the ports that bring weights: never more than may be outstanding, however wide a word is."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.graph import ir
from cnna.compiler.predict.event_loop import EventLoop, Queue
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.predict.weight_ports import RING_CLOCKS, WeightPorts
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.ddr import PLANNED
from cnna.spec.program.commands import commands

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


def test_ddr_never_idles_between_commands_of_any_size():
    """Two words left of a command, then room for too few of the next one's sixteen: a wait for all of these made DDR idle for 80
    clocks at a command's end, and at zcu102x2, where DDR is what layers wait for, a network 0.2 % too slow.
    """
    words = (460, 18, 104, 72, 216, 135)
    config = preset("zcu102x2")
    beats = config.stripe_bytes // BEAT_BYTES
    made = [
        SimpleNamespace(number=n, f=SimpleNamespace(ring=0, code=0, beats=each * beats, repeat=1)) for n, each in enumerate(words)
    ]
    machine = EventLoop(config, PLANNED)
    machine.rings[0].freed = sum(words)
    ports = WeightPorts(machine, Queue(), lambda *_: None)

    def asked(part):
        for command in made:
            yield from ports.ask(part, command)

    parts = range(len(machine.weight_ports))
    machine.run({f"asked{part}": asked(part) for part in parts} | {f"came{part}": ports.answers(part) for part in parts})
    least = sum(words) * beats * config.ports * BEAT_BYTES / PLANNED.bytes_per_cycle + PLANNED.latency_cycles + RING_CLOCKS
    assert machine.rings[0].came(sum(words)) == pytest.approx(least, abs=4)
