"""A query map inside a model of sentence-transformers: documents are encoded as before, queries pass one more module.

A `SimilarityAdapter` that has learned from clicks is a matrix and an offset, so it fits into a `Dense` module. `Router`
sends queries through it and documents around it; the model is saved and served like any other, without nearkin. The
encoder here is a stub, so that nothing is downloaded: words have random directions, and users call things by other
names than the documents do. In your case it is the model whose vectors are in your index. Works with
sentence-transformers 6 where that is installed; otherwise a stand-in with the same methods takes its place.
"""

import numpy as np

from nearkin.search import SimilarityAdapter

THINGS = ["engine", "brake", "wheel", "window", "mirror", "seat", "belt", "light", "horn", "battery", "pump", "filter"]
SLANG = {one: one[::-1] for one in THINGS}  # what users call them
WORK = ["replace", "clean", "check", "repair", "order", "paint", "test", "mount"]
documents = [f"{work} {thing}" for thing in THINGS for work in WORK]
queries = [f"{work} {SLANG[thing]}" for thing in THINGS for work in WORK]

rng = np.random.default_rng(0)
words = sorted({*WORK, *THINGS, *SLANG.values()})
directions = rng.normal(size=(len(words), 64)).astype(np.float32)

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Router, StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torch import from_numpy, nn
except ImportError:

    class Model:
        """What this program asks of a model of sentence-transformers."""

        def __init__(self, adapter=None):
            self.adapter = adapter

        def encode_document(self, texts):
            sums = np.array([sum(directions[words.index(word)] for word in one.split()) for one in texts])
            return sums / np.linalg.norm(sums, axis=1, keepdims=True)

        def encode_query(self, texts):
            found = self.encode_document(texts)
            return found if self.adapter is None else self.adapter.map_queries(found)

    made_of = "a stand-in"
else:

    def Model(adapter=None):
        """The encoder, and after it the adapter, for queries alone."""
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        encoder = [StaticEmbedding(tokenizer, embedding_weights=directions), Normalize()]
        if adapter is None:
            return SentenceTransformer(modules=encoder, device="cpu")
        matrix, offset = (from_numpy(one.astype(np.float32)) for one in (adapter.query_map_, adapter.query_offset_))
        dense = Dense(64, 64, activation_function=nn.Identity(), init_weight=matrix, init_bias=offset)
        return SentenceTransformer(modules=[Router.for_query_document([*encoder, dense], encoder)], device="cpu")

    made_of = "sentence-transformers"


# Clicks on half of the documents; one click in five is an accident.
plain = Model()
known, held_out = np.split(rng.permutation(len(documents)), 2)
clicked, skipped = rng.choice(known, size=3000), rng.integers(0, len(documents), size=3000)
is_wrong = rng.random(3000) < 0.2
items, asked = plain.encode_document(documents), plain.encode_query(queries)
adapter = SimilarityAdapter().fit(
    asked[clicked], items[np.where(is_wrong, skipped, clicked)], items[np.where(is_wrong, clicked, skipped)]
)


def hits(model):
    """Share of new queries whose document is among the first three."""
    scores = model.encode_query([queries[i] for i in held_out]) @ model.encode_document(documents).T
    best = np.argsort(-scores, axis=1)[:, :3]
    return 100 * np.mean([i in row for i, row in zip(held_out, best, strict=True)])


adapted = Model(adapter)
assert np.allclose(adapted.encode_document(documents), items, atol=1e-5)  # the index stays as it is
assert np.allclose(adapted.encode_query(queries), adapter.map_queries(asked), atol=1e-5)
print(f"made of {made_of}")
print(f"as it is:          {hits(plain):.0f} % of new queries find their document in three")
print(f"with a query map:  {hits(adapted):.0f} %")
