"""The processor's cache between the host and an accelerator that does not see it: lines are cleaned and invalidated."""

import ctypes
from collections.abc import Callable
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

from cnna.host.native import library

CacheCall = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


@dataclass(frozen=True, eq=False)
class Cache:
    """What makes bytes in cached memory visible: `clean` those of the host, before a run; `invalidate` the accelerator's, after it.

    Both are called with an address and a number of bytes, and take every line of `line_bytes` that holds one of them. `invalidate`
    writes a line of the host back first, so none may be left where the accelerator writes. calls: C functions for the run loop;
    None: it calls `clean` and `invalidate`.
    """

    line_bytes: int
    clean: Callable[[int, int], object]
    invalidate: Callable[[int, int], object]
    calls: tuple[Any, Any] | None = None

    def for_loop(self) -> tuple[Any, Any]:
        """Clean and invalidate as the run loop takes them; whoever passes them on must keep them."""
        return self.calls or (_called(self.clean), _called(self.invalidate))


def own_cache() -> Cache | None:
    """That of this processor. None: there is no native library, or a program cannot maintain the cache here."""
    calls = library.native().calls
    line_bytes = int(calls.cnna_cache_line()) if calls is not None else 0
    if not line_bytes:
        return None
    clean, invalidate = calls.cnna_cache_clean, calls.cnna_cache_invalidate
    return Cache(
        line_bytes,
        lambda address, size: clean(None, address, size),
        lambda address, size: invalidate(None, address, size),
        (ctypes.cast(clean, CacheCall), ctypes.cast(invalidate, CacheCall)),
    )


def _called(call: Callable[[int, int], object]) -> Any:
    def for_c(_context: int, address: int, size: int) -> None:
        call(address, size)

    return CacheCall(for_c)
