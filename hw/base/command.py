"""The command of each engine as an Amaranth struct: the engine's registers, made from `regmap`."""

from amaranth import Shape
from amaranth.lib import data

from cnna.spec.regmap import command_fields


def command_layout(engine: str) -> data.StructLayout:
    """What `regfile` queues at the engine's GO register; members named as `regmap.command_fields` says."""
    return data.StructLayout({name: Shape(field.bits, field.signed) for name, field in command_fields(engine).items()})
