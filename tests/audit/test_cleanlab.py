"""Hand-over to cleanlab, for people who use both."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import nearkin

EXTRA = "needs cleanlab with its Datalab: pip install 'nearkin[cleanlab]'"
pytest.importorskip("cleanlab", reason=EXTRA)


@pytest.fixture(scope="module")
def handed():
    rng = np.random.default_rng(2)
    y = rng.permutation(np.arange(400) % 4)
    X = (2.5 * rng.normal(size=(4, 6)))[y] + rng.normal(size=(400, 6))
    names = np.array(["ash", "birch", "cedar", "date"])
    noisy, is_wrong = nearkin.flip_labels(names[y], 0.15, random_state=0)
    audit = nearkin.audit_labels(X, noisy, random_state=0)
    return audit, audit.to_cleanlab(), is_wrong


def test_its_functions_take_what_the_audit_gives(handed):
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    audit, given, is_wrong = handed
    assert np.array_equal(audit.classes[given["labels"]], audit.given_label)
    assert np.allclose(given["pred_probs"].sum(axis=1), 1)
    found = find_label_issues(given["labels"], given["pred_probs"], n_jobs=1)
    assert is_wrong[found].mean() > 0.8 and found[is_wrong].mean() > 0.8
    theirs = get_label_quality_scores(given["labels"], given["pred_probs"])
    assert roc_auc_score(is_wrong, -theirs) > 0.95
    assert roc_auc_score(is_wrong, -given["label_quality"]) > 0.95


@pytest.mark.filterwarnings("ignore")  # its own, of other packages
def test_its_datalab_takes_graph_and_probabilities(handed):
    datalab = pytest.importorskip("cleanlab.datalab.datalab", reason=EXTRA, exc_type=ImportError)
    audit, given, is_wrong = handed
    lab = datalab.Datalab({"label": audit.given_label.tolist()}, label_name="label", task="classification", verbosity=0)
    lab.find_issues(
        pred_probs=given["pred_probs"], knn_graph=given["knn_graph"], issue_types={"label": {}, "outlier": {}}
    )
    issues = lab.get_issues("label").is_label_issue.to_numpy()
    assert is_wrong[issues].mean() > 0.8
