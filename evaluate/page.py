"""An evaluation as one self-contained HTML page: figures, the samples whose answers changed, with pictures, and the wrong ones."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.result import Evaluation, ModelResult, changes
from cnna.evaluate.tasks.task import Outline
from cnna.evaluate.text import ALIKE, figures_of, headline, points, same_text, shown, title
from cnna.spec.counts import listed, many
from cnna.spec.errors import ToolError

MOST = 120  # samples of a section that are drawn
SIDE, WIDE = 160, 280  # pixels of a picture's longer side, and of one over which something is drawn
COLOURS = 5  # of what is right, and of models; further ones have the last
LOOKED_AT = 50  # samples that tell whether a task draws anything
SMALL = 64  # below so many pixels, a picture is drawn larger, pixel by pixel
QUALITY = 80  # of JPEG
SHAPES = "--c0: #35c46a; --c1: #ff5d6c; --c2: #3f8cff; --c3: #ffb02e; --c4: #b06cff;"  # over pictures, light or dark
LIGHT = f"--good: #1f7a4d; --bad: #b3303f; --card: #fff; {SHAPES}"
DARK = "--good: #5cc891; --bad: #ee7080; --card: #1a1e23;"
RULES = """th, td { text-align: right } td.word, th.word { text-align: left } tbody tr:nth-child(odd) { background: var(--soft) }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); gap: .8rem; margin-top: .6rem }
.card { border: 1px solid var(--line); border-radius: 6px; background: var(--card); padding: .5rem; font-size: .85rem }
.card .picture { position: relative; width: fit-content; max-width: 100%; margin: 0 auto .4rem }
.card svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible }
.card svg rect { fill: none; stroke-width: 2px; vector-effect: non-scaling-stroke }
.card svg path { fill: none; stroke-width: 6px; stroke-linecap: round; vector-effect: non-scaling-stroke }
.card svg rect.c0 { stroke-width: 6px; opacity: .75 } .card svg path.c0 { stroke-width: 12px; opacity: .75 }
.c0 { stroke: var(--c0); background: var(--c0) } .c1 { stroke: var(--c1); background: var(--c1) }
.c2 { stroke: var(--c2); background: var(--c2) } .c3 { stroke: var(--c3); background: var(--c3) }
.c4 { stroke: var(--c4); background: var(--c4) }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .3rem }
.key .entry { margin-right: .8rem }
.cards.wide-cards { grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)) }
.card img { display: block; max-width: 100%; height: auto; border-radius: 3px } .card img.small { image-rendering: pixelated }
.card .none { color: var(--dim); text-align: center; padding: 1.5rem 0 }
.card p { margin: .1rem 0; overflow-wrap: anywhere } .card .name { color: var(--dim); font-size: .9em }
.card b { color: var(--ink); font-weight: 600 } .good { color: var(--good) } .bad { color: var(--bad) }
.good::before { content: "✓ " } .bad::before { content: "✗ " }"""


def check_installed() -> None:
    """ToolError: Pillow or the tools are missing. Said before hours of measuring, which would be for nothing."""
    for name in ("cnna.compiler.report.page", "PIL.Image"):
        try:
            import_module(name)
        except ImportError as missing:
            raise ToolError(f"a page needs {missing.name}, which is not installed here; --json needs nothing more") from None


def html(found: Evaluation) -> str:
    """The page. ToolError: as of `check_installed`."""
    check_installed()
    from cnna.compiler.report.page import Style, page

    parts = [f"<p>{escape(headline(found))}</p>", _figures(found)]
    parts += [_comparison(found)] if found.differences else []
    parts.append(_key(found))
    changed = changed_samples(found)
    wrong = [number for number in wrong_samples(found) if number not in set(changed)]
    # in their order: an archive is read from its beginning whenever one goes back in it
    drawn = {number: _picture(found, number) for number in sorted({*changed[:MOST], *wrong[:MOST]})}
    if found.differences:
        parts.append(_section(found, "Samples whose answers changed", _about_changed(found), changed, drawn))
    parts.append(_section(found, "Wrong in every model" if found.differences else "Wrong, the worst first", "", wrong, drawn))
    if found.skipped:
        rows = "".join(f'<tr><td class="word">{escape(why)}</td></tr>' for why in found.skipped.values())
        parts.append(f"<h2>Left out</h2><p>{many(len(found.skipped), 'sample')} that cannot be read.</p><table>{rows}</table>")
    return page(listed([model.identity.name for model in found.models]), Style("76rem", LIGHT, DARK, RULES), "\n".join(parts))


def _figures(found: Evaluation) -> str:
    """A row for each model."""
    names = figures_of(found)
    heads = "".join(f"<th>{escape(title(name))}</th>" for name in names)
    rows = []
    for model in found.models:
        cells = "".join(f"<td>{escape(shown(model.estimates.get(name), found.task.percent))}</td>" for name in names)
        cells += f"<td>{model.nan or '-'}</td><td>{'-' if model.seconds is None else f'{model.seconds:,.1f}'}</td>"
        rows.append(
            f'<tr><td class="word">{escape(model.identity.name)}</td><td class="word">{model.identity.device}</td>{cells}</tr>'
        )
    head = f'<tr><th class="word">model</th><th class="word">runs on</th>{heads}<th>NaN</th><th>seconds</th></tr>'
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _comparison(found: Evaluation) -> str:
    """A row for each model but the base."""
    names = figures_of(found)
    same = ALIKE.get(found.task.name)
    heads = "".join(f"<th>{escape(title(name))}</th>" for name in names) + "<th>better</th><th>worse</th>"
    heads += f"<th>{escape(same)}</th>" if same else ""
    rows = []
    for one in found.differences:
        cells = [points(one.estimates[name], found.task.percent) if name in one.estimates else "-" for name in names]
        cells += [f"{one.better:,}", f"{one.worse:,}"]
        if same:
            cells.append(same_text(found.task.name, one.same) if one.same is not None and one.same.value is not None else "-")
        inside = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><td class="word">{escape(one.model)}</td>{inside}</tr>')
    head = f'<tr><th class="word">model</th>{heads}</tr>'
    return (
        f"<h2>Beside {escape(found.base or '')}</h2><p>On the same samples; ± is the standard error of the difference.</p>"
        f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _about_changed(found: Evaluation) -> str:
    return f"Where an answer differs from that of {found.base}: what became wrong or worse first, then what became right or better."


def changed_samples(found: Evaluation) -> list[int]:
    """The samples whose answers differ from the base's, those that lost most first."""
    if found.base is None:
        return []
    base = found.model(found.base)
    others = [model for model in found.models if model is not base]
    worst = np.min([changes(found.task, model, base) for model in others], axis=0)
    best = np.max([changes(found.task, model, base) for model in others], axis=0)
    other = np.array([any(_differs(found, model, base, number) for model in others) for number in range(found.samples)])
    moved = np.flatnonzero(other | (worst < 0) | (best > 0))
    kept = np.where(worst < 0, worst, np.where(best > 0, 1 - 0.5 * best, 2.0))[moved]  # losses, gains, and others
    return [int(number) for number in moved[np.argsort(kept, kind="stable")]]


def _differs(found: Evaluation, model: ModelResult, base: ModelResult, number: int) -> bool:
    """Whether the answers of a task that tells classes are others."""
    return found.task.alike(model.records[number], base.records[number]) == 0


def wrong_samples(found: Evaluation) -> list[int]:
    """The samples that are not fully right in any model, the worst first."""
    values = [model.values[found.main] for model in found.models if found.main in model.values]
    if not values:
        return []
    best = np.nan_to_num(np.max(values, axis=0), nan=1.0)
    wrong = np.flatnonzero(best < 1)
    return [int(number) for number in wrong[np.argsort(best[wrong], kind="stable")]]


def _section(found: Evaluation, heading: str, about: str, numbers: Sequence[int], drawn: Mapping[int, str]) -> str:
    """Cards of some samples, and how many there are. drawn: the picture of each."""
    shown_here = f"{many(len(numbers), 'sample')}{f'; the first {MOST} are here' if len(numbers) > MOST else ''}."
    cards = "\n".join(_card(found, number, drawn[number]) for number in numbers[:MOST])
    wide = " wide-cards" if "<svg" in cards else ""
    return f'<h2>{escape(heading)}</h2><p>{escape(about)} {shown_here}</p><div class="cards{wide}">{cards}</div>'


def _card(found: Evaluation, number: int, picture: str) -> str:
    """One sample: its picture, what is right, and each model's answer."""
    right = found.task.right(found.targets.targets[number], found.targets)
    lines = [f'<p class="name">{escape(found.targets.names[number])}</p>']
    lines += [f"<p>right: <b>{escape(right)}</b></p>"] if right else []
    for model in found.models:
        values = model.values.get(found.main)
        kind = "" if values is None or np.isnan(values[number]) else "good" if values[number] >= 1 else "bad"
        words = found.task.words(model.records[number], found.targets)
        lines.append(f'<p>{escape(model.identity.name)}: <span class="{kind}">{escape(words)}</span></p>')
    return f'<div class="card">{picture}{"".join(lines)}</div>'


def _picture(found: Evaluation, number: int) -> str:
    """The picture, with what is right and what the models say drawn over it."""
    picture = found.source.picture(found.numbers[number])
    if picture is None:
        return '<div class="none">no picture</div>'
    drawn = _drawn(found, number)
    address, width, height, small = thumbnail(picture, WIDE if drawn else SIDE)
    kind = ' class="small"' if small else ""
    image = f'<img{kind} src="{address}" width="{width}" height="{height}" alt="">'
    over = f'<svg viewBox="0 0 {picture.shape[1]} {picture.shape[0]}">{drawn}</svg>' if drawn else ""
    return f'<div class="picture">{image}{over}</div>'


def _drawn(found: Evaluation, number: int) -> str:
    """SVG in the picture's pixels: what is right in the first colour, then each model in its own."""
    target = found.targets.targets[number]
    layers = [found.task.outlines(None, target, found.targets)]
    layers += [found.task.outlines(model.records[number], target, found.targets) for model in found.models]
    return "".join(_shape(place, one) for place, layer in enumerate(layers) for one in layer)


def _shape(place: int, one: Outline) -> str:
    kind, name = f"c{min(place, COLOURS - 1)}", f"<title>{escape(one.label)}</title>"
    if len(one.place) == 2:
        x, y = one.place
        return f'<path class="{kind} point" d="M{x:.1f} {y:.1f}h0">{name}</path>'
    left, top, right, bottom = one.place
    size = f'width="{max(right - left, 0):.1f}" height="{max(bottom - top, 0):.1f}"'
    return f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" {size}>{name}</rect>'


def _key(found: Evaluation) -> str:
    """Whose colour is whose; empty where nothing is drawn."""
    if not any(_drawn(found, number) for number in range(min(found.samples, LOOKED_AT))):
        return ""
    names = ["right", *(model.identity.name for model in found.models)]
    from cnna.compiler.report.page import key_entry

    entries = [key_entry(f'class="c{min(place, COLOURS - 1)}"', name) for place, name in enumerate(names)]
    return f'<p class="key">{"".join(entries)}</p>'


def thumbnail(picture: NDArray[np.uint8], side: int = SIDE) -> tuple[str, int, int, bool]:
    """A picture as a data address, its size on the page, and whether its pixels are drawn large."""
    from PIL import Image

    drawn: Any = Image.fromarray(picture)
    small = max(drawn.size) <= SMALL
    scale = side / max(drawn.size)
    width, height = (max(1, round(side * scale)) for side in drawn.size)
    if not small:
        drawn = drawn.resize((width, height))
    file = BytesIO()
    drawn.save(file, "PNG" if small else "JPEG", **({} if small else {"quality": QUALITY}))
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}", width, height, small
