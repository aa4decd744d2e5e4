"""Counts the attributes in the generated Verilog, and says how many there must be, for tests of attributes and of the whole."""

import re
from collections import Counter
from functools import cache

from cnna.hw.array.array import TILE_PAIRS
from cnna.hw.base.attributes import CASCADE_HEIGHT, CHAIN, COPY
from cnna.hw.base.slices import slices
from cnna.hw.lanes.table_loader import SLICE_PIECES
from cnna.hw.lanes.tables import BUNDLE_LANES, WRITE_BYTES
from cnna.hw.vector.sums import TILE_CHANNELS
from cnna.hw.verilog import writer
from cnna.spec.config import TABLE_BYTES, TAPS, Config

_MODULE = re.compile(r"^(\(\*[^\n]*\n)?module (\\\S+ |\w+).*?^endmodule\n", re.M | re.S)
_OURS = "(?:keep|dont_touch|dont_merge|srl_style)"


def modules(text: str) -> dict[str, str]:
    """Every module's text by its name."""
    return {found[2].strip(): found[0] for found in _MODULE.finditer(text)}


def instances(text: str) -> dict[str, int]:
    """How often each module stands in the accelerator."""
    children = {
        name: Counter(kind.strip() for kind in re.findall(r"^  (\\\S+ |\w+) (?:\\\S+ |\w+) \($", body, re.M))
        for name, body in modules(text).items()
    }

    @cache
    def count(name: str) -> int:
        return 1 if name == writer.TOP else sum(count(user) * inside[name] for user, inside in children.items() if name in inside)

    return {name: count(name) for name in children}


def copies(text: str) -> Counter[str]:
    """For each name, the registers of all instances that have every attribute of a copy, and whose `always` has Yosys' `keep`."""
    found: Counter[str] = Counter()
    counts = instances(text)
    for name, body in modules(text).items():
        for attributes, register in re.findall(r"^((?:  \(\* .* \*\)\n)+)  reg (?:\[\d+:0\] )?(\\\S+ |[\w$]+);$", body, re.M):
            wanted = all(f'(* {key} = "{value}" *)' in attributes for key, value in COPY.items())
            always = [f'  (* keep = "true" *)\n  always @(posedge {clock})\n    {register} <= ' for clock in ("aclk", "aclk2x")]
            kept = any(line in body for line in always)
            plain = re.sub(r"(_\d+)?(_inside)?$", "", register.strip())
            found[plain] += counts[name] * (wanted and kept)
    return found


def expected(config: Config) -> dict[str, int]:
    """How many of each register there are."""
    tiles = config.pix * -(-config.co // (2 * TILE_PAIRS))
    sums, params = len(slices(32 * config.half * config.ci)), len(slices(64 * config.ci))
    ring_words = (config.ring_word_bytes, config.vector_word_bytes)
    held = config.pix + TAPS - 1  # words of a step with a window
    blocks = 14 + 2 * (config.ports - 1)
    pairs, residual_pairs = 2 * config.ci * (config.half // 2), -(-config.half * config.ci // 2)  # of lanes with both halves
    return {
        **dict.fromkeys(("toggle_copy", "late_copy", "half_copy"), pairs + 2 * residual_pairs),
        "valid_copy": tiles + held,
        **dict.fromkeys(("first_copy", "last_copy"), tiles),
        **dict.fromkeys(("held_flat", "held_pair"), held),
        **dict.fromkeys(("step_copy", "ended"), config.pix * -(-config.ci // TILE_CHANNELS)),
        **dict.fromkeys(("multiply_copy", "counts_copy", "low_copy", "high_copy"), config.half * -(-config.ci // TILE_CHANNELS)),
        "writing_copy": 2 * -(-config.half * config.ci // BUNDLE_LANES),  # behind both engines
        "load_copy": sum(-(-min(word, TABLE_BYTES) // (WRITE_BYTES * SLICE_PIECES)) for word in ring_words),
        "number_copy": 2 * sums + params,  # of the array's drain and of the vector engine's
        "core_rst": 1 + blocks,
    }


def bordered(text: str) -> Counter[str]:
    """The instances of modules whose border is kept, by name without the number."""
    found: Counter[str] = Counter()
    inside = modules(text)
    kept = {name for name, body in inside.items() if body.startswith('(* keep_hierarchy = "yes" *)')}
    counts = instances(text)
    for name, body in inside.items():
        for kind, instance in re.findall(r"^  (\\\S+ |\w+) ([a-z]+)\d* \($", body, re.M):
            found[instance] += counts[name] * (kind.strip() in kept)
    return found


def check_attributes(text: str, config: Config) -> None:
    """Checks every attribute that an accelerator of this configuration must have."""
    found = copies(text)
    assert {name: found[name] for name in expected(config)} == expected(config)
    lanes = (config.pix, config.half, config.half, config.pix, config.half)  # of the walkers
    borders = bordered(text)
    assert {name: borders[name] for name in ("lane", "ahead", "edge")} == {"lane": sum(lanes), "ahead": 5, "edge": sum(lanes)}
    chains = re.findall(rf'^  \(\* srl_style = "{CHAIN["srl_style"]}" \*\)\n(?:  \(\* init.*\n)?  reg ', text, re.M)
    assert len(chains) == 2 * config.cascade + 1  # of activations and weights by place; of `first`
    memories = re.findall(r"^  (.*)reg .* mem \[.*\n(?:.*\n)*?endmodule", text, re.M)
    assert sum(f"cascade_height = {CASCADE_HEIGHT}" in memory for memory in memories) == len(
        re.findall(r"^module cnna_ram_\d+x\d+_(?:r+|dual|writers)\(", text, re.M)
    )
    assert not re.search(
        r'^  \(\* (?:keep|dont_touch|dont_merge|srl_style) = "\w+" \*\)\n(?:  \(\*.*\n)*  (?:input|output)', text, re.M
    )
