"""The JavaScript that draws the charts of a page, from the cache."""

from os import PathLike
from pathlib import Path


def chart_library(cache: str | PathLike[str] | None = None) -> str:
    """The JavaScript. cache: where it is kept; None: the user's folder.

    UserError: the folder cannot be used. ToolError: its package is missing.
    """
    from cnna.compiler.report.html import library
    from cnna.sim.rtl.cache import private
    from cnna.spec.files import default_cache

    return library(private(default_cache() if cache is None else Path(cache)))
