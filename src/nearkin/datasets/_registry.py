"""All entries by name, those of the paper first and in its order."""

from __future__ import annotations

from nearkin.datasets._crowd import CIFAR10N, MUSIC_GENRES
from nearkin.datasets._images import COIL20, COVID_MOBILENETV2, COVID_RESNET18, YALE
from nearkin.datasets._info import DatasetInfo
from nearkin.datasets._tables import AUSTRALIAN, GERMAN, IONOSPHERE, LETTERS, WDBC, WINE

__all__ = ["REGISTRY"]

REGISTRY: dict[str, DatasetInfo] = {
    entry.name: entry
    for entry in (
        WINE,
        LETTERS,
        YALE,
        IONOSPHERE,
        WDBC,
        AUSTRALIAN,
        GERMAN,
        COVID_RESNET18,
        COVID_MOBILENETV2,
        CIFAR10N,
        MUSIC_GENRES,
        COIL20,
    )
}
