"""What a job gives: a frozen dataclass whose fields are the figures that the command writes with `--json`.

Fields marked ASIDE are for programs alone, such as the compiled artifact itself. Those marked OPTIONAL are left out of the figures
while they are None, since only some options bring them.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from html import escape
from inspect import isfunction
from io import BytesIO
from os import PathLike, fspath
from typing import Any

from cnna.jobs.options.arguments import checked

ASIDE: Mapping[str, bool] = {"aside": True}
OPTIONAL: Mapping[str, bool] = {"optional": True}
PAGE_PIXELS = 640  # the height of a page that is shown within a notebook


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """The base of all results. `str` of one is what the command prints. Methods refuse arguments of a wrong kind."""

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if isfunction(method) and not name.startswith("_"):
                setattr(cls, name, checked(method))

    def figures(self) -> dict[str, Any]:
        """The figures as the command writes them with `--json`: numbers, texts, lists and dictionaries alone."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not field.metadata.get("aside") and not (field.metadata.get("optional") and value is None):
                found[field.name] = _figure(value)
        return found

    def _repr_html_(self) -> str:
        return text_html(str(self))


def _figure(value: Any) -> Any:
    """A value as JSON has it."""
    if callable(own := getattr(value, "figures", None)):
        return own()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _figure(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_figure(each) for each in value]
    return fspath(value) if isinstance(value, PathLike) else value


def text_html(text: str) -> str:
    """Text for a notebook, in columns as they are printed."""
    return f'<pre style="overflow-x: auto">{escape(text)}</pre>'


def page_html(page: str) -> str:
    """A whole page for a notebook: in a frame, where neither its style nor its script reaches the notebook."""
    return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {PAGE_PIXELS}px; border: 0"></iframe>'


def picture_html(draw: Callable[[BytesIO], object], text: str) -> str:
    """A picture for a notebook, as PNG, with the text below it; the text alone where the package that draws is missing."""
    file = BytesIO()
    try:
        draw(file)
    except ImportError:
        return text_html(text)
    data = b64encode(file.getvalue()).decode()
    return f'<img style="max-width: 100%" src="data:image/png;base64,{data}">{text_html(text)}'
