"""A Dask cluster as the executor of an exploration: `dask://HOST:PORT` of its scheduler.

Dask itself does again what was under way on a machine that went away. Every machine needs the same cnna, since a prediction of
another version would be kept under a wrong name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from importlib import import_module
from logging import CRITICAL, getLogger
from typing import Any

from cnna.compiler.explore.kept import compiler_digest
from cnna.compiler.explore.workers import AHEAD, Result, Taken, Workers
from cnna.spec.errors import ToolError, UserError
from cnna.spec.extras import install

SCHEME = "dask://"
CONNECT_SECONDS = 10


class OnCluster(Executor):
    """The executor of a Dask client. That one knows nothing of `cancel_futures`: it cancels what it does not wait for."""

    def __init__(self, client: Any) -> None:
        self._own = client.get_executor(pure=False)

    def submit(self, fn: Callable[Taken, Result], /, *args: Taken.args, **kwargs: Taken.kwargs) -> "Future[Result]":
        """As of every executor; arguments that are futures of Dask stand for their results."""
        future: Future[Result] = self._own.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of every executor."""
        self._own.shutdown(wait=wait)


@contextmanager
def cluster(address: str, networks: Sequence[Any]) -> Iterator[tuple[Any, Workers]]:
    """Workers of a cluster, and the networks as their tasks name them: they go to each machine once.

    UserError: there is no scheduler, or no machine. ToolError: a package is missing, a machine has another cnna, several workers
    ended with one task, or the scheduler ended.
    """
    host = address.removeprefix(SCHEME)
    if not address.startswith(SCHEME) or not host:
        raise UserError(f"--executor {address}: not of the form {SCHEME}HOST:PORT")
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError(f"--executor {address}: the package distributed is missing: {install('explore')}") from None
    try:
        client = distributed.Client(f"tcp://{host}", timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise UserError(f"--executor {address}: no scheduler answers there ({' '.join(str(error).split())})") from None
    with _quiet("distributed.client"), client:
        check_digests(address, _digests(address, client), compiler_digest())
        source = client.scatter([networks], broadcast=True)[0]
        width = AHEAD * sum(client.nthreads().values())
        with Workers(lambda: OnCluster(client), width) as workers:
            try:
                yield source, workers
            except distributed.KilledWorker as error:
                said = " ".join(str(error).split())
                raise ToolError(
                    f"--executor {address}: one configuration ended several workers; have they memory? ({said})"
                ) from None
            except (CancelledError, OSError) as error:  # without its scheduler, a client cancels all that it waits for
                if isinstance(error, CancelledError) or client.status != "running":
                    raise ToolError(
                        f"--executor {address}: the scheduler ended; what came before is kept, and --resume goes on"
                    ) from None
                raise


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """A library's log says nothing meanwhile: what it would say stands in one line of ours."""
    log = getLogger(name)
    before = log.level
    log.setLevel(CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _digests(address: str, client: Any) -> Mapping[str, str]:
    """By machine, what its predictions follow from. ToolError: a machine has no cnna."""
    try:
        found: Mapping[str, str] = client.run(compiler_digest)
    except ImportError as missing:
        raise ToolError(f"--executor {address}: a machine there lacks {missing.name}; install the same cnna on all") from None
    return found


def check_digests(address: str, found: Mapping[str, str], own: str) -> None:
    """UserError: there is no machine. ToolError: one has another cnna than this process."""
    if not found:
        raise UserError(f"--executor {address}: the scheduler has no workers; start some with `dask worker`")
    for machine, digest in found.items():
        if digest != own:
            raise ToolError(f"--executor {address}: {machine} has another version of cnna; install the same on all")
