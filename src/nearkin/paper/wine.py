"""Table 1: how many triplets wrong labels spoil, and how large their hinge is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets import Dataset
from nearkin.paper import printed
from nearkin.paper.protocol import seed_of
from nearkin.paper.scores import summary

__all__ = ["triplet_records"]

#: Percentage of wrong labels.
_NOISE = 10

#: Of 45 settings (targets, impostors per target, margin) the one nearest to the printed batch column, which none meets.
_BATCH: dict[str, Any] = {"n_targets": 2, "max_impostors": 1, "margin": 1.0}
_OCTG: dict[str, Any] = {"n_centers": 1, "margin": 1.0}


def triplet_records(data: Dataset, *, n_draws: int = 50, seed: int = 0) -> list[dict[str, Any]]:
    """Counts and mean hinges of triplets by what is wrong in them, over draws of the noise.

    Rows are z-scored and brought to length 1, which is what makes the OCTG column come out.

    Parameters
    ----------
    data : Dataset
        Rows and right labels; the paper takes Wine.
    n_draws : int
        How often the noise is drawn.
    seed : int
        Of the noise.
    """
    from sklearn.preprocessing import StandardScaler, normalize

    from nearkin.noise import flip_labels
    from nearkin.triplets import OCTG, BatchTriplets

    X = normalize(StandardScaler().fit_transform(np.asarray(data.X, dtype=np.float64)))
    sources: dict[str, tuple[Any, dict[str, Any]]] = {
        "Batch": (BatchTriplets(**_BATCH), _BATCH),
        "OCTG": (OCTG(**_OCTG), _OCTG),
    }
    out = []
    for name, (source, params) in sources.items():
        draws = []
        for draw in range(n_draws):
            noisy, is_wrong = flip_labels(data.y, _NOISE / 100, random_state=seed_of(seed, data.name, draw))
            draws.append(_figures(source.build(X, noisy), is_wrong))
        for figure, (paper_count, paper_hinge) in printed.triplet_figures()[name].items():
            counts, hinges = zip(*(one[figure] for one in draws), strict=True)
            count, hinge = summary(list(counts)), _summary_of_known(hinges)
            out.append(
                {
                    "dataset": data.name,
                    "noise": _NOISE,
                    "method": name,
                    "figure": figure,
                    "count_mean": count[0],
                    "count_std": count[1],
                    "paper_count": paper_count,
                    "hinge_mean": hinge[0],
                    "hinge_std": hinge[1],
                    "paper_hinge": paper_hinge,
                    "draws": n_draws,
                    "params": params,
                    "seed": seed,
                }
            )
    return out


def _figures(triplets: Any, is_wrong: NDArray[np.bool_]) -> dict[str, tuple[float, float | None]]:
    hinge, roles = np.maximum(0.0, 1.0 - triplets.margins()), triplets.noisy_roles(is_wrong)
    noisy = roles.anchor | roles.positive | roles.negative
    kinds = {
        "triplets": np.ones(len(hinge), dtype=bool),
        "normal": ~noisy,
        "noisy": noisy,
        "anchor_noisy": roles.anchor,
        "positive_noisy": roles.positive,
        "negative_noisy": roles.negative,
    }
    return {kind: (float(one.sum()), float(hinge[one].mean()) if one.any() else None) for kind, one in kinds.items()}


def _summary_of_known(values: tuple[float | None, ...]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return summary(known) if known else (None, None)
