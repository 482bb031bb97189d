"""
Learn the query side only
=========================

The item index stays as it is; only queries are mapped.

A search engine holds unit-length item vectors in an inner-product index. Users click some results
and skip others; some clicks are accidents. RobustOASIS learns M from (query, clicked, skipped) so
that q' M x ranks better. Since q' M x = (M' q)' x, it is enough to map the query by `query_map_`;
no item changes or needs indexing again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

import nearkin

rng = np.random.default_rng(0)
N_TOPICS, D = 30, 48


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# Items: a topic and some noise. Queries: the same topics seen through another encoder, partly rotated.
topics = unit(rng.normal(size=(N_TOPICS, D)))
tilt = rng.normal(size=(D, D))
rotation = expm(0.12 * (tilt - tilt.T))
item_topic = rng.integers(0, N_TOPICS, 3000)
items = unit(topics[item_topic] + 0.2 * rng.normal(size=(3000, D)))


def queries_about(which):
    return unit(topics[which] @ rotation + 0.2 * rng.normal(size=(len(which), D)))


def index_search(vectors, k=10):
    """Stand-in for an inner-product index that is too costly to rebuild."""
    return np.argsort(-(vectors @ items.T), axis=1)[:, :k]


def precision(vectors, wanted):
    return 100 * (item_topic[index_search(vectors)] == wanted[:, None]).mean()


# Feedback: a query, an item of its topic that was clicked, one of another topic that was skipped. 25 % are swapped.
asked = rng.integers(0, N_TOPICS, 4000)
clicked = np.array([rng.choice(np.flatnonzero(item_topic == t)) for t in asked])
skipped = np.array([rng.choice(np.flatnonzero(item_topic != t)) for t in asked])
accident = rng.random(len(asked)) < 0.25
clicked[accident], skipped[accident] = skipped[accident], clicked[accident]
feedback = queries_about(asked)

wanted = rng.integers(0, N_TOPICS, 500)
queries = queries_about(wanted)
print(f"as it is:     {precision(queries, wanted):5.1f} % of the ten best items are on topic")
for learner in (nearkin.OASIS(scale=None), nearkin.RobustOASIS(scale=None)):
    # scale=None: the vectors already have length 1, and the index must not see them rescaled.
    learner.fit_triplets(feedback, items[clicked], items[skipped])
    mapped = queries @ learner.query_map_.T
    print(f"{type(learner).__name__ + ':':13s} {precision(mapped, wanted):5.1f} %")
low = learner.plausibility_ < np.quantile(learner.plausibility_, 0.25)
print(f"of the 25 % least plausible clicks, {100 * accident[low].mean():.0f} % were accidents")

# %%
# Plausibility of the clicks: accidents gather at the low end.

figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
axis.hist(
    [learner.plausibility_[~accident], learner.plausibility_[accident]], np.linspace(0, 1, 21), stacked=True,
    color=["#0072B2", "#D55E00"], label=["meant", "accidents"],
)  # fmt: skip
axis.set(xlabel="plausibility of a click", ylabel="clicks")
axis.legend()
plt.show()
