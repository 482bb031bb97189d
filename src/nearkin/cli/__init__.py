"""The command line: parse, call the library, format. Nothing is computed here.

Heavy imports stay inside the commands, so that ``nearkin --help`` answers at once.
"""

from nearkin.cli._program import main
from nearkin.cli.adapt import adapt
from nearkin.cli.audit import audit
from nearkin.cli.consensus import consensus
from nearkin.cli.datasets import datasets
from nearkin.cli.decisions import apply
from nearkin.cli.demo import demo
from nearkin.cli.fit import fit
from nearkin.cli.info import info
from nearkin.cli.predict import predict, transform
from nearkin.cli.reproduce import reproduce
from nearkin.cli.rollback import rollback
from nearkin.cli.watch import watch

__all__ = ["main"]

for _command in (
    demo, audit, apply, consensus, fit, predict, transform, adapt, rollback, info, watch, datasets, reproduce,
):  # fmt: skip
    main.add_command(_command)
