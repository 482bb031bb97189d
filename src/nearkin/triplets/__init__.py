"""Sources of triplets ``(anchor, positive, negative)`` from labelled rows."""

from nearkin.triplets.batch import BatchTriplets, RandomTriplets
from nearkin.triplets.neighbours import NeighbourTriplets
from nearkin.triplets.octg import OCTG
from nearkin.triplets.one_pass import OnePassTriplets
from nearkin.triplets.source import NoisyRoles, PlainView, Triplets, TripletSource, View, as_source

__all__ = [
    "OCTG", "BatchTriplets", "NeighbourTriplets", "NoisyRoles", "OnePassTriplets", "PlainView", "RandomTriplets",
    "TripletSource", "Triplets", "View", "as_source",
]  # fmt: skip
