"""Pages are drawn with few steps of the layout, which only makes them less pretty."""

import pytest

from nearkin.audit import map as map_of


@pytest.fixture(scope="session", autouse=True)
def _hasty_layout():
    patch = pytest.MonkeyPatch()
    patch.setattr(map_of, "_STEPS", 250)  # the least that scikit-learn allows
    patch.setattr(map_of, "_LANDMARKS", 120)
    yield
    patch.undo()
