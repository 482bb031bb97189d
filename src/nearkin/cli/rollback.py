"""``nearkin rollback``: an adapter serves an earlier map again."""

from __future__ import annotations

from pathlib import Path

import click

from nearkin.cli import _show
from nearkin.cli._options import UpdatedFile, option, options, quiet_option, takes
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError

__all__ = ["rollback"]

_UNTIL = "the next nearkin adapt adopts a map"


@options
class RollbackOptions:
    """Options of ``nearkin rollback``."""

    to: int | None = option(
        type=click.IntRange(0), metavar="VERSION", help="Number of the version; 0 is the identity.  [default: the one "
        "before]",
    )  # fmt: skip


@command(
    "Serve an earlier map of an adapter again.",
    "nearkin rollback adapter.nearkin",
    "nearkin rollback adapter.nearkin --to 0",
    "nearkin info adapter.nearkin",
)
@click.argument("model", type=UpdatedFile(path_type=Path), metavar="MODEL")
@takes(RollbackOptions)
@quiet_option
@with_debug
def rollback(model: Path, given: RollbackOptions, quiet: bool) -> None:
    """Let the adapter MODEL serve an earlier version of its map.

    nearkin info lists the versions. The file is replaced; what was learned and
    newer versions stay in it, so that one can go forward again.
    """
    from nearkin.model_files import load_fitted
    from nearkin.saving import save
    from nearkin.search import SimilarityAdapter

    if not model.exists():
        raise InputError(f"{model}: no such file. Make an adapter with: nearkin adapt ... -o {model.name}")
    adapter = load_fitted(model).estimator
    if not isinstance(adapter, SimilarityAdapter):
        raise InputError(f"{model} holds a {type(adapter).__name__}, not an adapter; make one with nearkin adapt.")
    before = adapter.version_
    if before == 0 and given.to is None:
        newer = [f"--to {one.number}" for one in adapter.versions_[1:]]
        forward = f"; forward goes {', '.join(newer)}" if newer else ""
        raise InputError(f"{model} serves version 0, the identity, already: there is nothing to go back to{forward}.")
    save(adapter.rollback(given.to), model)
    if not quiet:
        served = next(one for one in adapter.versions_ if one.number == adapter.version_)
        was = "the map that followed the stream" if before is None else f"version {before}"
        _show.echo(_show.pairs([("served", str(served)), ("before", was), ("until", _UNTIL), ("saved", str(model))]))
