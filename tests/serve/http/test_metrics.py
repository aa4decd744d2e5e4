"""`/metrics` by the rules of Prometheus: its own client reads it, histograms add up, and the dashboard asks for what is there."""

import json
import math
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cnna.serve.engine.core import Core
from cnna.serve.http import metrics as module
from cnna.serve.http.metrics import HISTOGRAMS, metrics
from cnna.serve.lifecycle.versions import VersionLife
from cnna.serve.requests.request import Result
from cnna.serve.requests.stats import BOUNDS, Histogram
from cnna.spec.errors import BusyError

from ..engine.fakes import ask, core_of, version_of

Within = Callable[[Coroutine[Any, Any, None]], None]
OPERATORS = {"sum", "by", "rate", "increase", "count", "scalar", "histogram_quantile", "label_values"}


def samples_of(core: Core) -> list[Sample]:
    """All samples. AssertionError: a family has no type or no help, or a series is there twice."""
    text, _ = metrics(core)
    families = list(text_string_to_metric_families(text.decode()))
    names = [family.name for family in families]
    assert len(set(names)) == len(names), "a family is there twice"
    assert all(family.type != "unknown" and family.documentation for family in families)
    found = [sample for family in families for sample in family.samples]
    series = [(sample.name, *sorted(sample.labels.items())) for sample in found]
    assert len(set(series)) == len(series), "a series is there twice"
    return found


def histograms(core: Core, name: str) -> dict[tuple[str, str], tuple[dict[float, float], float, float]]:
    """Of each model and version: the buckets by their bound, the sum and the count."""
    found: dict[tuple[str, str], tuple[dict[float, float], list[float], list[float]]] = {}
    for sample in samples_of(core):
        if sample.name.startswith(name):
            buckets, sums, counts = found.setdefault((sample.labels["model"], sample.labels["version"]), ({}, [], []))
            match sample.name.removeprefix(name):
                case "_bucket":
                    buckets[float(sample.labels["le"])] = sample.value
                case "_sum":
                    sums.append(sample.value)
                case "_count":
                    counts.append(sample.value)
    assert all(len(sums) == len(counts) == 1 for _, sums, counts in found.values())
    return {key: (buckets, sums[0], counts[0]) for key, (buckets, sums, counts) in found.items()}


async def answered(core: Core, board: Any, requests: int) -> list[Result]:
    """The answers to so many requests of different sizes."""
    open_ones = [ask(core, 1 + number % 3) for number in range(requests)]
    while not all(one.future.done() for one in open_ones):
        await board.answer()
    return [one.future.result() for one in open_ones]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_add_up(tmp_path: Path, within: Within, name: str) -> None:
    """A quantile would be computed from buckets that do not ascend, or whose last one has not all requests that were answered."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", queue=8)
        assert histograms(core, name) == {("m", "1"): ({**dict.fromkeys(BOUNDS, 0.0), math.inf: 0.0}, 0.0, 0.0)}
        results = await answered(core, board, 3)
        board.state = "resting"
        ask(core, 8)
        with pytest.raises(BusyError):
            ask(core, 1)
        await core.close()
        stats = core.catalogue.models["m"].versions["1"].stats
        assert stats.succeeded == 3
        ((key, (buckets, total, count)),) = histograms(core, name).items()
        assert key == ("m", "1")
        assert list(buckets) == [*BOUNDS, math.inf], "the bounds ascend, and the last one takes all"
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets[math.inf] == count == 3, "each request that was answered counts once, and no other"
        of = HISTOGRAMS[name][1](stats)
        assert total == pytest.approx(of.seconds)
        said = {"cnna_queue_duration_seconds": "wait_seconds", "cnna_run_duration_seconds": "run_seconds"}.get(name)
        if said:
            seconds = [getattr(result, said) for result in results]
            assert buckets == {bound: sum(one <= bound for one in seconds) for bound in (*BOUNDS, math.inf)}
            assert total == pytest.approx(sum(seconds))

    within(run())


def test_a_bound_is_within_its_bucket() -> None:
    """`le` is less or equal: a time that equals a bound would be counted one bucket too late, or one that is longer too soon."""
    for place, bound in enumerate(BOUNDS):
        found = Histogram()
        for seconds in (bound, math.nextafter(bound, 0), math.nextafter(bound, math.inf)):
            found.add(seconds)
        assert found.within()[place] == 2
        assert found.within()[place + 1] == 3
    found = Histogram()
    found.add(2 * BOUNDS[-1])
    assert found.within() == [0] * len(BOUNDS) + [1]


def test_labels_are_escaped_and_no_client_can_add_one(tmp_path: Path, within: Within) -> None:
    """A name with a quotation mark would make the page unreadable, and each wrong name in a request would be a series for ever."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        odd = 'a "b" \\ c\nd'
        board.spec = replace(board.spec, name=odd)
        before = {tuple(sorted(one.labels.items())) for one in samples_of(core)}
        assert any(dict(labels).get("board") == odd for labels in before)
        for name in ("other", odd):
            with pytest.raises(Exception, match="no model"):
                core.admit(name, {"x": np.ones((1, 2), np.float32)})
        assert {tuple(sorted(one.labels.items())) for one in samples_of(core)} == before

    within(run())


def test_a_version_that_is_unloaded_ends_its_histograms(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last answers would be lost at once; or a server with a new version each day would show some more series each day."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", versions={"1": version_of("1"), "2": version_of("2")})
        await answered(core, board, 2)
        name, model = "cnna_request_duration_seconds", core.catalogue.models["m"]
        assert set(histograms(core, name)) == {("m", "1"), ("m", "2")}
        for state in ("UNLOADING", "UNAVAILABLE"):
            for version in ("1", "2"):
                model.becomes(model.life.with_life(version, VersionLife(state, "another version")))
            shown = histograms(core, name)
            assert shown["m", "2"][2] == 2
            assert (("m", "1") in shown) == (state == "UNLOADING"), "version 1 has answered nothing that could be read yet"
        now = model.versions["2"].stats.last
        for later, there in ((module.KEPT_SECONDS - 1, True), (module.KEPT_SECONDS + 1, False)):
            monkeypatch.setattr(module.time, "time", lambda later=later: now + later)
            assert (("m", "2") in histograms(core, name)) == there
        monkeypatch.undo()
        model.becomes(model.life.with_life("2", VersionLife("LOADING")))
        model.becomes(model.life.with_life("2", VersionLife("READY")))
        assert histograms(core, name)["m", "2"][1:] == (0.0, 0.0), "loaded again, it begins anew"

    within(run())


def test_the_dashboard_asks_for_what_is_there(root: Path, tmp_path: Path, within: Within) -> None:
    """A panel of docs/serving/grafana.json would be empty, since it asks for a metric or a label that the server has not."""
    dashboard = json.loads((root / "docs" / "serving" / "grafana.json").read_text())

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a", queue=1)
        core.boards[0].watts, core.boards[0].celsius = 6.5, 41.0
        stats = core.catalogue.models["m"].versions["1"].stats
        stats.failed["deadline"] += 1
        stats.fallbacks["onnxruntime"] += 1
        await answered(core, board, 1)
        there: dict[str, set[str]] = {}
        for sample in samples_of(core):
            there.setdefault(sample.name, set()).update(sample.labels)
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        queries = [target["expr"] for panel in panels for target in panel["targets"]]
        queries += [one["definition"] for one in dashboard["templating"]["list"] if "definition" in one]
        assert len(queries) >= len(panels) > 10
        for query in queries:
            _check_query(query, there)

    within(run())


def _check_query(query: str, there: dict[str, set[str]]) -> None:
    """AssertionError: it names a metric that is not there, or a label that none of its metrics has."""
    bare = re.sub(r'"[^"]*"', "", query)
    assert [bare.count(bracket) for bracket in "({["] == [bare.count(bracket) for bracket in ")}]"], query
    words = set(re.findall(r"(?<![\w$])[a-z_]{2,}\b", re.sub(r"\[[^\]]*\]", "", bare))) - OPERATORS
    named = {word for word in words if word.startswith("cnna_")}
    assert named, query
    assert named <= set(there), f"{query}: /metrics has no {named - set(there)}"
    assert words - named <= set.union(*(there[name] for name in named)), query
