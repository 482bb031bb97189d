"""
A table of texts, categories, dates and gaps
============================================

Tables hold more than numbers. ``audit_labels`` takes a frame as it comes and says what became of
every column.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import nearkin

# %%
# Tickets of a help desk, each given to a team. The texts, the product and the time say which;
# some amounts are missing.

rng = np.random.default_rng(0)
WORDS = {
    "billing": ["invoice charged twice", "refund my payment", "wrong amount on the bill", "card was declined"],
    "delivery": ["parcel never arrived", "package is late again", "wrong address on the box", "courier left no note"],
    "technical": ["app crashes on start", "cannot log in any more", "screen stays black", "error after the update"],
}
COMMON = ["please help", "this is urgent", "second time I write", "thanks in advance", "since last week", "hello team"]
team = rng.choice(list(WORDS), 600, p=[0.3, 0.4, 0.3])
frame = pd.DataFrame({
    "ticket": [f"T{number:05d}" for number in range(600)],
    "text": [f"{rng.choice(WORDS[one])} {rng.choice(COMMON)} {rng.choice(COMMON)}" for one in team],
    "product": [rng.choice(["app", "card", "shop"], p=[0.7, 0.1, 0.2] if one == "technical" else [0.2, 0.3, 0.5])
                for one in team],
    "amount": np.where(rng.random(600) < 0.2, np.nan, rng.gamma(2, 20 + 30 * (team == "billing"))),
    "opened": pd.Timestamp("2025-03-01") + pd.to_timedelta(rng.integers(0, 90 * 24, 600), unit="h"),
})  # fmt: skip
frame["team"], is_wrong = nearkin.flip_labels(team, 0.12, random_state=0)
print(frame.head(4).to_string())

# %%
# One call. No column needs to be prepared, and none is guessed at in silence.

audit = nearkin.audit_labels(frame, "team", random_state=0)
print(*audit.columns, sep="\n")
print()
print(audit)
print(f"suspects that are wrong: {is_wrong[audit.is_suspect].mean():.0%}, "
      f"wrong labels among the suspects: {audit.is_suspect[is_wrong].mean():.0%}")  # fmt: skip

# %%
# The suspects with their texts, and which team is mistaken for which.

table = frame.loc[audit.order[:6], ["text", "team"]].assign(suggested=audit.suggested_label[audit.order[:6]])
print(table.to_string(max_colwidth=60))

matrix = audit.noise_matrix
np.fill_diagonal(matrix := matrix.astype(float), np.nan)
figure, axis = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
drawn = axis.imshow(matrix, cmap="Oranges", vmin=0)
for (i, j), count in np.ndenumerate(matrix):
    if np.isfinite(count):
        axis.text(j, i, f"{count:.0f}", ha="center", va="center")
axis.set(
    xticks=range(3), yticks=range(3), xticklabels=audit.classes, yticklabels=audit.classes,
    xlabel="suggested", ylabel="given", title="labels in doubt",
)  # fmt: skip
plt.show()

# %%
# ``nearkin.TableEncoder`` is the same as a transformer of scikit-learn, for other models.

encoder = nearkin.TableEncoder(drop=["ticket"])
numbers = encoder.fit_transform(frame.drop(columns="team"))
print(numbers.shape, list(encoder.get_feature_names_out()[-6:]))
