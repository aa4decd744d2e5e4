"""The files of the console. They show nothing by themselves: what they show comes from `/v2/console`, which needs the token."""

from importlib.resources import files

from starlette.responses import Response

FOLDER = "console"
PAGE = "index.html"
KINDS = {"console.js": "text/javascript", "console.css": "text/css", "preact.mjs": "text/javascript", "htm.mjs": "text/javascript"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def page(token_needed: bool) -> Response:
    """The page; it asks for a token if one is needed."""
    text = _read(PAGE).decode().replace('data-token="no"', f'data-token="{"yes" if token_needed else "no"}"')
    return Response(text, 200, HEADERS, "text/html")


def file(name: str) -> Response | None:
    """One of the page's files; None: there is none of that name."""
    return Response(_read(name), 200, HEADERS, KINDS[name]) if name in KINDS else None


def _read(name: str) -> bytes:
    return files("cnna.serve.http").joinpath(FOLDER).joinpath(name).read_bytes()
