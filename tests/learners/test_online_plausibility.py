"""The weight of a triplet before its step says how plausible it is, however far the step goes."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score

import nearkin
from each import each

SETS = {"wine": load_wine, "breast cancer": load_breast_cancer}


#: What a pass with long steps may lose against the final metric; weights after the step had an area of 0.57 to 0.64.
LOST = {"RobustODML": 0.04, "RobustLODML": 0.16}


@each(name=tuple(SETS), learner=tuple(LOST))
def test_weights_of_one_pass_find_wrong_labels_nearly_as_well_as_those_of_the_final_metric(name, learner):
    X, y = SETS[name](return_X_y=True)
    noisy, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)
    areas = []
    for rescore in (False, True):
        model = getattr(nearkin, learner)(
            C=30.0, eta=0.5, init="identity", triplets="octg", scale="unit", rescore=rescore, random_state=0
        ).fit(X, noisy)
        areas.append(roc_auc_score(is_wrong, -model.plausibility_))
    assert areas[0] >= areas[1] - LOST[learner], areas


@each(learner=("RobustOASIS", "RobustODML", "RobustLOSL", "RobustLODML", "RobustOPML", "RobustSLMOML"))
def test_plausibility_does_not_depend_on_the_number_of_iterations_at_the_first_triplet(learner, random_triplets):
    sets = [one[:1] for one in random_triplets(1, 4, 0.5)]
    found = [getattr(nearkin, learner)(C=10.0, eta=1.0, max_hq_iter=n, scale=None).fit_triplets(*sets) for n in (1, 7)]
    before = getattr(nearkin, learner)(C=0.0, eta=1.0, scale=None).fit_triplets(*sets)
    for one in found:
        assert one.plausibility_[0] == pytest.approx(before.plausibility_[0], rel=1e-12)
    assert before.plausibility_[0] < 1.0
    assert np.isfinite(found[1].metric_).all()
