"""``nearkin audit --dask``: more rows than fit into memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearkin.cli import _show
from nearkin.cli._options import PATH, given_options, option, options, timeout_option
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.cli.audit import AuditOptions

__all__ = ["ClusterOptions", "audit_on_cluster"]

#: Options of an audit in memory that mean something on a cluster too.
_SHARED = ("label", "labels", "features", "drop", "text", "noise_rate", "seed")


@options
class ClusterOptions:
    """Options for an audit on a cluster."""

    dask: str | None = option(
        metavar="ADDRESS|local:N", is_eager=True,
        help="Audit on a Dask cluster, or in N processes of this machine: files that need not fit into memory.",
    )  # fmt: skip
    into: Path | None = option(
        metavar="FOLDER", help="Dask: new folder for tables of suspects.  [default: big.suspects for big/*.parquet]"
    )
    missing: str = option(
        type=click.Choice(["error", "drop", "fill"]), default="error",
        help="Dask: what to do with rows that lack a number or a label.",
    )  # fmt: skip
    tls: tuple[Path, Path, Path] | None = option(
        type=PATH, nargs=3, metavar="CA CERT KEY", help="Dask: files for an encrypted connection."
    )
    timeout: float = timeout_option()

    def check_unused(self, data: Sequence[Path]) -> None:
        """Refuse, without a cluster, what only a cluster can do."""
        if given := given_options(self):
            raise InputError(f"--{given[0]} belongs to --dask; add it, or leave this out.")
        if len(data) > 1:
            raise InputError("several files are audited together only with --dask, such as --dask local:2.")

    def place(self, data: Sequence[Path]) -> Path:
        """Return the folder for results."""
        if self.into is not None:
            return self.into
        first = data[0].parent if "*" in data[0].name or len(data) > 1 else data[0]
        return Path(f"{first.resolve().name.split('.')[0] or 'audit'}.suspects")


def audit_on_cluster(data: Sequence[Path], given: AuditOptions, cluster: ClusterOptions, *, quiet: bool) -> None:
    """Audit files that need not fit into memory, and say what was found."""
    _require_extras()
    from nearkin import distributed, streams

    if others := [name for name in given_options(given) if name not in _SHARED]:
        names = {"ids": "id", "every": "all"}
        flag = names.get(others[0], others[0]).replace("_", "-")
        reason = "workers judge on their processors" if flag == "device" else "it needs all rows in memory"
        raise InputError(f"--{flag} cannot be combined with --dask: {reason}. Leave it out.")
    if given.label is not None and given.labels is not None:
        raise InputError("--label names a column and --labels a file; give one of them.")
    assert cluster.dask is not None
    begun = time.perf_counter()
    stream = streams.open(
        [str(one) for one in data], label=given.label or given.labels, features=given.features or None,
        drop=given.drop, missing=cluster.missing, text=given.text,
    )  # fmt: skip
    assert isinstance(stream, streams.FileStream)
    folder = cluster.place(data)
    with _show.progress_bar(quiet=quiet), distributed.connect(cluster.dask, tls=cluster.tls) as client:
        found = distributed.audit(
            stream, folder, client=client, noise_rate=given.noise_rate, random_state=given.seed,
            timeout=cluster.timeout,
        )  # fmt: skip
    if quiet:
        return
    columns = None if stream.columns is None else stream.columns.encoder
    lines = [
        *found.summary(),
        *_show.tell_columns(getattr(columns, "columns_", ())),
        ("time", f"{time.perf_counter() - begun:.1f} s"),
        ("suspects in", f"{folder}: {_show.count(len(found.paths), 'Parquet file')}, and audit.json"),
    ]
    _show.echo(_show.pairs(lines))


def _require_extras() -> None:
    """Name both extras at once, before the first import fails."""
    if not all(map(find_spec, ("distributed", "pyarrow"))):
        raise InputError(
            "--dask needs the extras dask and arrow, and what they install is not all here: "
            "pip install 'nearkin[dask,arrow]'."
        )
