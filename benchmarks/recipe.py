"""What the recipe of the jury is made of, on the sets it was chosen on: ``python -m benchmarks recipe``.

Two tables (benchmarks/results/recipe.md). The first has accuracy on test rows with right labels and the area under the
ROC curve of finding wrong labels, for the best rival of each set and kind of noise with hindsight, for voters of the
jury by themselves, for all of them with shares by stacking, and for the jury as it is; the last with doubtful rows left
out of the vote, too. The second has how far the estimated share of wrong labels is from the true one. The sets are
sixteen of `benchmarks.audit_sets`; those that are not here are left out and named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402

from nearkin import RobustKNeighborsClassifier, __version__  # noqa: E402
from nearkin.jury import Jury, stack_votes  # noqa: E402
from nearkin.jury.jury import draw_to_equal  # noqa: E402
from nearkin.noise import score_labels  # noqa: E402

from . import audit_sets  # noqa: E402
from .audit_noise import Draw, draw_rows  # noqa: E402
from .rivals import say, split_names  # noqa: E402
from .settings import HERE  # noqa: E402
from .voters import average_sets  # noqa: E402

SETS = (
    "sonar", "vehicle", "vowel", "segment", "pima", "heart", "crx", "contraceptive", "spambase", "phoneme", "satimage",
    "splice", "movement_libras", "banana", "ring", "optdigits",
)  # fmt: skip
KINDS = {"none": 0.0, "uniform 20": 0.2, "uniform 40": 0.4}
#: Voters of the jury that vote by themselves.
ALONE = {
    "neighbours": ("input space", "learned spaces"), "ridge on features": ("ridge on features",),
    "ridge on landmarks": ("ridge on landmarks",), "forest": ("forest",),
}  # fmt: skip
RIVALS = (
    *(KNeighborsClassifier(k) for k in (3, 10, 25)),
    LogisticRegression(max_iter=2000),
)
BEST = "best of 3-, 10-, 25-NN and logistic regression, with hindsight"


def judge(
    model: RobustKNeighborsClassifier, rows: Draw, names: Sequence[str] | None, *, half_way: bool = True
) -> tuple[float, float]:
    """Accuracy, and area under the curve of finding wrong labels, of some voters (None for all), in points."""
    decision, said = model.decision_, model.votes(rows.X_test).votes
    which = [i for i, one in enumerate(decision.jury.voters) if names is None or one.name in names]
    voters = [decision.jury.voters[i] for i in which]
    copies, codes, k = decision.jury.copies, np.searchsorted(model.classes_, rows.given), len(model.classes_)
    ones = np.ones(len(codes))
    shares = stack_votes([Jury([one], [1.0], copies).left_out(ones) for one in voters], codes, k)
    jury = Jury(voters, draw_to_equal(shares) if half_way else shares, copies)
    score = score_labels(decision.noise.lift_zeros(jury.left_out(decision.heard)(slice(None))), codes)
    votes = decision.noise.true_shares(np.einsum("v,vnk->nk", jury.shares, said[which]))
    is_right = model.classes_[votes.argmax(axis=1)] == rows.y_test
    is_wrong = rows.given != rows.right
    curve = 100.0 * float(roc_auc_score(is_wrong, -score)) if is_wrong.any() else np.nan
    return 100.0 * float(is_right.mean()), curve


def compare(data: audit_sets.AuditSet, kind: str, draw: int) -> dict[str, tuple[float, float]]:
    """Accuracy and area under the curve by voters, and the error of the estimated share of wrong labels."""
    rows = draw_rows(data, kind, draw)
    rivals = [100.0 * float(one.fit(rows.z, rows.given).score(rows.z_test, rows.y_test)) for one in RIVALS]
    model = RobustKNeighborsClassifier(random_state=rows.seed).fit(rows.X, rows.given)
    dropping = RobustKNeighborsClassifier(weights="uniform", random_state=rows.seed).fit(rows.X, rows.given)
    found = {BEST: (max(rivals), np.nan)}
    found |= {f"{name} alone": judge(model, rows, voters) for name, voters in ALONE.items()}
    found["all, shares by stacking"] = judge(model, rows, None, half_way=False)
    found["all, half way to equal shares"] = judge(model, rows, None)
    found["the same, doubtful rows left out"] = (100.0 * float(dropping.score(rows.X_test, rows.y_test)), np.nan)
    wrong = 100.0 * float(np.mean(rows.given != rows.right))
    return found | {"rate": (abs(100.0 * model.noise_rate_ - wrong), np.nan)}


def tabulate(found: dict[str, list[dict[str, np.ndarray]]]) -> Iterable[str]:
    """Lines of both tables; ``found`` has the mean of every set by kind of noise."""
    heads = [f"{kind}: {what}" for what in ("accuracy", "AUROC") for kind in found]
    yield f"| {' | '.join(['points', *heads])} |"
    yield f"|{'---|' * (1 + 2 * len(found))}"
    means = {
        kind: {name: np.mean([one[name] for one in sets], axis=0) for name in sets[0]} for kind, sets in found.items()
    }
    for name in next(iter(means.values())):
        if name != "rate":
            cells = [means[kind][name][at] for at in (0, 1) for kind in found]
            yield f"| {name} | " + " | ".join("" if np.isnan(one) else f"{one:.1f}" for one in cells) + " |"
    yield ""
    yield f"| points | {' | '.join(found)} |"
    yield f"|{'---|' * (1 + len(found))}"
    yield "| error of the estimated share | " + " | ".join(f"{means[kind]['rate'][0]:.1f}" for kind in found) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks recipe", description="What the recipe is made of.")
    parser.add_argument("--sets", type=split_names, default=SETS, help="names, with commas")
    parser.add_argument("--draws", type=int, default=1, help="draws of every set and kind of noise")
    parser.add_argument("--folder", type=Path, default=os.environ.get("NEARKIN_DATA"), help="folder with the data")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "recipe.md", help="tables to write")
    given = parser.parse_args(arguments)
    found: dict[str, list[dict[str, np.ndarray]]] = {kind: [] for kind in KINDS}
    names = []
    for name, means in average_sets(given.sets, KINDS, given.folder, given.draws, compare):
        names.append(name)
        for kind in KINDS:
            found[kind].append(means[kind])
        say(f"{name}: done")
    if not names:
        parser.error("none of the sets is here.")
    text = "\n".join(tabulate(found))
    head = f"nearkin {__version__}, draws of every set: {given.draws}; sets: {', '.join(names)}."
    given.out.write_text(f"# What the recipe is made of\n\n{head}\n\n{text}\n", encoding="utf-8")
    say(text)


if __name__ == "__main__":
    main()
