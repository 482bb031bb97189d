"""Sources of triplets ``(anchor, positive, negative)`` from labelled rows."""

from sklearn.base import clone

from nearkin.errors import InputError
from nearkin.triplets.batch import BatchTriplets, RandomTriplets
from nearkin.triplets.octg import OCTG
from nearkin.triplets.one_pass import OnePassTriplets
from nearkin.triplets.source import NoisyRoles, PlainView, Triplets, TripletSource, View

__all__ = [
    "OCTG",
    "BatchTriplets",
    "NoisyRoles",
    "OnePassTriplets",
    "PlainView",
    "RandomTriplets",
    "TripletSource",
    "Triplets",
    "View",
    "as_source",
]

_BY_NAME = {"octg": OCTG, "one_pass": OnePassTriplets, "batch": BatchTriplets, "random": RandomTriplets}


def as_source(triplets: str | TripletSource) -> TripletSource:
    """Fresh source from a name or from an instance, which is not touched.

    Parameters
    ----------
    triplets : {"octg", "one_pass", "batch", "random"} or TripletSource
        What the learners take as their ``triplets`` parameter.

    Examples
    --------
    >>> as_source("octg")
    OCTG()
    """
    if isinstance(triplets, TripletSource):
        return clone(triplets)
    if isinstance(triplets, str) and triplets in _BY_NAME:
        return _BY_NAME[triplets]()
    raise InputError(
        f"parameter `triplets` must be one of {', '.join(map(repr, _BY_NAME))} or a TripletSource; got {triplets!r}."
    )
