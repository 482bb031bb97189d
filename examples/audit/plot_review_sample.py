"""
How many labels are wrong, proven by a sample
=============================================

The audit estimates the share of wrong labels from the data, and that rests on an assumption about
how labels get wrong. If you check a few random rows by hand, the interval needs no assumption at
all, and it holds after every answer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import nearkin
from nearkin.noise import flip_near_boundary

# %%
# The hardest kind of noise: labels are wrong where classes meet, and towards the class that is
# near. The features mislead the audit as they misled whoever labelled the rows.

X, y = load_digits(return_X_y=True)
given, is_wrong = flip_near_boundary(X, y, 0.2, random_state=0)
audit = nearkin.audit_labels(X, given, random_state=0)
low, high = audit.noise_interval
print(f"true share {is_wrong.mean():.1%}; from the data alone {audit.noise_rate:.1%} ({low:.1%} to {high:.1%})")

# %%
# ``review_sample`` says which rows to check, in which order. The answers here come from the
# truth; yours come from looking at the rows. The page that ``audit.to_html`` writes has a button
# for this, with the same formulas.

sample = audit.review_sample(200)
answers, n, middle, ends = {}, [], [], []
for row in sample.to_review:
    answers[int(row)] = bool(given[row] == y[row])  # True: the label is right
    if len(answers) % 10 == 0:
        checked = audit.verified(answers, sample)
        n.append(len(answers))
        middle.append(checked.noise_rate)
        ends.append(checked.noise_interval)
print(checked)

# %%
# The interval shrinks with every answer, and you may stop at any of them: it holds at all of them
# at once.

low, high = 100 * np.array(ends).T
figure, axis = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
axis.fill_between(n, low, high, color="#0072B2", alpha=0.25, label="95 % interval")
axis.plot(n, 100 * np.array(middle), color="#0072B2", label="estimate")
axis.axhline(100 * is_wrong.mean(), color="#D55E00", ls="--", label="true share")
axis.set(xlabel="rows checked by hand", ylabel="labels that are wrong, %", xlim=(10, 200), ylim=(0, 60))
axis.legend()
plt.show()

# %%
# The same answers bound how many wrong labels stand at the top of the ranking, and so how far
# down to go.

for one in checked.precision[:: len(checked.precision) // 6]:
    print(f"of the first {one.depth:4d} rows {one.low:.0%} to {one.high:.0%} are wrong")
