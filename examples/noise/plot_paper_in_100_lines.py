"""
The paper in 100 lines
======================

Algorithms 1 to 5 of the paper in plain NumPy, each beside the call that does the same. Nothing is fast here: matrices
are formed, equations are solved by a dense solver, and a root is found by bisection. The outputs are equal to rounding,
which this script asserts.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler, normalize

import nearkin

C, ETA, MAX_HQ_ITER, NOISE_RATE = 0.1, 1.0, 3, 0.1
X, y = load_wine(return_X_y=True)
X = normalize(StandardScaler().fit_transform(X))
train, test = np.arange(len(X)) % 3 > 0, np.arange(len(X)) % 3 == 0
noisy, is_wrong = nearkin.flip_labels(y[train], NOISE_RATE, random_state=0)

# %%
# The loss of Eq. (10) enters only through the weight of Eqs. (17) and (19): the plausibility -v of a triplet falls
# exponentially with its hinge, and C_t is C times beta eta times that.

BETA = 1.0 / (1.0 - np.exp(-ETA))


def plausibility(z):
    return np.exp(-ETA * np.maximum(0.0, 1.0 - z))


# %%
# OCTG, section 3.4: the anchor is a row, the positive the centre of its class, and every centre of another class that
# is not farther by the margin 1 is a negative, the nearest first.


def octg(rows, labels, centers):
    for x, label in zip(rows, labels, strict=True):
        d2 = ((x - centers) ** 2).sum(axis=1)
        for k in np.argsort(d2):
            if k != label and not d2[label] + 1.0 < d2[k]:
                yield x, centers[label], centers[k]


centers = np.array([X[train][noisy == k].mean(axis=0) for k in range(3)])
triplets = list(octg(X[train], noisy, centers))
members = [np.array(one) for one in zip(*triplets, strict=True)]

found = nearkin.OCTG(n_centers=1).build(X[train], noisy)
print(f"{len(triplets)} triplets; {found.noisy_roles(is_wrong).anchor.sum()} with a wrong anchor, no other is wrong")
assert len(found) == len(triplets)
np.testing.assert_allclose(found.margins(), [(x - n) @ (x - n) - (x - p) @ (x - p) for x, p, n in triplets])

# %%
# One signed matrix per triplet serves both measures, so that z = <A, M> is the margin of the triplet.


def similarity(x, positive, negative):
    return np.outer(x, positive - negative)


def distance(x, positive, negative):
    return np.outer(x - negative, x - negative) - np.outer(x - positive, x - positive)


def step_size(margin_after, largest):
    """The half-quadratic loop 3.3: weigh the triplet where the last step led, then step from M or L anew."""
    tau = 0.0
    for _ in range(MAX_HQ_ITER):
        tau = min(C * BETA * ETA * plausibility(margin_after(tau)), largest)
    return tau


# %%
# **Algorithms 1 and 2**, Robust-OASIS and Robust-ODML: Eqs. (22) and (25), and a projection for the distance.


def learn_full(direction, project):
    M = np.eye(X.shape[1])
    for triplet in triplets:
        A = direction(*triplet)
        z, square = (A * M).sum(), (A * A).sum()
        if z < 1.0:
            tau = step_size(lambda tau, z=z, square=square: z + tau * square, (1.0 - z) / square)
            M = M + tau * A
            if project:
                values, vectors = np.linalg.eigh(M)
                M = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return M


settings = {"C": C, "eta": ETA, "max_hq_iter": MAX_HQ_ITER, "scale": None}
oasis = nearkin.RobustOASIS(**settings).fit_triplets(*members)
odml = nearkin.RobustODML(**settings).fit_triplets(*members)
np.testing.assert_allclose(oasis.metric_, learn_full(similarity, project=False), atol=1e-10)
np.testing.assert_allclose(odml.metric_, learn_full(distance, project=True), atol=1e-10)
print(f"Algorithms 1 and 2: {oasis.n_updates_} and {odml.n_updates_} updates, equal")

# %%
# **Algorithms 3 and 4**, Robust-LOSL and Robust-LODML: the problem of Eqs. (26) and (31) has the solution
# L(tau) = (I - tau (A + A'))^-1 L, and tau ends where the margin reaches 1.


def learn_low_rank(direction, L):
    for triplet in triplets:
        A = direction(*triplet)

        def moved(tau, L=L, A=A):
            return np.linalg.solve(np.eye(len(L)) - tau * (A + A.T), L)

        def margin_after(tau, A=A, moved=moved):
            return (A * (moved(tau) @ moved(tau).T)).sum()

        if margin_after(0.0) < 1.0:
            low, high = 0.0, (1.0 - 1e-6) / np.linalg.eigvalsh(A + A.T)[-1]
            for _ in range(100):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if margin_after(middle) < 1.0 else (low, middle)
            L = moved(step_size(margin_after, high))
    return L


start = np.eye(X.shape[1], 5)
losl = nearkin.RobustLOSL(init=start.T, **settings).fit_triplets(*members)
lodml = nearkin.RobustLODML(init=start.T, **settings).fit_triplets(*members)
np.testing.assert_allclose(losl.components_.T, learn_low_rank(similarity, start), atol=1e-9)
np.testing.assert_allclose(lodml.components_.T, learn_low_rank(distance, start), atol=1e-9)
print(f"Algorithms 3 and 4: {losl.n_updates_} and {lodml.n_updates_} updates, equal")

# %%
# **Algorithm 5**, Robust-kNN: a row weighs as much as its least plausible triplet under the learned metric; drop the
# share of wrong labels with the smallest weights, and let the three nearest of the rest vote by weight.

learner = nearkin.RobustODML(init="identity", triplets="octg", shuffle=False, **settings).fit(X[train], noisy)
weights = np.ones(train.sum())
for i, (x, label) in enumerate(zip(X[train], noisy, strict=True)):
    for triplet in octg([x], [label], centers):
        weights[i] = min(weights[i], plausibility((distance(*triplet) * learner.metric_).sum()))
np.testing.assert_allclose(learner.plausibility_, weights, atol=1e-10)

kept = np.argsort(weights, kind="stable")[int(NOISE_RATE * len(weights)) :]
predicted = []
for x in X[test]:
    gaps = X[train][kept] - x
    nearest = kept[np.argsort(np.einsum("ij,jk,ik->i", gaps, learner.metric_, gaps), kind="stable")[:3]]
    predicted.append(np.bincount(noisy[nearest], weights[nearest], minlength=3).argmax())

robust = nearkin.RobustKNeighborsClassifier.algorithm5(learner, noise_rate=NOISE_RATE).fit(X[train], noisy)
np.testing.assert_array_equal(robust.predict(X[test]), predicted)
accuracy = np.mean(predicted == y[test])
print(f"Algorithm 5: accuracy {accuracy:.3f} with {is_wrong.sum()} of {len(noisy)} labels wrong, equal")

# %%
# The weights of Algorithm 5 by both: every row lies on the diagonal, most wrong labels in its lower corner.

fig, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot([0, 1], [0, 1], color="#8a8a8a", lw=1)
for some, colour, mark, name in ((~is_wrong, "#0072B2", "o", "right label"), (is_wrong, "#D55E00", "^", "wrong label")):
    axes.scatter(weights[some], learner.plausibility_[some], color=colour, marker=mark, s=24, alpha=0.7, label=name)
axes.set(xlabel="weight by these lines", ylabel="weight by nearkin", title="Weights of Robust-kNN on Wine")
axes.legend(frameon=False)
plt.show()
