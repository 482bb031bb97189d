"""Worlds with known truth: queries, items, and logs of clicks of which a share is accidental.

Five worlds. *topics* is made of numbers: 50 topics, 3,000 items, and queries of which a third of the directions are
turned among themselves. The others are made of the docstrings in the source files of installed packages: *docstrings*
renames half of the words of its queries, *short* drops the vowels of long words, and *parameters* asks with
descriptions of parameters for the function that has them. In *nearest* the five items nearest to what a query means are
right, and no others: there a map can lose much. Elsewhere an item is right for a query if it is of the same topic (for
texts: the same part of a package). With ``gap=0`` queries and items are written alike, and there is little to gain.

    python -m benchmarks search-worlds [--worlds topics,short] [--seeds 3] [--clicks 10000] [--out FILE.json]
    python -m benchmarks search-worlds --safety 200 [--out FILE.json]

The first prints nDCG@10 over the whole index on test queries, by the truth: of the identity, ridge regression, a plain
in-batch softmax (temperature .07, batches of 128, Adam .003, 8 passes) and OASIS, of nearkin's map before its check,
and of what `adapt` puts into use. All learn from the same clicks, those of queries that `adapt` does not hold out; one
rival has those as well. The second draws worlds and logs of all kinds and asks how often, and how much, an adopted map
is below the identity.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import json
import re
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.linalg import expm
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import describe
from nearkin.errors import InputError
from nearkin.search import Feedback, SimilarityAdapter, adapt

PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "networkx", "matplotlib", "sympy")
WORLDS = ("topics", "docstrings", "short", "parameters")
#: Results of a list, and the power of the position by which attention falls.
SHOWN, FALL = 10, 0.7


@dataclass(frozen=True)
class World:
    """Unit vectors with their topics; the first ``n_clicked`` queries may be clicked, the others test."""

    name: str
    queries: np.ndarray
    items: np.ndarray
    query_topic: np.ndarray
    item_topic: np.ndarray
    n_clicked: int
    second: np.ndarray  # queries as a second retriever sees them
    right: np.ndarray | None = None  # which items are right, if that is not a matter of topics

    def relevant(self, query, item):
        return self.query_topic[query] == self.item_topic[item] if self.right is None else self.right[query, item]

    def count_right(self, query):
        sizes = np.bincount(self.item_topic, minlength=self.query_topic.max() + 1)
        return sizes[self.query_topic[query]] if self.right is None else self.right[query].sum(axis=1)

    def ndcg(self, mapped, k=10):
        """nDCG@k of the test queries over the whole index, by the truth."""
        tested = np.arange(self.n_clicked, len(self.queries))
        found = np.empty(len(tested))
        discount = 1.0 / np.log2(2.0 + np.arange(k))
        for start in range(0, len(tested), 256):
            part = tested[start : start + 256]
            scores = mapped[part] @ self.items.T
            top = np.argpartition(-scores, k, axis=1)[:, :k]
            top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1), 1)
            hits = self.relevant(part[:, None], top) @ discount
            found[start : start + 256] = hits / np.cumsum(discount)[np.minimum(self.count_right(part), k) - 1]
        return found


@dataclass(frozen=True)
class Clicks:
    """A log: lists of shown items (rows of ten, top first), the place of the one click, and whether it is wrong."""

    query: np.ndarray
    shown: np.ndarray
    place: np.ndarray
    wrong: np.ndarray

    @property
    def clicked(self):
        return self.shown[np.arange(len(self.query)), self.place]


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def make(name, seed, gap=1.0, n_items=None):
    """Return a world."""
    if name == "nearest":
        return _nearest(seed, gap, n_items or 3000)
    return _topics(seed, gap, n_items or 3000) if name == "topics" else _texts(name, seed, gap, n_items or 5000)


def draw(world, n, wrong, seed, log="mix", popularity=0.5):
    """Draw impressions with one click each, of which a share is wrong.

    A right click falls on a right item of the list, by attention. A wrong one falls anywhere among texts, which is an
    accident, and on wrong items only in *topics*, which is worse: there a wrong item may be clicked more often.

    ``prod`` shows the ten best of the index; ``mix`` five of them and five of a second retriever, in random order.
    Queries come as often as ``1 / rank ** popularity``.
    """
    rng = np.random.default_rng([seed, 1])
    asked = rng.permutation(world.n_clicked)
    odds = (1.0 + np.arange(len(asked))) ** -popularity
    first, second = (_best(one[: world.n_clicked], world.items) for one in (world.queries, world.second))
    found = []
    while sum(len(one[0]) for one in found) < n:
        query = asked[rng.choice(len(asked), size=2 * n, p=odds / odds.sum())]
        shown = first[query]
        if log == "mix":
            shown = _mixed(first[query], second[query], rng)
        seen = (1.0 + np.arange(SHOWN)) ** -FALL
        right = world.relevant(query[:, None], shown)
        accident = rng.random(len(query)) < wrong
        weight = np.where(accident[:, None], ~right if world.name == "topics" else True, right) * seen
        kept = weight.any(axis=1)
        query, shown, weight = query[kept], shown[kept], weight[kept]
        place = (np.cumsum(weight, axis=1) < (rng.random(len(query)) * weight.sum(axis=1))[:, None]).sum(axis=1)
        found.append((query, shown, place))
    query, shown, place = (np.concatenate(parts)[:n] for parts in zip(*found, strict=True))
    is_wrong = ~world.relevant(query, shown[np.arange(n), place])
    return Clicks(query, shown, place, is_wrong)


def _best(queries, items):
    return np.argsort(-(queries @ items.T), axis=1, kind="stable")[:, :SHOWN]


def _mixed(first, second, rng):
    """Five of one list, then five others of the second, shuffled."""
    both = np.concatenate([first[:, : SHOWN // 2], second], axis=1)
    new = np.ones(both.shape, dtype=bool)
    new[:, SHOWN // 2 :] = ~(second[:, :, None] == first[:, None, : SHOWN // 2]).any(axis=2)
    kept = np.take_along_axis(both, np.argsort(~new, axis=1, kind="stable"), 1)[:, :SHOWN]
    return rng.permuted(kept, axis=1)


def _topics(seed, gap, n_items, d=48, n_topics=50, n_queries=2000, n_test=1000):
    rng = np.random.default_rng([seed, 0])
    topics = unit(rng.normal(size=(n_topics, d)))
    of_item, of_query = rng.integers(0, n_topics, n_items), rng.integers(0, n_topics, n_queries + n_test)
    items = unit(topics[of_item] + 0.2 * rng.normal(size=(n_items, d)))
    clean = topics[of_query] + 0.16 * rng.normal(size=(len(of_query), d))
    turn, third = np.eye(d), d // 3
    tilt = rng.normal(size=(third, third))
    turn[:third, :third] = expm(0.2 * gap * (tilt - tilt.T))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    queries = unit(clean @ basis @ turn @ basis.T)
    second = unit(clean + 0.15 * rng.normal(size=clean.shape))
    as32 = (one.astype(np.float32) for one in (queries, items))
    return World("topics", *as32, of_query, of_item, n_queries, second.astype(np.float32))


def _nearest(seed, gap, n_items, d=48, n_right=5, n_queries=2000, n_test=1000):
    """Right are the five items nearest to what a query means; without a gap the index is perfect."""
    rng = np.random.default_rng([seed, 0])
    fall = (1.0 + np.arange(d)) ** -float(rng.choice((0.0, 0.5)))
    items = unit(rng.normal(size=(n_items, d)) * fall)
    meant = items[rng.integers(0, n_items, n_queries + n_test)] + 0.03 * rng.normal(size=(n_queries + n_test, d))
    scores = unit(meant) @ items.T
    right = scores >= np.sort(scores, axis=1)[:, -n_right][:, None]
    tilt = rng.normal(size=(d // 3, d // 3))
    turn, basis = np.eye(d), np.linalg.qr(rng.normal(size=(d, d)))[0]
    turn[: d // 3, : d // 3] = expm(0.2 * gap * (tilt - tilt.T))
    queries, second = unit(meant @ basis @ turn @ basis.T), unit(meant + 0.1 * rng.normal(size=meant.shape))
    none = np.zeros(len(queries), dtype=int), np.zeros(n_items, dtype=int)
    as32 = (one.astype(np.float32) for one in (queries, items))
    return World("nearest", *as32, *none, n_queries, second.astype(np.float32), right)


# ---------------------------------------------------------------------- texts


@functools.cache
def _docstrings():
    """Docstrings of functions and classes with their part of a package; nothing is imported."""
    found = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None:
            continue
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if any("test" in one for one in parts) or len(parts) < 3:
                continue
            try:
                tree = ast.parse(path.read_text(encoding="utf8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    text = ast.get_docstring(node) or ""
                    if len(text) > 200:
                        found.setdefault(text, ".".join(parts[:2]))
    return found


def _words(text):
    return re.findall(r"[a-z]{3,}", text.lower())


@functools.cache
def _corpus(kind):
    """Texts of items and queries with their topics: 65 parts of packages, at most 160 docstrings of each."""
    by_topic = {}
    for text, topic in _docstrings().items():
        by_topic.setdefault(topic, []).append(text)
    large = sorted(by_topic, key=lambda one: (-len(by_topic[one]), one))[:65]
    items, queries = [], []
    for topic in large:
        texts = sorted(by_topic[topic], key=lambda one: zlib.crc32(one.encode()))[:160]
        for at, text in enumerate(texts):
            head, _, rest = text.partition("Parameters\n")
            if kind == "parameters":
                items.append((" ".join(_words(head)[:60]), topic))
                described = re.findall(r"\n?\w[^\n]* : [^\n]*\n((?:    [^\n]+\n)+)", rest)
                queries += [(" ".join(_words(one)[:25]), topic) for one in described[:2] if len(_words(one)) > 8]
            elif at % 8 < 5:
                items.append((" ".join(_words(text)[:120]), topic))
            else:
                queries.append((" ".join(_words(text)[4:30]), topic))
    return items, queries


def _rewritten(kind, words, renamed):
    if kind == "docstrings":
        return [renamed.get(one, one) for one in words]
    if kind == "short":
        return [one[0] + re.sub("[aeiou]", "", one[1:]) if len(one) > 4 else one for one in words]
    return words


def _texts(kind, seed, gap, n_items, d=128, n_queries=2000, n_test=1000):
    rng = np.random.default_rng([seed, 0])
    items, queries = _corpus(kind)
    items = [items[at] for at in rng.permutation(len(items))[:n_items]]
    queries = [queries[at] for at in rng.permutation(len(queries))[: n_queries + n_test]]
    n_queries = min(n_queries, 2 * len(queries) // 3)
    names = sorted({topic for _, topic in items})
    item_topic = np.array([names.index(topic) for _, topic in items])
    kept = [one for one in queries if one[1] in names]
    query_topic = np.array([names.index(topic) for _, topic in kept])
    vocabulary = sorted({word for text, _ in items for word in text.split()})
    some = rng.permutation(len(vocabulary))[: int(0.5 * gap * len(vocabulary))]
    renamed = {vocabulary[a]: vocabulary[b] for a, b in zip(some, np.roll(some, 1), strict=True)}
    kind_of = {"analyzer": "char_wb", "ngram_range": (3, 3)} if kind == "short" else {}
    tfidf = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.3, **kind_of)
    svd = TruncatedSVD(d, n_iter=3, random_state=0)
    X = unit(svd.fit_transform(tfidf.fit_transform([text for text, _ in items])))
    plain = [text for text, _ in kept]
    clean = unit(svd.transform(tfidf.transform(plain)))
    if gap and kind != "parameters":
        written = [" ".join(_rewritten(kind, text.split(), renamed)) for text in plain]
        asked = unit(svd.transform(tfidf.transform(written)))
    else:
        asked = clean
    second = unit(clean + 0.5 * unit(rng.normal(size=clean.shape)))
    if kind == "parameters":  # a retriever that reads the documentation around the parameter
        centre = unit(np.stack([X[item_topic == one].mean(axis=0) for one in range(len(names))]))
        second = unit(clean + 0.5 * centre[query_topic] + 0.5 * unit(rng.normal(size=clean.shape)))
    as32 = (one.astype(np.float32) for one in (asked, X))
    return World(kind, *as32, query_topic, item_topic, n_queries, second.astype(np.float32))


# ---------------------------------------------------------------------- rivals and results


def as_feedback(world, clicks):
    n, k = clicks.shown.shape
    clicked = (np.arange(k) == clicks.place[:, None]).ravel()
    return Feedback.from_impressions(
        np.repeat(np.arange(n), k), np.repeat(clicks.query, k), clicks.shown.ravel(), clicked,
        query_ids=len(world.queries), item_ids=len(world.items),
    )  # fmt: skip


def plain_softmax(queries, items, query, item, seed, passes=8, step=0.003, temperature=0.07, batch=128):
    """Return the map that anybody would write first."""
    rng, d = np.random.default_rng([seed, 2]), items.shape[1]
    M, first, second, t = np.eye(d, dtype=np.float32), np.zeros((d, d)), np.zeros((d, d)), 0
    for _ in range(passes):
        order = rng.permutation(len(query))
        for begin in range(0, len(order), batch):
            at = order[begin : begin + batch]
            x, y = queries[query[at]], items[item[at]]
            z = x @ M.T @ y.T / temperature
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(at)), np.arange(len(at))] -= 1
            gradient = (p @ y).T @ x / (len(at) * temperature)
            t += 1
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            M -= (step * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)).astype(np.float32)
    return M


def ridge(queries, items, query, item, share=0.1):
    """Return the map from queries to clicked items, shrunken to the identity."""
    x, y, d = queries[query].astype(float), items[item].astype(float), items.shape[1]
    square = x.T @ x + share * len(x) / d * np.eye(d)
    return (np.eye(d) + np.linalg.solve(square, x.T @ (y - x)).T).astype(np.float32)


def oasis(queries, items, feedback, seed):
    triplets = feedback.triplets(np.random.default_rng(seed))
    adapter = SimilarityAdapter(loss="hinge").fit(
        *(x[i] for x, i in zip((queries, items, items), triplets, strict=True))
    )
    return adapter.set_strength(1.0).map_queries(queries)


METHODS = ("identity", "ridge", "softmax", "softmax, all clicks", "OASIS", "nearkin's map", "adopted")


def measure(world, clicks, seed, rivals=True, days=1):
    """Return nDCG@10 on test queries by method, and what the check said on the last day."""
    feedback, adapter = as_feedback(world, clicks), SimilarityAdapter()
    for day in range(days):
        part = feedback if days == 1 else feedback.select(np.arange(len(feedback)) * days // len(feedback) == day)
        result = adapt(world.queries, world.items, part, adapter=adapter, random_state=seed)
        adapter = result.adapter
    feedback = feedback if days == 1 else part
    if days > 1:
        clicks = Clicks(*(one[-len(part) :] for one in (clicks.query, clicks.shown, clicks.place, clicks.wrong)))
    learned = adapter.held_out_.learns(world.queries)
    kept = learned[clicks.query]
    found = {"identity": world.queries, "adopted": adapter.map_queries(world.queries)}
    if rivals:
        args = world.queries, world.items, clicks.query[kept], clicks.clicked[kept]
        found["ridge"] = world.queries @ ridge(*args).T
        found["softmax"] = world.queries @ plain_softmax(*args, seed).T
        found["softmax, all clicks"] = world.queries @ plain_softmax(*args[:2], clicks.query, clicks.clicked, seed).T
        found["OASIS"] = oasis(world.queries, world.items, feedback.select(kept), seed)
        found["nearkin's map"] = world.queries + (world.queries - adapter.query_mean_) @ adapter.softmax_.T
    maps = [(adapter.softmax_, 1.0), (adapter.ridge_, 0.3), (adapter.ridge_, 1.0)]
    moved = (world.queries + share * ((world.queries - adapter.query_mean_) @ one.T) for one, share in maps)
    best = max(float(world.ndcg(one).mean()) for one in moved)
    cells = {name: float(world.ndcg(found[name]).mean()) for name in METHODS if name in found}
    used = ~np.isnan(result.plausibility)
    wrong = np.zeros(clicks.shown.shape, dtype=bool)
    wrong[np.arange(len(wrong)), clicks.place] = clicks.wrong
    wrong = wrong.ravel()[used]
    both = 0 < wrong.sum() < len(wrong)
    return cells | {
        "best": best,
        "auc": float(roc_auc_score(~wrong, result.plausibility[used])) if both else None,
        "kept_identity": result.kept_identity,
        "strength": adapter.strength_,
        "learner": result.learner,
        "metric": result.metric,
        "gain": [result.gain[result.metric].mean, result.gain[result.metric].low, result.gain[result.metric].high],
    }


def cells_of(worlds, seeds, n_clicks, wrongs):
    """Yield a row for every world, log and share of wrong clicks, over all seeds."""
    for name in worlds:
        for gap in (1.0, 0.0):
            if name == "parameters" and not gap:
                continue
            made = {seed: make(name, seed, gap) for seed in seeds}
            for log in ("mix", "prod"):
                for wrong in wrongs if gap else (0.0, 0.4):
                    drawn = [measure(one, draw(one, n_clicks, wrong, seed, log), seed) for seed, one in made.items()]
                    yield {"world": name, "gap": gap, "log": log, "wrong": wrong, "seeds": drawn}


def summary(row):
    cells = [f"{row['world']}, {row['log']}, {100 * row['wrong']:.0f} %" + ("" if row["gap"] else ", no gap")]
    for name in METHODS:
        values = 100 * np.array([one[name] for one in row["seeds"]])
        cells.append(f"{values.mean():.1f} ± {values.std():.1f}")
    auc = [one["auc"] for one in row["seeds"] if one["auc"] is not None]
    return [*cells, f"{np.mean(auc):.2f}" if auc else ""]


def safety(n, first):
    """Yield what `adapt` did in worlds of all kinds; those without a gap have little or nothing to gain."""
    rng = np.random.default_rng(first)
    texts = {(kind, gap): make(kind, first, gap, 3000) for kind in ("docstrings", "short") for gap in (0.0, 1.0)}
    for seed in range(first, first + n):
        gap = float(rng.choice((0.0, 0.0, 0.5, 1.0)))
        wrong, log = float(rng.choice((0.0, 0.2, 0.4, 0.6))), str(rng.choice(("mix", "prod")))
        n_clicks = int(rng.choice((300, 1000, 3000, 10_000, 10_000, 30_000), p=(0.15, 0.15, 0.2, 0.2, 0.2, 0.1)))
        days = 3 if n_clicks > 1000 and rng.random() < 0.25 else 1
        kind = ("topics", "nearest", "topics", str(rng.choice(("docstrings", "short"))))[seed % 4]
        world = texts[kind, float(gap > 0)] if (kind, float(gap > 0)) in texts else make(kind, seed, gap, n_items=1500)
        given = {"world": kind, "gap": gap, "wrong": wrong, "log": log, "clicks": n_clicks, "days": days, "seed": seed}
        try:
            yield given | measure(world, draw(world, n_clicks, wrong, seed, log), seed, rivals=False, days=days)
        except InputError as error:  # too few queries to hold out some
            yield given | {"error": str(error)}


def print_safety(rows):
    """Say how often maps were adopted and did harm, and how much of what maps can gain was taken."""
    rows = [one for one in rows if "error" not in one]

    def line(title, some):
        if not some:
            return
        change = 100 * np.array([one["adopted"] - one["identity"] for one in some])
        most = 100 * np.array([max(0.0, one["best"] - one["identity"]) for one in some])
        taken = f"{100 * change.sum() / most.sum():.0f} %" if most.sum() > 0 else ""
        cells = len(some), (change != 0).sum(), (change < 0).sum(), f"{change.min():+.1f}", f"{most.mean():.1f}", taken
        print(f"| {title} |", " | ".join(str(one) for one in cells), "|")

    print("| worlds | number | adopted | below the identity | worst | best map gains | taken |\n" + "|---" * 7 + "|")
    line("all", rows)
    for kind in ("topics", "docstrings", "short", "nearest"):
        line(kind, [one for one in rows if one["world"] == kind])
    for log in ("mix", "prod"):
        line(log, [one for one in rows if one["log"] == log])
    line("no gap", [one for one in rows if not one["gap"]])
    line("several days", [one for one in rows if one["days"] > 1])
    for n_clicks in sorted({one["clicks"] for one in rows}):
        line(f"a gap, {n_clicks:,} clicks", [one for one in rows if one["clicks"] == n_clicks and one["gap"]])
    for wrong in sorted({one["wrong"] for one in rows}):
        title = f"a gap, 10,000 clicks, {100 * wrong:.0f} % wrong"
        line(title, [one for one in rows if one["clicks"] == 10_000 and one["gap"] and one["wrong"] == wrong])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clicks", type=int, default=10_000)
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.0, 0.2, 0.4, 0.6])
    parser.add_argument("--safety", type=int, default=0, metavar="N", help="draw N worlds and look for harm")
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    begun, rows = time.perf_counter(), []
    with threadpool_limits(1):
        if given.safety:
            for row in safety(given.safety, given.first):
                rows.append(row)
                print(json.dumps(row), flush=True)
            print_safety(rows)
        else:
            print("| world, log, wrong clicks |", " | ".join(METHODS), "| AUC of plausibility |")
            print("|---" * (len(METHODS) + 2) + "|")
            for row in cells_of(
                given.worlds.split(","), range(given.first, given.first + given.seeds), given.clicks, given.wrong
            ):
                rows.append(row)
                print("|", " | ".join(summary(row)), "|", flush=True)
    if given.out:
        given.out.write_text(
            json.dumps({"rows": rows, "machine": describe(), "seconds": time.perf_counter() - begun}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
