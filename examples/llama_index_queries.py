"""A query map behind llama-index: documents and their index stay as they are, only queries are mapped.

`AdaptedEmbedding` is an embedding model of llama-index around another one. It embeds texts as before and maps queries
by a `SimilarityAdapter` that has learned from clicks. The embeddings here are a stub, so that nothing is downloaded:
words hash to directions, and users call things by other names than the documents do. Works with llama-index-core
where that is installed; otherwise a stand-in with the same methods takes its place.
"""

import hashlib
from typing import Any

import numpy as np

from nearkin.search import SimilarityAdapter

try:
    from llama_index.core.embeddings import BaseEmbedding
except ImportError:

    class BaseEmbedding:
        """What llama-index asks of an embedding model."""

        def __init__(self, **fields: Any):
            self.__dict__.update(fields)

        def get_query_embedding(self, query):
            return self._get_query_embedding(query)

        def get_text_embedding_batch(self, texts):
            return [self._get_text_embedding(one) for one in texts]


def embed(text):
    """Stub of an embedding model: the mean direction of the words."""
    seeds = [int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) for word in text.split()]
    found = sum(np.random.default_rng(seed).normal(size=64) for seed in seeds)
    return found / np.linalg.norm(found)


class AdaptedEmbedding(BaseEmbedding):
    """Texts as before; queries through the learned map."""

    adapter: Any = None

    def _get_text_embedding(self, text):
        return embed(text).tolist()

    def _get_query_embedding(self, query):
        found = embed(query)
        return (found if self.adapter is None else self.adapter.map_queries(found[None])[0]).tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


THINGS = ["engine", "brake", "wheel", "window", "mirror", "seat", "belt", "light", "horn", "battery", "pump", "filter"]
SLANG = dict(zip(THINGS, [one[::-1] for one in THINGS], strict=True))  # what users call them
WORK = ["replace", "clean", "check", "repair", "order", "paint", "test", "mount"]
documents = [f"{work} the {thing}" for thing in THINGS for work in WORK]
rng = np.random.default_rng(0)


def query_for(document):
    work, _, thing = document.split()
    return f"{work} {SLANG[thing]}"


def hits(model, some):
    """Share of queries whose document is among the first three."""
    vectors = np.array(model.get_text_embedding_batch(documents))
    asked = np.array([model.get_query_embedding(query_for(documents[i])) for i in some])
    best = np.argsort(-(asked @ vectors.T), axis=1)[:, :3]
    return 100 * np.mean([i in row for i, row in zip(some, best.tolist(), strict=True)])


# Clicks on half of the documents; one click in five is an accident.
known, held_out = np.split(rng.permutation(len(documents)), 2)
clicked = rng.choice(known, size=3000)
skipped = rng.integers(0, len(documents), size=3000)
is_wrong = rng.random(3000) < 0.2
clicked_of, skipped_of = np.where(is_wrong, skipped, clicked), np.where(is_wrong, clicked, skipped)
items = np.array([embed(one) for one in documents])
queries = np.array([embed(query_for(documents[i])) for i in clicked])
adapter = SimilarityAdapter().fit(queries, items[clicked_of], items[skipped_of])

print(f"as it is:          {hits(AdaptedEmbedding(), held_out):.0f} % of new queries find their document in three")
print(f"with a query map:  {hits(AdaptedEmbedding(adapter=adapter), held_out):.0f} %")
