"""Reference, emulator and RTL on random layers and networks: equal to the bit, tensor by tensor and write by write.

`--seed N` gives fresh ones; `make fresh` compiles 300 of the day. A failing case prints its seed and the command that repeats it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from .agreement import CONFIGS, Case, agree, agree_emulated, case_of, compiles
from .configurations import CODED, ODD

TINY, PRODUCT, DEEP = CONFIGS["tiny"], CONFIGS["zcu102"], CONFIGS["tinyx2"]
SEEDS = 1000  # cases of one --seed and kind
BLOCK = 30  # cases in a test: few enough that a report says where, many enough to be quick
LAYERS, NETWORKS = 300, 30
ALL_LAYERS, ALL_NETWORKS = 1000, 100
FRESH = 300  # networks that `make fresh` compiles, from a seed that changes
PRODUCT_NETWORKS = 20  # these run through the product's RTL, at some 20,000 clocks a second


def blocks(first, last, kind):
    """(kind, first case, how many) of the cases first..last-1."""
    return [(kind, start, min(BLOCK, last - start)) for start in range(first, last, BLOCK)]


def cases(config, block, seed):
    """The cases of a block."""
    kind, first, count = block
    return [case_of(config, kind, seed * SEEDS + first + index) for index in range(count)]


def named(value):
    """A block's or a configuration's name in the report."""
    return f"{value[0]}s {value[1]}..{value[1] + value[2] - 1}" if isinstance(value, tuple) else value.name


@pytest.mark.parametrize("config", [*CONFIGS.values()], ids=named)
@pytest.mark.parametrize("block", [("layer", 0, 40), ("network", 0, 8)], ids=named)
def test_emulator_equals_reference(config, block, seed):
    """If the compiler placed, cut or ordered something wrongly, the answer would differ from the graph's."""
    for case in cases(config, block, seed):
        agree_emulated(case)


@pytest.mark.cosim
@pytest.mark.parametrize("block", [("layer", 0, BLOCK), ("network", 0, 4)], ids=named)
def test_two_blocks_a_clock_answer_the_same(block, seed, rtl):
    """The array at two clocks, both decks of feature memory, or a weight word of two blocks would answer something else."""
    for case in cases(DEEP, block, seed):
        agree(case, rtl(DEEP))


@pytest.mark.cosim
@pytest.mark.parametrize("config", [TINY, CODED], ids=named)
@pytest.mark.parametrize("block", blocks(0, NETWORKS, "network") + blocks(0, LAYERS, "layer"), ids=named)
def test_rtl_equals_emulator_equals_reference(config, block, seed, rtl):
    """The hardware must answer what was proven in numpy: this is the product's promise."""
    for case in cases(config, block, seed):
        agree(case, rtl(config))


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(BLOCK, LAYERS, "layer") + blocks(4, NETWORKS, "network"), ids=named)
def test_two_blocks_a_clock_answer_the_same_on_many_more(block, seed, rtl):
    """The test with depth 2 above, on as many as the small configurations have."""
    for case in cases(DEEP, block, seed):
        agree(case, rtl(DEEP))


@pytest.mark.slow
@pytest.mark.parametrize("config", [TINY, CODED, ODD], ids=named)
@pytest.mark.parametrize("block", blocks(LAYERS, ALL_LAYERS, "layer") + blocks(NETWORKS, ALL_NETWORKS, "network"), ids=named)
def test_rtl_equals_emulator_equals_reference_on_many_more(config, block, seed, rtl):
    """The test at the small configurations above, until 1,000 layers and 100 networks have run."""
    for case in cases(config, block, seed):
        agree(case, rtl(config))


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(0, ALL_NETWORKS, "network"), ids=named)
def test_emulator_equals_reference_on_the_product(block, seed):
    """16 channels a word, 32 a chunk and eight pixels a group have other edges than the small configurations."""
    for case in cases(PRODUCT, block, seed):
        agree_emulated(case)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(0, PRODUCT_NETWORKS, "network"), ids=named)
def test_rtl_equals_emulator_equals_reference_on_the_product(block, seed, rtl):
    """This size is measured and synthesised, so it must be right on more networks than the measured ones."""
    for case in cases(PRODUCT, block, seed):
        agree(case, rtl(PRODUCT))


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(0, FRESH, "network"), ids=named)
def test_the_compiler_takes_fresh_networks(block, seed):
    """An order of kernels that nobody has written by hand would end in an internal error."""
    kind, first, count = block
    for number in range(seed * SEEDS + first, seed * SEEDS + first + count):
        compiles(Case(TINY, kind, number))


def test_the_command_that_repeats_a_case_finds_it(root):
    """pynq also installs a package `tests`: without `__init__.py` Python would take that one for ours."""
    code = "import tests.agreement; print(tests.agreement.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()) == root / "tests" / "agreement.py"
