"""Small data sets for the tests of the paper and of benchmarks, shaped like those of the registry."""

import numpy as np

from nearkin.datasets import Dataset, DatasetInfo, NoisyLabels


def make_dataset(name, n=90, d=5, n_classes=3, *, seed=0, drop_columns=(), groups=False, human=False):
    """Gaussian clouds with some overlap, features on different scales."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    centers = 1.5 * rng.normal(size=(n_classes, d))
    scale = np.arange(1.0, d + 1)

    def draw(labels):
        return (centers[labels] + rng.normal(size=(len(labels), d))) * scale

    X = draw(y)
    noisy, extra = {}, {}
    if human:
        noisy = {"crowd": np.where(rng.uniform(size=n) < 0.2, (y + 1) % n_classes, y)}
        extra = {"y_test": y[:30].copy()}
        extra["X_test"] = draw(extra["y_test"])
    info = DatasetInfo(
        name=name,
        title=name,
        file=f"{name}.npz",
        sha256="0",
        n_rows=n,
        n_features=d,
        n_classes=n_classes,
        dtype="float64",
        licence="none",
        citation=(),
        origin="made up",
        paper="not in the paper",
        drop_columns=drop_columns,
        groups="pair" if groups else None,
        noisy_labels={"crowd": NoisyLabels("crowd", 0.2, "made up")} if human else {},
    )
    return Dataset(name, X, y, info, "folder", np.arange(n) // 2 if groups else None, noisy, extra)
