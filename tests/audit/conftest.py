"""Pages are drawn with few steps of the layout, which only makes them less pretty."""

import pytest

from nearkin.audit.page import contents


@pytest.fixture(scope="session", autouse=True)
def _hasty_layout():
    patch = pytest.MonkeyPatch()
    patch.setattr(contents, "_TSNE_STEPS", 250)  # the least that scikit-learn allows
    patch.setattr(contents, "_LANDMARKS", 120)
    yield
    patch.undo()
