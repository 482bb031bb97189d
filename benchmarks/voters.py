"""What each voter of the jury adds: ``python -m benchmarks voters``.

Named sets with wrong labels are audited once with defaults. Then each voter is left out in turn, the shares of the
others are found again by stacking, and the labels are judged by the others alone. A table
(benchmarks/results/voters.md) has what is lost: area under the ROC curve of finding wrong labels, and accuracy on test
rows with right labels, in points, with standard errors over sets. The sets are those of `benchmarks.audit_sets`; those
that are not here are left out and named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

for _library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

from nearkin import RobustKNeighborsClassifier, __version__  # noqa: E402
from nearkin.jury import Jury, stack_votes  # noqa: E402
from nearkin.jury.jury import draw_to_equal  # noqa: E402
from nearkin.noise import score_labels  # noqa: E402

from . import audit_sets  # noqa: E402
from .audit_noise import Draw, draw_rows  # noqa: E402
from .rivals import say, split_names  # noqa: E402
from .settings import HERE  # noqa: E402

KINDS = ("uniform 20", "boundary")
SETS = (
    "banana", "contraceptive", "german", "heart", "ionosphere", "phoneme", "pima", "satimage", "segment", "sonar",
    "spambase", "splice", "vehicle", "vowel",
)  # fmt: skip


def judge(model: RobustKNeighborsClassifier, which: Sequence[int], rows: Draw) -> tuple[float, float]:
    """Area under the curve and accuracy of a jury of some voters, in points."""
    decision, said = model.decision_, model.votes(rows.X_test).votes
    voters = [decision.jury.voters[i] for i in which]
    copies, codes, k = decision.jury.copies, np.searchsorted(model.classes_, rows.given), len(model.classes_)
    ones = np.ones(len(codes))
    votes = [Jury([one], [1.0], copies).left_out(ones) for one in voters]
    jury = Jury(voters, draw_to_equal(stack_votes(votes, codes, k)), copies)
    score = score_labels(decision.noise.lift_zeros(jury.left_out(decision.heard)(slice(None))), codes)
    shares = decision.noise.true_shares(np.einsum("v,vnk->nk", jury.shares, said[list(which)]))
    is_right = model.classes_[shares.argmax(axis=1)] == rows.y_test
    return 100.0 * roc_auc_score(rows.given != rows.right, -score), 100.0 * float(is_right.mean())


def compare(data: audit_sets.AuditSet, kind: str, draw: int) -> dict[str, np.ndarray]:
    """What the jury reaches with all voters, and what it loses without each."""
    rows = draw_rows(data, kind, draw)
    model = RobustKNeighborsClassifier(random_state=rows.seed).fit(rows.X, rows.given)
    names = [one.name for one in model.decision_.jury.voters]
    every = range(len(names))
    whole = np.array(judge(model, every, rows))
    lost = {name: whole - judge(model, [j for j in every if j != i], rows) for i, name in enumerate(names)}
    return {"all voters": whole, **lost}


def average_sets(
    names: Iterable[str], kinds: Iterable[str], folder: Path | None, n_draws: int, compare: Callable[..., Any]
) -> Iterator[tuple[str, dict[str, dict[str, np.ndarray]]]]:
    """Mean over draws of what ``compare`` finds in every set that is here, by kind of noise."""
    from .space_sets import Missing

    for name in names:
        try:
            data = audit_sets.load(name, folder)
        except Missing as error:
            say(f"left out: {name}: {error}")
            continue
        found = {}
        for kind in kinds:
            draws = [compare(data, kind, draw) for draw in range(n_draws)]
            found[kind] = {one: np.mean([each[one] for each in draws], axis=0) for one in draws[0]}
        yield name, found


def tabulate(found: dict[str, list[dict[str, np.ndarray]]]) -> Iterable[str]:
    """Lines of the table; ``found`` has the mean of every set by kind of noise."""
    yield f"| {' | '.join(['points', *(f'{kind}: {what}' for kind in found for what in ('AUROC', 'accuracy'))])} |"
    yield f"|{'---|' * (1 + 2 * len(found))}"
    names = list(next(iter(found.values()))[0])
    for name in names:
        cells = [name if name == "all voters" else f"{name} adds"]
        for sets in found.values():
            values = np.array([one[name] for one in sets])
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            for mean, each in zip(values.mean(axis=0), error, strict=True):
                cells.append(f"{mean:.1f}" if name == "all voters" else f"{mean:+.2f} ± {each:.2f}")
        yield f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks voters", description="What each voter adds.")
    parser.add_argument("--sets", type=split_names, default=SETS, help="names, with commas")
    parser.add_argument("--draws", type=int, default=3, help="draws of every set and kind of noise")
    parser.add_argument("--folder", type=Path, default=os.environ.get("NEARKIN_DATA"), help="folder with the data")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "voters.md", help="table to write")
    given = parser.parse_args(arguments)
    found: dict[str, list[dict[str, np.ndarray]]] = {kind: [] for kind in KINDS}
    for name, means in average_sets(given.sets, KINDS, given.folder, given.draws, compare):
        for kind in KINDS:
            found[kind].append(means[kind])
        say(f"{name}: " + ", ".join(f"{kind} {found[kind][-1]['all voters'].round(1)}" for kind in KINDS))
    table = "\n".join(tabulate(found))
    head = f"nearkin {__version__}, {len(found[KINDS[0]])} sets, {given.draws} draws: what is lost without each voter."
    given.out.write_text(f"# What each voter adds\n\n{head}\n\n{table}\n", encoding="utf-8")
    say(table)


if __name__ == "__main__":
    main()
