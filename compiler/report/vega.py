"""The JavaScript of Vega, Vega-Lite and Vega-Embed as one text, for pages that need no network.

It comes with `vl-convert-python`.
"""

from importlib.metadata import version
from pathlib import Path

from cnna.spec.errors import ToolError
from cnna.spec.files import write_text

PACKAGE = "vl-convert-python"


def library(cache: Path) -> str:
    """The text, about 0.9 MB. It is made once for each version of the package, in seconds, and kept in the folder `cache`.

    ToolError: the package is not installed.
    """
    try:
        import vl_convert

        kept = cache / f"vega-{version(PACKAGE)}.js"
    except ImportError:
        raise ToolError(f"the page's charts need {PACKAGE}: pip install 'cnna[tools]'") from None
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        write_text(kept, vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"))
    return kept.read_text(encoding="utf-8")
