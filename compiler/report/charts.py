"""The charts of the report's page, as Vega-Lite specifications: what is drawn from which figures. `html` embeds them.

`report.js` joins them: charts over time zoom together, and a click on a layer marks it in all. The reference of the language is
https://vega.github.io/vega-lite/docs/.
"""

from collections.abc import Sequence
from typing import Any

from cnna.compiler.report.report import Figures
from cnna.compiler.report.roofline import limits, point, roof, vector_roof
from cnna.spec.regmap import COUNTED, ENGINES

Spec = dict[str, Any]
KINDS = ("predicted", "measured")
ENGINE_COLOURS = {"load": "#2a9d8f", "weight": "#8a6fc9", "conv": "#2f6fbf", "vector": "#dd8420", "store": "#63923a"}
KIND_COLOURS = {"predicted": "#8fa3b8", "measured": "#d1495b"}
CAUSE_COLOURS = {
    "works": "#2f6fbf",
    "waits": "#dd8420",
    "idle": "#8fa3b8",
    "weights": "#8a6fc9",
    "feature": "#2a9d8f",
    "store": "#63923a",
    "write_back": "#d1495b",
    "residual": "#c77dba",
    "token": "#e9c46a",
}
RAMPS = {  # viridis without the end that is nearest to the page's colour; `report.js` takes the one of the reader's system
    "light": ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80"),
    "dark": ("#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"),
}
FADED = 0.15  # opacity of other layers while one is chosen
SHADES = (1.0, 0.65)  # opacity of odd and even layers
LANE = 20  # height of an engine's row in pixels
MEMORY_HEIGHT, BYTES_HEIGHT, ROOFLINE_HEIGHT = 190, 130, 420
LABEL = 40  # pixels from the end of the axis within which a number would be cut off: there it ends with the axis
_CLOCKS = {  # the horizontal axis
    "format": ",d",
    "title": "clocks",
    "tickMinStep": 1,
    "labelOverlap": True,
    "labelSeparation": 12,
    "labelFlush": LABEL,
}
TITLE_LIMIT = 400  # most pixels of a legend's title, of which 180 would cut ours
ENTRY = 80  # pixels of a legend's entry
NAMES = 118  # width of the names left of a chart, so that charts over time stand exactly below each other


def charts(found: Figures) -> dict[str, Spec]:
    """All charts, by the name of their place on the page. A chart for which there are no figures is left out."""
    made = {"engines": engines(found), "array": array(found), "roofline": roofline(found)}
    made |= {name: draw(found) for name, draw in (("memory", memory), ("ddr", ddr)) if found[name]}
    return {name: whole(spec) for name, spec in made.items()}


def whole(spec: Spec) -> Spec:
    """A chart as wide as the page. chosen: the number of the layer that was clicked last; 0: none."""
    frame = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "width": "container"}
    return {**frame, **spec, "params": [{"name": "chosen", "value": 0}, *spec.get("params", [])]}


def engines(found: Figures) -> Spec:
    """A row for each engine: predicted and, where a run has measured them, measured. A bar is a layer's commands."""
    rows = [f"{engine}, predicted" for engine in ENGINES]
    if measured := found["timeline"]["measured"]:
        seen = {*COUNTED, *(engine for engine, *_ in measured)}
        rows += [f"{engine}, measured" for engine in ENGINES if engine in seen]
    values = [
        {"row": f"{engine}, {kind}", "engine": engine, **_of(layer, found), "begin": begin, "end": end, "clocks": end - begin}
        for kind in KINDS
        for engine, layer, begin, end in joined(found["timeline"][kind] or ())
    ]
    return {
        "data": {"values": values},
        "height": LANE * len(rows),
        "params": [_zoom()],
        "mark": {"type": "rect", "clip": True, "height": {"band": 0.85}},
        "encoding": {
            **_clocks(found),
            "y": {"field": "row", "type": "nominal", "sort": rows, "scale": {"domain": rows}, **_axis(None)},
            "color": _colour("engine", ENGINE_COLOURS, "engine"),
            "opacity": _opacity(),
            "tooltip": _tips("layer", "name", "engine", "begin", "end", "clocks"),
        },
    }


def joined(bars: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The bars with those of one engine and layer made one where they touch: fewer marks, and the same picture."""
    found: list[list[Any]] = []
    last: dict[str, list[Any]] = {}
    for engine, layer, begin, end in bars:
        before = last.get(engine)
        if before and before[1] == layer and begin <= before[3]:
            before[3] = max(end, before[3])
        else:
            last[engine] = [engine, layer, begin, end]
            found.append(last[engine])
    return found


def memory(found: Figures) -> Spec:
    """Which tensor lies where in feature memory, and from when to when."""
    values = [{**entry, **_of(entry["layer"], found), "words": entry["high"] - entry["low"]} for entry in found["memory"]]
    return {
        "data": {"values": values},
        "height": MEMORY_HEIGHT,
        "params": [_zoom()],
        "mark": {"type": "rect", "clip": True, "stroke": "#888", "strokeWidth": 0.5},
        "encoding": {
            **_clocks(found),
            "y": {"field": "low", "type": "quantitative", "scale": {"domain": [0, found["feature_words"]]}, **_axis()},
            "y2": {"field": "high"},
            "color": {"field": "layer", "type": "nominal", "scale": {"scheme": "tableau20"}, "legend": None},
            "opacity": _opacity(),
            "tooltip": _tips("tensor", "layer", "name", "low", "words", "begin", "end"),
        },
    }


def ddr(found: Figures) -> Spec:
    """The bytes that DDR moves in a clock, as predicted, one engine on the other; the rule is what it can move."""
    values = []
    for entry in found["ddr"]:
        top = 0.0
        for engine, amount in entry["bytes"].items():
            span = {"begin": entry["begin"], "end": entry["end"]}
            values.append({"engine": engine, **span, "bytes": amount, "low": top, "high": top + amount})
            top += amount
    colours = {name: ENGINE_COLOURS[name] for name in ENGINES if name in found["ddr"][0]["bytes"]}
    bars = {
        "data": {"values": [value for value in values if value["bytes"]]},
        "params": [_zoom()],
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            **_clocks(found),
            "y": {"field": "low", "type": "quantitative", **_axis()},
            "y2": {"field": "high"},
            "color": _colour("engine", colours, "for the engine"),
            "tooltip": _tips("engine", "bytes", "begin", "end"),
        },
    }
    rule = {
        "data": {"values": [{"most": found["ddr_bytes_per_cycle"]}]},
        "mark": {"type": "rule", "strokeDash": [5, 4], "color": KIND_COLOURS["measured"]},
        "encoding": {
            "y": {"field": "most", "type": "quantitative"},
            "tooltip": _numbers({"most": f"{found['ddr_limit']}: bytes a clock at most"}),
        },
    }
    return {"height": BYTES_HEIGHT, "layer": [bars, rule]}


def array(found: Figures) -> Spec:
    """How the array spends its clocks: works, or waits for what."""
    values = [
        {
            "kind": kind,
            "cause": cause,
            "clocks": clocks,
            "share": clocks / max(sum(found[kind]["array"].values()), 1),
            "order": place,
        }
        for kind in KINDS
        if found[kind] and found[kind]["array"]
        for place, (cause, clocks) in enumerate(found[kind]["array"].items())
    ]
    colours = {value["cause"]: CAUSE_COLOURS[value["cause"]] for value in values}
    return {
        "data": {"values": values},
        "height": 2 * LANE * len({value["kind"] for value in values}),
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "clocks", "type": "quantitative", "stack": "zero", "axis": _CLOCKS},
            "y": {"field": "kind", "type": "nominal", "sort": list(KINDS), **_axis(None)},
            "color": _colour("cause", colours, "what the array does or waits for"),
            "order": {"field": "order"},
            "tooltip": [*_tips("kind", "cause", "clocks"), {"field": "share", "format": ".1%"}],
        },
    }


def roofline(found: Figures) -> Spec:
    """Each layer that multiplies: MACs a clock over MACs a byte of DDR traffic, under the limits of engines and memory.

    See Williams et al., "Roofline", CACM 52(4), 2009.
    """
    low, high, least, most = limits(found)
    peak, rate = found["macs_per_cycle"], found["ddr_bytes_per_cycle"]
    roofs = [{"limit": f"array {peak:,}, {found['ddr_limit']} {rate} bytes a clock", "x": x, "y": y} for x, y in roof(found)]
    if vector := vector_roof(found):
        roofs += [{"limit": f"vector engine {vector:,}", "x": x, "y": vector} for x in (max(low, vector / rate), high)]
    points = [
        {"kind": kind, **_of(number, found), "engine": layer["engine"], "x": spot[0], "y": spot[1]}
        for number, layer in enumerate(found["layers"])
        for kind in KINDS
        if (spot := point(layer, kind))
    ]
    x = {"field": "x", "type": "quantitative", "scale": {"type": "log", "domain": [low, high]}}
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [least, most]},
        "axis": {"title": "MACs a clock", "format": "~s"},
    }
    x["axis"] = {"title": "MACs a byte of DDR traffic", "format": ".10~g"}
    place = {"x": x, "y": y}
    lines = {
        "data": {"values": roofs},
        "mark": {"type": "line", "color": "#888", "tooltip": True},
        "encoding": {**place, "detail": {"field": "limit"}, "tooltip": [{"field": "limit"}]},
    }
    dots = {
        "data": {"values": points},
        "mark": {"type": "point", "size": 60, "strokeWidth": 1.8},
        "encoding": {
            **place,
            "shape": {"field": "engine", "type": "nominal", "legend": _legend("engine of the layer")},
            "color": _colour("kind", {kind: KIND_COLOURS[kind] for kind in KINDS if found[kind]}, "figures"),
            "opacity": _opacity(),
            "tooltip": [*_tips("layer", "name", "kind", "engine"), *_numbers({"x": "MACs a byte", "y": "MACs a clock"})],
        },
    }
    shown = "measured" if found["measured"] else "predicted"  # one name a layer; two would lie on each other
    names: Spec = {
        "data": {"values": [{**spot, "right": spot["x"] ** 2 > low * high} for spot in points if spot["kind"] == shown]},
        "transform": [{"filter": "datum.layer == chosen"}],
        "mark": {
            "type": "text",
            "dy": -14,
            "fontWeight": "bold",
            "align": {"expr": "datum.right ? 'right' : 'left'"},  # away from the edge that is nearer
        },
        "encoding": {**place, "text": {"field": "name"}},
    }
    halo = {**names, "mark": {**names["mark"], "style": "halo"}}  # so that dots and lines behind it do not cross its letters
    return {"height": ROOFLINE_HEIGHT, "layer": [lines, dots, halo, names]}


def _of(layer: int, found: Figures) -> Spec:
    """A layer's number and name. A program without layers copies its input."""
    return {"layer": layer + 1, "name": found["layers"][layer]["name"] if found["layers"] else "copy"}


def _clocks(found: Figures) -> Spec:
    """The axis that charts over time share."""
    last = max((bar[3] for bars in found["timeline"].values() for bar in bars or ()), default=1)
    x = {"field": "begin", "type": "quantitative", "scale": {"domain": [0, last], "nice": False}}
    return {"x": {**x, "axis": _CLOCKS}, "x2": {"field": "end"}}


def _zoom() -> Spec:
    """Wheel and drag change the scale of the clocks; a double click shows all again."""
    return {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}


def _axis(form: str | None = ",d") -> Spec:
    """A vertical axis. Its title is the heading above the chart, so that charts over time stand exactly below each other."""
    axis = {"minExtent": NAMES, "maxExtent": NAMES}
    return {"title": None, "axis": {**axis, "format": form} if form else axis}


def _colour(field: str, colours: Spec, title: str) -> Spec:
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": _legend(title)}


def _legend(title: str) -> Spec:
    columns = {"expr": f"max(2, floor(width / {ENTRY}))"}  # as many as fit: on a telephone a row would be cut off
    return {"orient": "top", "title": title, "titleLimit": TITLE_LIMIT, "columns": columns}


def _opacity() -> Spec:
    """Other layers fade while one is chosen; else neighbours differ in shade."""
    odd, even = SHADES
    chosen = {"test": "chosen == datum.layer", "value": 1}
    others = {"test": "chosen != 0", "value": FADED}
    return {"condition": [chosen, others, {"test": "datum.layer % 2 == 0", "value": even}], "value": odd}


def _tips(*fields: str) -> list[Spec]:
    numbers = ("begin", "end", "clocks", "words", "low", "bytes")
    return [
        {"field": field, "type": "quantitative", "format": ",.10~g"} if field in numbers else {"field": field} for field in fields
    ]


def _numbers(titles: dict[str, str]) -> list[Spec]:
    return [{"field": field, "type": "quantitative", "format": ",.4~g", "title": title} for field, title in titles.items()]
