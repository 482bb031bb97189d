"""
A search adapter from clicks
============================

Queries and items come from two encoders that do not quite agree. Users click what they want,
sometimes by accident. A map for queries is learned from the clicks; the index stays as it is. And
it is used only if held-out queries show that it helps.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

from nearkin.search import Feedback, adapt, ranking_scores, ranks_of

# %%
# Two thousand items about thirty topics. Queries see the same topics through another encoder,
# partly rotated.

rng = np.random.default_rng(0)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


topics = unit(rng.normal(size=(30, 48)))
tilt = rng.normal(size=(48, 48))
rotation = expm(0.13 * (tilt - tilt.T))
item_topic, query_topic = rng.integers(0, 30, 2000), rng.integers(0, 30, 1500)
items = unit(topics[item_topic] + 0.2 * rng.normal(size=(2000, 48)))
queries = unit(topics[query_topic] @ rotation + 0.2 * rng.normal(size=(1500, 48)))

# %%
# A thousand queries were shown their first ten results. What is on topic is clicked six times in
# ten, anything else one time in twenty.

asked = np.arange(1000)
shown = np.argsort(-(queries[asked] @ items.T), axis=1)[:, :10]
on_topic = item_topic[shown] == query_topic[asked][:, None]
clicked = rng.random(shown.shape) < np.where(on_topic, 0.6, 0.05)
feedback = Feedback.from_impressions(
    np.repeat(asked, 10), np.repeat(asked, 10), shown.ravel(), clicked.ravel(),
    query_ids=len(queries), item_ids=len(items),
)  # fmt: skip
result = adapt(queries, items, feedback, random_state=0)
print(f"queries held out, lift of the first ten: {result.before['lift']} -> {result.after['lift']}")
print("the identity is kept" if result.kept_identity else "the learned map is used")

# %%
# 500 other queries, judged by the true topics of the items.

others = np.arange(1000, 1500)
at, right = np.nonzero(query_topic[others][:, None] == item_topic[None, :])
scores = {}
for title, vectors in {"as it is": queries[others], "adapted": result.adapter.map_queries(queries[others])}.items():
    scores[title] = ranking_scores(at, ranks_of(vectors, items, at, right), 10)
    print(
        f"{title:>9}: "
        + ", ".join(f"{name} {100 * scores[title][name].mean():.1f} %" for name in ("ndcg", "precision"))
    )

figure, (left, right_side) = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
bins = np.linspace(0, 1, 12)
left.hist([scores[one]["precision"] for one in scores], bins, color=["#8a8a8a", "#0072B2"], label=list(scores))
left.set(xlabel="share of the first ten on topic", ylabel="queries")
left.legend()
before, after = (100 * scores[one]["ndcg"] for one in scores)
right_side.scatter(before, after, s=10, color="#0072B2", alpha=0.5, linewidths=0)
right_side.plot([0, 100], [0, 100], color="#8a8a8a", ls=":")
right_side.set(xlabel="nDCG@10 of a query as it is", ylabel="adapted", aspect="equal")
plt.show()
