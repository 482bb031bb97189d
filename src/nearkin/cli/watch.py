"""``nearkin watch``: what the log of a stream says."""

from __future__ import annotations

from pathlib import Path

import click

from nearkin.cli import _show
from nearkin.cli._options import PATH, option, options, output_option, quiet_option, takes
from nearkin.cli._program import command, with_debug

__all__ = ["watch"]

#: Alarms and other events that are told.
_TOLD = 5


@options
class Outputs:
    """What is written."""

    output: Path | None = output_option("watch", "-o", "--output", metavar="PAGE", help="Write a page that draws it.")
    title: str | None = option(metavar="TEXT", help="Heading of the page.  [default: the name of the log]")


@command(
    "Show the log of a stream: rates, alarms, files.",
    "nearkin watch metrics.jsonl",
    "nearkin watch metrics.jsonl -o watch.html",
)
@click.argument("log", type=PATH, metavar="LOG")
@takes(Outputs, "outputs")
@quiet_option
@with_debug
def watch(log: Path, outputs: Outputs, quiet: bool) -> None:
    """Show what LOG says, which nearkin fit --log has written.

    Accuracy and plausibility over time and by file, alarms of drift, files
    that were put aside and runs that were refused; as text, or with -o as a
    page in one file that needs nothing else.
    """
    from nearkin.streams import read_log, write_page

    book = read_log(log)
    if outputs.output is not None:
        write_page(book, outputs.output, title=outputs.title)
    if quiet:
        return
    learned = book.thinned(20)
    lines = [("rows", f"{book.n_rows:,}"), ("files", f"{len({one.file for one in book.learned}):,}")]
    for name in ("accuracy", "plausibility"):
        known = [one for one in (getattr(part, name) for part in learned) if one is not None]
        if known:
            lines.append((name, f"{known[-1]:.3f} at the end, {min(known):.3f} to {max(known):.3f} on the way"))
    lines.append(("alarms", f"{len(book.alarms):,}" + (", the latest:" if book.alarms else "")))
    lines += [
        ("", f"after {one.row:,} rows{f', in {one.file},' if one.file else ''} {one.text}")
        for one in book.alarms[: -_TOLD - 1 : -1]
    ]
    for name, found in (("put aside", book.put_aside), ("refused", book.refused)):
        if found:
            lines.append((name, f"{len(found):,}, the latest:"))
            lines += [("", f"{one.file} {one.reason}".strip()) for one in found[: -_TOLD - 1 : -1]]
    if book.n_damaged:
        lines.append(("damaged", f"{book.n_damaged:,} of {book.n_lines:,} lines"))
    if outputs.output is not None:
        lines.append(("page", f"{outputs.output} ({_show.size(outputs.output.stat().st_size)})"))
    _show.echo(_show.bold(str(log)))
    _show.echo(_show.pairs(lines))
