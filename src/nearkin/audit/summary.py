"""What an audit found in a few words, and its warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["summarise", "warn_of"]

#: Rows below which a note calls the figures uncertain, and rows of one class up to which its labels can hardly be
#: judged.
_FEW, _FEW_OF_CLASS = 50, 2

#: Share of suspects in a class from which a note points it out.
_MUCH_OF_CLASS = 0.4

#: Estimated rate above which a note says that the features tell too little about the classes.
_HOPELESS = 0.4


def summarise(audit: LabelAudit) -> list[tuple[str, str]]:
    """Names and values."""
    low, high = audit.noise_interval
    rate = f"{100 * audit.noise_rate:.1f} %"
    rate += f" ({100 * low:.1f} to {100 * high:.1f})" if audit.rate_is_estimated else " (as given)"
    pairs = [f"{_short(one)} \N{RIGHTWARDS ARROW} {_short(two)} ({n:,})" for one, two, n in audit.noise_pairs()[:3]]
    shares = [f"{_short(name)} ({100 * bad / size:.0f} %)" for name, size, bad in audit.doubt_by_class()[:3] if bad]
    voters = [
        f"{one.name} {100 * s:.0f} %"
        for one, s in zip(audit.decision.jury.voters, audit.decision.jury.shares, strict=True)
    ]
    return [
        ("rows", f"{audit.n_rows:,} with {audit.classifier.n_features_in_:,} features"),
        ("classes", f"{len(audit.classes):,}"),
        ("voters", ", ".join(voters)),
        ("wrong labels", rate),
        ("suspects", f"{audit.n_suspects:,}"),
        ("suggestions", f"{audit.n_likely_suggestions:,} more likely right than not"),
        ("confused", ", ".join(pairs) or "none"),
        ("worst classes", ", ".join(shares) or "none"),
        *(("note", one) for one in audit.notes),
    ]


def warn_of(audit: LabelAudit) -> tuple[str, ...]:
    """Sentences about data that is too small, or tells too little, for its figures."""
    found = []
    lost = [name for name, size, bad in audit.doubt_by_class() if size > _FEW_OF_CLASS and bad > _MUCH_OF_CLASS * size]
    if audit.rate_is_estimated and audit.noise_rate > _HOPELESS:
        found.append(
            "these features hardly tell the classes apart, so the share of wrong labels says more about the features "
            "than about the labels."
        )
    elif lost:
        found.append(
            f"much of {_short(lost[0])}{' and others' if len(lost) > 1 else ''} is doubted: classes overlap, or many "
            "labels strayed into a small one. Look at some suspects before you drop them all."
        )
    if audit.n_rows < _FEW:
        found.append(f"{audit.n_rows} rows are few: every figure here is uncertain, so look at each suspect yourself.")
    size = np.bincount(audit.given_code, minlength=len(audit.classes))
    small = np.flatnonzero(size <= _FEW_OF_CLASS)
    if len(small):
        names = [_short(audit.classes.tolist()[code]) for code in small[:3]]
        more = f" and {len(small) - 3:,} more" if len(small) > 3 else ""
        those = "a class has" if len(small) == 1 else f"{len(small):,} classes have"
        found.append(
            f"{those} one or two rows ({', '.join(names)}{more}): there is little to judge such labels by, and they "
            "are never suspects."
        )
    return tuple(one[0].upper() + one[1:] for one in found)


def _short(label: Any, most: int = 30) -> str:
    """A label on one line of a terminal, whatever it holds."""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(label))
    return text if len(text) <= most else text[: most - 1] + "…"
