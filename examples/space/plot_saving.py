"""
Saving and loading
==================

A model goes into one file: arrays and JSON, never pickle, so that opening a file runs no code. A
file is replaced only when the new one is complete, and a damaged one is refused.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import nearkin

X, y = load_wine(return_X_y=True)
models = {
    "RobustLODML": nearkin.RobustLODML(random_state=0).fit(X, y),
    "RobustODML": nearkin.RobustODML(random_state=0).fit(X, y),
    "RobustKNeighborsClassifier": nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y),
}

folder = tempfile.TemporaryDirectory()
sizes = {}
for name, model in models.items():
    path = Path(folder.name) / f"{name}.nearkin"
    nearkin.save(model, path)
    sizes[name] = path.stat().st_size / 1000
    again = nearkin.load(path)
    if hasattr(model, "predict"):
        same = np.array_equal(again.predict_proba(X), model.predict_proba(X))
    else:
        same = np.array_equal(again.transform(X), model.transform(X))
    print(f"{name:27s} {sizes[name]:6.1f} kB, the same to the bit: {same}")

# %%
# A learner that was saved in the middle of a stream goes on as if nothing had happened.

half = len(X) // 2
order = np.random.default_rng(0).permutation(len(X))
learner = nearkin.RobustLODML(random_state=0).partial_fit(X[order[:half]], y[order[:half]])
nearkin.save(learner, path)
for one in (learner, resumed := nearkin.load(path)):
    one.partial_fit(X[order[half:]], y[order[half:]])
print("resumed and uninterrupted are equal:", np.array_equal(resumed.components_, learner.components_))

# %%
# One bit of the file is wrong:

content = bytearray(path.read_bytes())
content[len(content) // 2] ^= 1
path.write_bytes(content)
try:
    nearkin.load(path)
except ValueError as error:
    print("refused:", str(error).replace(folder.name, "..."))
folder.cleanup()

# %%
# What takes room: a learner keeps its matrix and a bounded sample of rows, a classifier its
# voters as well.

figure, axis = plt.subplots(figsize=(7, 2), layout="constrained")
axis.bar_label(axis.barh(list(sizes), list(sizes.values()), color="#0072B2"), fmt="%.0f kB", padding=3)
axis.set(xlabel="size of the file, kB", xlim=(0, 1.2 * max(sizes.values())))
axis.invert_yaxis()
plt.show()
