"""A Dask cluster compiles as this machine does, and what stands in the way of that is one line."""

from collections.abc import Iterator
from logging import CRITICAL
from pathlib import Path
from typing import Any

import distributed
import pytest

from cnna.compiler.explore import cluster as module
from cnna.compiler.explore.aim import Aim
from cnna.compiler.explore.cluster import check_digests, cluster
from cnna.compiler.explore.explore import Sweep, explore
from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.kept import Kept
from cnna.compiler.explore.sizes import Budget
from cnna.compiler.explore.tasks import Conditions
from cnna.spec.errors import ToolError, UserError

from ... import networks
from .points import Fixed, Unbound, explored


@pytest.mark.parametrize("address", ["dask://", "tcp://localhost:1", "localhost:8786"])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    """A user would wait for a connection that cannot be."""
    with pytest.raises(UserError, match="not of the form dask://HOST:PORT"), cluster(address, []):
        pass


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would see a traceback, or be told of the tools that are there."""

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    with (
        pytest.raises(ToolError, match=r"the package distributed is missing: pip install '.\[explore\]'"),
        cluster("dask://h:1", []),
    ):
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """The scheduler of a cluster of two workers in this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as local:
        yield local.scheduler_address.replace("tcp://", "dask://")


def test_a_cluster_finds_what_this_machine_finds(address: str) -> None:
    """Another accelerator would be the best on a cluster than at home."""
    graph, configs = networks.network(3), configurations(Budget(250, 100))[::14]
    with cluster(address, [Fixed(graph)]) as (source, workers):
        found, _ = explore(Sweep(source, Conditions(), [Kept(None, "")], workers), configs, 1)
    assert Aim().best(found) == Aim().best(explored([graph], configs, 1)[0])


def test_a_scheduler_that_ends_loses_nothing(tmp_path: Path) -> None:
    """A user would see a traceback, or lose what the cluster did so far."""
    graph, configs, kept = networks.network(3), configurations(Budget(250, 100))[::14], Kept(tmp_path, "n")
    local = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp", silence_logs=CRITICAL
    )
    address = local.scheduler_address.replace("tcp://", "dask://")
    with (
        pytest.raises(ToolError, match="the scheduler ended; what came before is kept, and --resume goes on") as raised,
        cluster(address, [Fixed(graph)]) as (source, workers),
    ):
        explore(Sweep(source, Conditions(), [kept], workers, Unbound(), found=lambda point: local.close()), configs, 1)
    assert len(configs) > 3, "more than the cluster has under way, and none is ruled out by the first one"
    assert "\n" not in str(raised.value)
    assert len(Kept(tmp_path, "n")) == len(kept) > 0


def test_another_version_there_is_refused() -> None:
    """Predictions of another compiler would be kept as those of this one, or a user wait for workers that do not exist."""
    check_digests("dask://h:1", {"tcp://a:1": "same", "tcp://b:1": "same"}, "same")
    with pytest.raises(ToolError, match="tcp://b:1 has another version of cnna"):
        check_digests("dask://h:1", {"tcp://a:1": "same", "tcp://b:1": "other"}, "same")
    with pytest.raises(UserError, match="the scheduler has no workers"):
        check_digests("dask://h:1", {}, "same")
