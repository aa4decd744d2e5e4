"""The frame of a self-contained HTML page, with the style that all pages share: light or dark, as the reader's system asks."""

from html import escape
from string import Template
from typing import NamedTuple

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #fff; --ink: #1d2329; --dim: #66707c; --line: #d8dde3; --soft: #f3f5f8;
  $light }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e4e8ec; --dim: #9aa4af; --line: #363d45; --soft: #1d2127;
  $dark } }
html { overflow-y: scroll }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--page); color: var(--ink); max-width: $width; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 0 .2rem } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem }
p { margin: .3rem 0; color: var(--dim) } h1, h2, p { overflow-wrap: anywhere } .entry { white-space: nowrap }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th { font-weight: 600; color: var(--dim) } th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line) }
$style
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")


CHARTS = (  # colours for light and dark, and rules, of pages whose charts and table `report.js` joins
    "--measured: #d1495b; --chosen: #fff0c2",
    "--measured: #ee7080; --chosen: #4a3d12",
    """th, td { text-align: right } td.word, th.word { text-align: left } tbody tr:nth-child(odd) { background: var(--soft) }
table.layers tbody tr, th.sorts { cursor: pointer } table.layers tr.chosen { background: var(--chosen) }
th[aria-sort=ascending]::after { content: " ▲" } th[aria-sort=descending]::after { content: " ▼" }
.chart { width: 100%; min-width: 18rem } #problem { color: var(--measured); font-weight: 600 }
""",
)


def key_entry(swatch: str, words: str) -> str:
    """An entry of a key, which no line break parts. swatch: the attribute that colours it. words: as they are."""
    return f'<span class="entry"><i {swatch}></i>{escape(words)}</span> '


class Style(NamedTuple):
    """What one kind of page adds: its width, colours as CSS variables for light and dark, and rules."""

    width: str
    light: str
    dark: str
    rules: str


def page(title: str, style: Style, body: str) -> str:
    """The page. body: HTML, all text in it escaped."""
    width, light, dark, rules = style
    return _PAGE.substitute(title=escape(title), width=width, light=light, dark=dark, style=rules, body=body)
