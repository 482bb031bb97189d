"""Connections to a cluster that runs, or to processes of this machine."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from nearkin.errors import InputError

__all__ = ["connect", "require_dask"]

_LOCAL = re.compile(r"local:([1-9][0-9]*)")


def require_dask() -> Any:
    """Return the module distributed, or raise an error that says how to get it."""
    try:
        import distributed
    except ImportError:
        raise ImportError("clusters need dask; install it with: pip install 'nearkin[dask]'") from None
    return distributed


@contextmanager
def connect(where: Any, *, tls: Sequence[str | os.PathLike[str]] | None = None, timeout: float = 30.0) -> Iterator[Any]:
    """Connect a Dask client for the duration of the block.

    Parameters
    ----------
    where : str or distributed.Client
        Address of a scheduler, such as ``"tcp://10.0.0.5:8786"``; ``"local:4"`` for four processes of this machine that
        listen on the loopback interface only; or a client, which stays open afterwards.
    tls : three paths or None, default=None
        Files of the certificate authority, the certificate and its key, for an encrypted connection.
    timeout : float, default=30.0
        Seconds to wait for the scheduler.

    Yields
    ------
    distributed.Client
        Connected.

    Examples
    --------
    >>> from nearkin import distributed
    >>> with distributed.connect("local:4") as client:  # doctest: +SKIP
    ...     distributed.fit(learner, stream, client=client)
    """
    distributed = require_dask()
    if isinstance(where, distributed.Client):
        yield where
        return
    if not isinstance(where, str):
        raise TypeError(f"a Dask client, an address or 'local:N' is needed; got {where!r}.")
    local = _LOCAL.fullmatch(where)
    security = _security(distributed, tls)
    if local is not None:
        with (
            _processes(distributed, int(local.group(1)), security, timeout) as cluster,
            _client(distributed, cluster, where, security, timeout) as client,
        ):
            yield client
        return
    if where.startswith("local"):
        raise InputError(
            f"processes of this machine are written 'local:N', N a number; got {where!r}.", owner="connect"
        )
    address = where if "://" in where else f"{'tls' if security else 'tcp'}://{where}"
    with _client(distributed, address, where, security, timeout) as client:
        yield client


def _security(distributed: Any, tls: Sequence[str | os.PathLike[str]] | None) -> Any:
    if tls is None:
        return None
    authority, certificate, key = (os.fspath(one) for one in tls)
    for path in (authority, certificate, key):
        with open(path, "rb"):  # noqa: PTH123  # a clear error now, not an obscure one later
            pass
    return distributed.Security(
        require_encryption=True, tls_ca_file=authority,
        **{f"tls_{who}_{what}": path for who in ("client", "scheduler", "worker")
           for what, path in (("cert", certificate), ("key", key))},
    )  # fmt: skip


@contextmanager
def _processes(distributed: Any, n: int, security: Any, timeout: float) -> Iterator[Any]:
    import dask

    # Unless switched off, the profiler samples every worker a hundred times a second.
    with dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "200ms"}):
        cluster = distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, security=security,
        )  # fmt: skip
    try:
        yield cluster
    finally:
        with suppress(Exception):
            cluster.close(timeout=timeout)


@contextmanager
def _client(distributed: Any, target: Any, where: str, security: Any, timeout: float) -> Iterator[Any]:
    try:
        client = distributed.Client(target, timeout=timeout, security=security, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
        raise ConnectionError(f"no Dask scheduler answers at {where} within {timeout:g} s ({error}).") from None
    try:
        yield client
    finally:
        # A scheduler that is gone must not delay the end.
        closing = threading.Thread(target=lambda: _close(client), daemon=True)
        closing.start()
        closing.join(timeout)


def _close(client: Any) -> None:
    try:
        with suppress(Exception):
            client.close(timeout=5)
    finally:
        client.status = "closed"  # otherwise it tries once more, and complains, when deleted
