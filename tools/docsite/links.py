"""Checks what was built: links within the site lead to files and ids that are there, and nothing is loaded from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SKIPPED = ("genindex.html", "search.html", "py-modindex.html")


class _Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps what a tag links to, and its id."""
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.ids.add(value)
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and name == "src":
                self.loaded.append(value)


def broken(site: Path) -> list[str]:
    """`page: link` of each link within the site that leads nowhere, and of each script or picture from another site.

    Links to other sites are not looked at.
    """
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html") if "_static" not in path.parts}
    found = [f"{path.relative_to(site)}: {link}" for path, page in pages.items() for link in page.loaded if urlsplit(link).netloc]
    for path, page in pages.items():
        for link in page.links if path.name not in SKIPPED else ():
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            name = unquote(parts.fragment)
            if not target.is_file() or (name and target in pages and name not in pages[target].ids):
                found.append(f"{path.relative_to(site)}: {link}")
    return found
