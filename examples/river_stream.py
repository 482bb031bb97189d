"""Rows as dicts, one by one, among the methods of river.

Phishing pages come as a stream; every row is predicted, then learned. A fifth of the labels that are learned are wrong,
those that count are right. New keys get columns as they come. Needs river: pip install 'nearkin[river]'.
"""

import random

from river import datasets, metrics, neighbors

import nearkin
from nearkin.river import Classifier, Transformer

N = 600


def measure(model):
    """Accuracy of predicting each row before it is learned, with a wrong label in five."""
    draw, accuracy = random.Random(0), metrics.Accuracy()
    for x, y in datasets.Phishing().take(N):
        accuracy.update(y, model.predict_one(x))
        model.learn_one(x, (not y) if draw.random() < 0.2 else y)
    return 100 * accuracy.get()


light = nearkin.RobustKNeighborsClassifier(n_neighbors=15, random_state=0)
print(f"nearest neighbours of river:            {measure(neighbors.KNNClassifier()):.1f} %")
print(f"the same in a space that is learned:    {measure(Transformer(seed=0) | neighbors.KNNClassifier()):.1f} %")
print(f"nearkin.river.Classifier, 15 neighbours: {measure(Classifier(light, seed=0)):.1f} %")
