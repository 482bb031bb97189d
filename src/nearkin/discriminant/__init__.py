"""A start worth learning from: a map that brings the neighbours of a row's class near and sends others away.

The map is found in closed form from a bounded sample of the rows seen, in which old ones fade. Some of them are
witnesses; with the weight ``w`` of each row by its label's plausibility, for every row x of the sample

    ``near += w w' (x - x')(x - x')' / 2`` over the nearest witnesses x' of its own class,
    ``far  += w w' (x - x')(x - x')' / 2`` over the nearest witnesses of other classes,

beside the weighted count and sum of each class. `near`, shrunk towards a multiple of the identity, is whitened; then
directions in which class means differ, and in which `far` is larger than `near`, are stretched, and all others are kept
at a fraction. ``w`` is the weight that the learner's loss gives to the margin of the votes of a row's neighbours: 1 for
the hinge, falling with the votes against the label for the rescaled hinge (Eq. 17).
"""

from nearkin.discriminant.sample import Sample
from nearkin.discriminant.start import Discriminant
from nearkin.discriminant.witnesses import Witnesses

__all__ = ["Discriminant", "Sample", "Witnesses"]
