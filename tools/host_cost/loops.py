"""The clocks of hot loops on a Cortex-A53, by llvm-mca, which has LLVM's model of its pipeline.

A loop is a block of instructions that takes a large part of a stage. llvm-mca takes it as repeated, with every branch foretold and
every access in the first cache; misses are counted elsewhere.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache

from cnna.spec.errors import ToolError

TIMES = 100  # that llvm-mca repeats a block
Words = tuple[int, ...]


@cache
def block_clocks(words: Words) -> float:
    """Clocks of a block of A64 instructions, when it is repeated. ToolError: LLVM does not know one of them."""
    code = "\n".join(" ".join(f"0x{byte:02x}" for byte in word.to_bytes(4, "little")) for word in words)
    text = _run(["llvm-mc", "--triple=aarch64", "--mcpu=cortex-a53", "--disassemble"], code)
    found = re.search(
        r"Total Cycles:\s+(\d+)", _run(["llvm-mca", "-mtriple=aarch64", "-mcpu=cortex-a53", f"-iterations={TIMES}"], text)
    )
    if found is None:
        raise ToolError("llvm-mca prints no line Total Cycles: another version of llvm is needed")
    return int(found[1]) / TIMES


def clocks(blocks: Mapping[Words, int]) -> float:
    """Of all runs of these blocks."""
    return sum(times * block_clocks(words) for words, times in blocks.items())


def _run(command: Sequence[str], given: str) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[0]}")
    return done.stdout
