"""What it came to to learn from feedback: figures before and after, on queries that were not learned from."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

import numpy as np

from nearkin._version import __version__
from nearkin.arrays import Array
from nearkin.files import replacing
from nearkin.search.adapter import SimilarityAdapter
from nearkin.search.feedback import Feedback
from nearkin.search.ranking import METRICS, Interval

__all__ = ["TITLES", "Adaptation", "Outlook"]

#: How the measures are called.
TITLES = {
    "lift": "lift@{k}",
    "alike": "alike@{k}",
    "ndcg": "nDCG@{k}",
    "recall": "recall@{k}",
    "precision": "precision@{k}",
    "map": "MAP",
    "mrr": "MRR",
}


@dataclass(frozen=True)
class Outlook:
    """What feedback can show, known before anything is learned.

    Parameters
    ----------
    n_learned, n_chosen, n_held_out : int
        Queries to learn from, queries that will choose, and queries that will measure the gain.
    needed : dict of float to int
        Held-out queries that it takes to show a gain of so much.
    measure : str, default="nDCG@10"
        The measure whose gain is meant: the one that decides, as far as that is known before learning.

    Examples
    --------
    >>> Outlook(80, 10, 20, {0.05: 500}).missing
    {0.05: 480}
    """

    n_learned: int
    n_chosen: int
    n_held_out: int
    needed: dict[float, int]
    measure: str = "nDCG@10"

    @property
    def missing(self) -> dict[float, int]:
        """Held-out queries that are missing for each gain."""
        return {gain: max(0, n - self.n_held_out) for gain, n in self.needed.items()}


@dataclass(frozen=True)
class Adaptation:
    """A checked adapter, and what the check measured.

    Parameters
    ----------
    adapter : SimilarityAdapter
        Ready for use; it keeps the identity, or the map that it had, if no gain was shown.
    before, after : dict of str to Interval
        Means over the held-out queries with bootstrap intervals, by the names of `METRICS`, ``"lift"`` and
        ``"alike"``: of the vectors as they were, and of the learned map at its chosen strength (even if the identity
        is kept in the end).
    gain : dict of str to Interval
        Of the differences, query by query; the intervals stay valid however often `adapt` was called.
    metric, k : str, int
        The measure that decided, and the results that it looks at.
    n_learned, n_chosen, n_held_out : int
        Queries learned from, queries that chose the strength, and queries that measured the gain.
    n_triplets : int
        Triplets learned, counting every pass.
    skipped : dict of str to int
        Feedback left out, by reason.
    learner : {"softmax", "ridge", "low rank", "hinge"}
        Whose map was chosen.
    rivals : dict of str to Interval
        The deciding measure of other maps on the same queries: identity, ridge regression and plain softmax. They
        learn from the feedback of this call, nearkin's map from that of all calls.
    needed : dict of float to int
        Held-out queries that it takes to show such a gain of the deciding measure, as estimated without the map.
    plausibility : ndarray of shape (n_rows,)
        Of every row of the feedback that was used: how plausible a click is that was learned from, in (0, 1), and NaN
        for all other rows.
    feedback : Feedback or None
        The feedback that was used.
    n_looks : int
        Checks of this adapter, this one included: the day, if there is one a day.
    served_before : int or None
        Version that was in use before, if it was a checked map.
    still_served : bool
        Whether that version stays in use: the new map was not shown to gain, and the old one still gains in the mean.
    repeats : bool
        Whether held-out queries were shown nothing that earlier calls had not seen: the log was perhaps given before.
    is_smear : bool
        Whether the map was refused because clicks alone do not tell it from one that only blurs the results.

    See Also
    --------
    adapt : Makes it.

    Examples
    --------
    >>> none = {name: Interval(0.0, 0.0, 0.0) for name in METRICS}
    >>> Adaptation(SimilarityAdapter(), none, none, none, "ndcg", 10, 8, 1, 1, 100, {}).n_triplets
    100
    """

    adapter: SimilarityAdapter
    before: dict[str, Interval]
    after: dict[str, Interval]
    gain: dict[str, Interval]
    metric: str
    k: int
    n_learned: int
    n_chosen: int
    n_held_out: int
    n_triplets: int
    skipped: dict[str, int]
    learner: str = "hinge"
    rivals: dict[str, Interval] = field(default_factory=dict)
    needed: dict[float, int] = field(default_factory=dict)
    plausibility: Array = field(default_factory=lambda: np.empty(0))
    feedback: Feedback | None = None
    n_looks: int = 1
    served_before: int | None = None
    still_served: bool = False
    repeats: bool = False
    is_smear: bool = False

    @property
    def kept_identity(self) -> bool:
        """Whether the vectors stay as they were."""
        return self.adapter.kept_identity_

    @property
    def verdict(self) -> str:
        """What the check decided, in words."""
        gain, old = self.gain[self.metric], self.served_before
        why = f"{self.measure}: a gain above zero was not shown"
        if self.is_smear and gain.low > 0:
            why = (
                f"{self.measure} gains {gain}, but results that are only blurred gain as much, and clicks alone, "
                "without the lists that were shown, do not tell the two apart"
            )
        if self.still_served:
            return f"{why}. So the new map is not used, and version {old}, which gained before, is still used."
        if not self.kept_identity:
            return f"{self.measure} gains {gain}; the map is used at strength {self.adapter.strength_:g}."
        if old is not None:
            return (
                f"{why}. Version {old}, which was used until now, no longer gains either, so the adapter goes back to "
                "the identity: queries that pass through it stay as they are. A rollback to "
                f"{old} brings that version back."
            )
        return f"{why}, so the identity is kept. Queries that pass through this adapter stay as they are."

    def table(self) -> list[list[str]]:
        """Return every measure before and after, and its gain, as text; first the one that decides."""
        parts = self.before, self.after, self.gain
        names = sorted(self.before, key=lambda name: (name != self.metric, name in METRICS))
        return [[TITLES[name].format(k=self.k), *(str(part[name]) for part in parts)] for name in names]

    @property
    def footnotes(self) -> list[str]:
        """What the table's measures mean, in words, the deciding one first."""
        if self.metric in METRICS:
            return [f"{self.measure} decides; all but lift and alike count what was not shown as wrong"]
        return [
            f"{self.measure} decides",
            "lift: are results like what was clicked, rather than like the rest of what was shown?",
            "alike: are results like what was clicked?",
            "all others count only what was shown, and everything else as wrong: that favours the old ranking, so they "
            "may fall while the search improves",
        ]

    @property
    def measure(self) -> str:
        """The deciding measure in words."""
        return TITLES[self.metric].format(k=self.k)

    def rival_table(self) -> list[list[str]]:
        """Return the deciding measure of all maps as text, best last."""
        found = self.rivals | {f"nearkin ({self.learner})": self.after[self.metric]}
        return [[name, str(one)] for name, one in sorted(found.items(), key=lambda pair: pair[1].mean)]

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write all figures to a file."""
        left_out = ("adapter", "plausibility", "feedback")
        figures = {"nearkin": __version__, **{name: one for name, one in vars(self).items() if name not in left_out}}
        for name in ("before", "after", "gain", "rivals"):
            figures[name] = {key: asdict(one) for key, one in figures[name].items()}
        figures |= {"kept_identity": self.kept_identity, "strength": self.adapter.strength_, "verdict": self.verdict}
        if self.feedback is not None:
            figures |= {
                "n_lists": len(self.feedback), "n_clicks": self.feedback.n_clicks,
                "n_lists_without_click": self.feedback.n_without_click, "share_of_log": self.feedback.share,
                "first_skipped": self.feedback.first_skipped,
            }  # fmt: skip
        with replacing(path, "json") as file:
            file.write(json.dumps(figures, indent=2).encode())
