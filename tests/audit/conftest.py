"""Pages are drawn with few steps of the layout, which only makes them less pretty."""

import pytest

from nearkin.audit import _layout


@pytest.fixture(scope="session", autouse=True)
def _hasty_layout():
    patch = pytest.MonkeyPatch()
    patch.setattr(_layout, "_STEPS", 10)
    yield
    patch.undo()
