"""Labelled rows as learners and triplet sources see them: checked, scaled, read in dense pieces."""

from nearkin.rows.checks import LARGEST, check_finite, check_range, check_rows, explain_rows, is_plain
from nearkin.rows.late import LateColumns
from nearkin.rows.moving import Moments, MovingScale
from nearkin.rows.scaled import Rows
from nearkin.rows.scaling import Change, Scaling, without_noise

__all__ = [
    "LARGEST",
    "Change",
    "LateColumns",
    "Moments",
    "MovingScale",
    "Rows",
    "Scaling",
    "check_finite",
    "check_range",
    "check_rows",
    "explain_rows",
    "is_plain",
    "without_noise",
]
