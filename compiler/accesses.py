"""How often a program reads and writes block RAM, for estimates of energy."""

from cnna.compiler.cost.engine_steps import command_steps
from cnna.spec.config import Config
from cnna.spec.program.commands import commands

ACCESS_BYTES = 8  # what a block RAM moves in an access at its widest, parity left out


def accesses(program: bytes, config: Config, moved: int) -> int:
    """Accesses of ACCESS_BYTES in a run. moved: bytes through DDR, each of which is written or read on chip once.

    In a step the array reads a word for each pixel and a word of the weight ring. The vector engine reads a word for each pixel and
    a word of its own ring. Every result is written once.
    """
    words = config.pix * config.ci
    read = {"conv": config.depth * words + config.ring_word_bytes, "vector": words + config.vector_word_bytes}
    total = moved
    for command in commands(program):
        if command.engine in read:
            work = command_steps(command.engine, vars(command.f), config)
            total += work.steps * read[command.engine] + work.groups * work.times * work.made * words
    return total // ACCESS_BYTES
