"""One audit, or cleanlab with 10-NN, in a process of its own: seconds of the processor, memory and what was found.

Started by `benchmarks.audit_growth`, by its path, so that it can run with the sources of another commit.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np


def draw(n, d, n_classes, clusters=6):
    """A mixture of clusters of different widths, six of each class, a tenth of the labels flipped."""
    rng = np.random.default_rng([n, d, n_classes])
    n_clusters = n_classes * clusters
    centres = rng.normal(size=(n_clusters, d)).astype(np.float32)
    width = rng.uniform(0.6, 1.4, n_clusters).astype(np.float32)
    cluster = rng.integers(0, n_clusters, n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    for start in range(0, n, 8192):
        part = slice(start, start + 8192)
        X[part] = X[part] * width[cluster[part], None] + centres[cluster[part]]
    y = cluster % n_classes
    is_wrong = rng.random(n) < 0.1
    return X, np.where(is_wrong, (y + rng.integers(1, n_classes, n)) % n_classes, y), is_wrong


def held(name):
    """Bytes that the process holds, now (VmRSS) or at most (VmHWM); None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return None


def audit(X, y):
    import nearkin

    return -nearkin.audit_labels(X, y, random_state=0).score


def cleanlab(X, y):
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.model_selection import cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), KNeighborsClassifier(10))
    shares = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    find_label_issues(y, shares, n_jobs=1)
    return -get_label_quality_scores(y, shares)


def main():
    from sklearn.metrics import roc_auc_score

    job = json.loads(sys.argv[1])
    run = {"audit": audit, "cleanlab": cleanlab}[job["what"]]
    X, y, is_wrong = draw(job["n"], job["d"], job["classes"])
    small, its_labels, _ = draw(400, 8, 3)
    run(small, its_labels)  # everything is compiled and imported
    before = held("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        before = None
    begun = time.process_time()
    score = run(X, y)
    seconds = time.process_time() - begun
    most = held("VmHWM")
    taken = None if before is None or most is None else most - before
    print(json.dumps({"cpu": seconds, "memory": taken, "auroc": float(roc_auc_score(is_wrong, score))}))


if __name__ == "__main__":
    main()
