"""From scaled rows and labels to a jury, and from the jury to a verdict on every label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.errors import InputError
from nearkin.jury.copies import Copies, Groups, find_copies, join_groups, number_equal_rows
from nearkin.jury.forest import ForestVoter
from nearkin.jury.judged import MOST_MEMBERS, JudgedRows, choose_members, has_others
from nearkin.jury.jury import CastVotes, Jury, Votes, draw_to_equal, mix_votes, stack_votes
from nearkin.jury.learned_spaces import learn_spaces
from nearkin.jury.local_scaling import narrow, spread_rows
from nearkin.jury.neighbour_voter import NeighbourVoter, neighbours_in
from nearkin.jury.outside import OutsideVoter, cross_fit
from nearkin.jury.ridge import N_CHOOSING, N_LANDMARKS, Landmarks, LeadingDirections, RidgeVoter
from nearkin.jury.suspects import SuspectRules, call_wrong
from nearkin.jury.voters import Embedding, NeighbourhoodVoter, Voter
from nearkin.kernels import one_blas_thread
from nearkin.memory import check_memory
from nearkin.noise import NoiseModel, estimate_noise_model, judge_labels, proven_rate, rate_labels
from nearkin.noise.model import VotesOn, agree_with_tiers, max_rate
from nearkin.stored import ArrayOf, Items, Maybe, Part, Text, stored

__all__ = ["COUNTED", "JuryDecision", "assemble_jury", "check_size", "decide", "find_suspects", "note_rate"]

#: Share of the rows that the estimate of the rate counts at least; see `nearkin.noise.estimate_noise_rate`.
COUNTED = 0.1

#: Rounds of voting before the one that counts.
_ROUNDS = 2

#: Share of outvoted labels beyond the rate from which on a note says that votes do not settle the rate, and the rate
#: above which the features hardly tell the classes apart, which is another note.
_UNSETTLED = 0.08
_HOPELESS = 0.4

#: Standard errors by which votes must know labels better than guesses, rows on which that is looked at, and the share
#: of the largest believable rate from which on they do not. Then no label is called wrong.
_KNOWN = 3.0
_LOOKED_AT = 2000
_AT_MOST = 0.95
_GUESSING = (
    "the votes know the labels no better than guesses do, so none is called wrong: these features hardly tell the "
    "classes apart, or most labels are wrong. Features that say more about the classes would help."
)

#: Most votes, rows times classes, that a jury counts: about three hours.
_MOST_VOTES = 1e10

#: Most votes that are kept, to be asked again.
_KEPT = 1 << 20

#: Most votes of a voter, rows times classes, by which voters are weighed and the noise is estimated.
_MOST_WEIGHED = 1 << 25

#: Name of the voter that given probabilities are, rows on which it is compared with others, and the share of
#: contradicted labels below which nothing can be told.
GIVEN = "pred_probs"
_ASKED = 4000
_DOUBTFUL = 0.05

#: How fast nearness to landmarks falls with the distance, to choose from.
_SHARPNESS = (1.0, 3.0, 10.0, 30.0)


@stored(
    jury=Part(Jury, n="r", c="c", d="d"),
    judged=Maybe(Part(JudgedRows, n="n", r="r", d="d"), else_equal=("n", "r")),
    heard=ArrayOf("r", low=0.0, high=1.0),
    noise=Part(NoiseModel, c="c"),
    classes=ArrayOf("c", of="labels"),
    weights=Text("auto", "plausibility", "uniform"),
    plausibility=ArrayOf("n", low=0.0, high=1.0),
    score=ArrayOf("n", low=0.0, high=1.0),
    is_suspect=ArrayOf("n", of="flags"),
    is_wrong=ArrayOf("n", of="flags"),
    notes=Items(Text()),
)
class JuryDecision:
    """A jury, its noise model, and what both say about the training labels.

    Parameters
    ----------
    jury : Jury
        Voters of the training rows.
    noise : NoiseModel
        How labels go wrong.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers.
    classes : ndarray of shape (n_classes,)
        What the numbers mean.
    weights : {"auto", "plausibility", "uniform"}
        What a label counts in a vote on new rows. "auto": all count alike, since voters look at many rows, so that
        wrong labels cancel, and silencing doubtful ones costs right ones near a boundary. Otherwise wrong labels do not
        vote and others count by their plausibility, or alike.
    rate_is_given : bool
        Whether the user knows the rate.
    judged : JudgedRows or None, default=None
        All training rows, where the jury knows some of them only.

    Attributes
    ----------
    heard : ndarray of shape (n_members,)
        What the label of every row that the jury knows counted in the votes on the others.
    plausibility, score : ndarray of shape (n_samples,)
        Of the labels; see `nearkin.noise.rate_labels`.
    is_suspect : ndarray of bool of shape (n_samples,)
        Both tiers; see `SuspectRules`.
    is_wrong : ndarray of bool of shape (n_samples,)
        Suspects of the first tier, whose labels are more likely wrong than right; the others are worth a look.
    notes : tuple of str
        What a reader of the figures should know.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1], 50)
    >>> rows = 3.0 * codes[:, None] + rng.normal(size=(100, 2))
    >>> codes[0] = 1  # a wrong label
    >>> jury, noise = assemble_jury(rows, codes, 2, 0.01, random_state=0)
    >>> decision = JuryDecision(jury, noise, codes, np.array(["a", "b"]), rate_is_given=True)
    >>> np.flatnonzero(decision.is_suspect).tolist()
    [0]
    """

    # Votes on all training rows, where they are few; not stored.
    _said: Array | None = None

    def __init__(
        self, jury: Jury, noise: NoiseModel, codes: Codes, classes: NDArray[Any], weights: str = "auto", *,
        rate_is_given: bool = False, judged: JudgedRows | None = None,
    ):  # fmt: skip
        self.jury, self.noise, self.classes, self.weights, self.judged = jury, noise, classes, weights, judged
        progress.begin("judging labels")
        with one_blas_thread():
            self.heard, _ = judge_labels(jury.left_out, self._of_members(codes), noise, _ROUNDS)
            votes_on = self._votes_on()
            noise.sharpen_for(votes_on, codes)
            self.plausibility, self.score = rate_labels(votes_on, codes, noise)
        progress.begin("suggesting labels")
        self.is_suspect: Mask = find_suspects(self.plausibility, self.score, codes, noise, rate_is_given=rate_is_given)
        is_guessing = not rate_is_given and self._is_guessing(self._of_members(codes))
        self.plausibility = agree_with_tiers(self.plausibility, self.is_suspect)
        if is_guessing:
            self.plausibility = np.maximum(self.plausibility, 0.5)
        self.is_wrong: Mask = call_wrong(self.is_suspect, self.plausibility)
        outvoted = float(np.mean(self.score < SuspectRules.outvoted))
        self.notes: tuple[str, ...] = () if rate_is_given else note_rate(noise, outvoted, is_guessing=is_guessing)

    @property
    def is_guessing(self) -> bool:
        """Whether the votes know the labels no better than guesses do."""
        return _GUESSING in self.notes

    def _is_guessing(self, codes: Codes) -> bool:
        """Look whether labels get more left-out votes than the shares of the classes alone would bring them."""
        if self.noise.rate >= _AT_MOST * max_rate(len(self.classes)):
            return True
        some = spread_rows(len(codes), _LOOKED_AT)
        with one_blas_thread():
            votes = self.jury.left_out(np.ones(len(codes)))(some)
        usual = np.bincount(codes, minlength=len(self.classes)) / len(codes)
        gain = votes[np.arange(len(some)), codes[some]] - votes @ usual
        return float(gain.mean() * np.sqrt(len(some))) < _KNOWN * float(gain.std())

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Interval of the rate; both ends are the rate itself where it was given."""
        return self.noise.interval

    @property
    def kept(self) -> Index:
        """Rows whose labels are not called wrong."""
        return np.flatnonzero(~self.is_wrong)

    def check_stored(self) -> None:
        """Refuse tiers that contradict each other."""
        if (self.is_wrong & ~self.is_suspect).any():
            raise ValueError("a label is called wrong that is not a suspect")

    def _of_members(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the rows that the jury knows."""
        return values if self.judged is None else values[self.judged.members]

    def _votes_on(self) -> VotesOn:
        """Votes on all training rows, each without its own label; few are counted once and kept."""
        if self._said is not None:
            return self._said.__getitem__
        jury, heard = self.jury, self.heard
        n = len(heard) if self.judged is None else len(self.judged.rows)
        votes_on = jury.left_out(heard) if self.judged is None else self.judged.votes_on(jury, heard)
        if n * len(self.classes) > _KEPT:
            return votes_on
        self._said = votes_on(slice(None))
        return self._said.__getitem__

    @property
    def copies(self) -> Copies | None:
        """Rows that are copies of others, as far as they vote; None if there are none."""
        found = self.jury.copies
        return found if found is None or self.judged is None else found.among(self.judged.members, self.judged.others)

    @property
    def vote_weights(self) -> Array:
        """What each label that the jury knows counts in a vote on new rows."""
        if self.weights == "auto":
            return np.ones(len(self.heard))
        counts = self.plausibility if self.weights == "plausibility" else np.ones(len(self.plausibility))
        return self._of_members(np.where(self.is_wrong, 0.0, counts))

    @property
    def neighbourhoods(self) -> list[NeighbourhoodVoter]:
        """Voters that vote by neighbours, the one in the input space first."""
        return [one for one in self.jury.voters if isinstance(one, NeighbourhoodVoter)]

    @property
    def n_neighbors(self) -> int:
        """Neighbours in the input space that hold most of its votes."""
        near = self.jury.voters[0]
        return int(near.bandwidth) if isinstance(near, NeighbourVoter) else 1

    def predict_proba(self, queries: Array) -> Array:
        """Shares of the true classes of new scaled rows."""
        votes = self.jury.answers(queries, self.vote_weights)
        # Where doubtful labels count less, the votes need no correction.
        return self.noise.true_shares(votes) if self.weights == "auto" else self.noise.lift_zeros(votes)

    def kneighbors(self, queries: Array, k: int) -> tuple[Array, Index]:
        """Rows that cast most of the neighbours' votes, and their parts of the jury's vote."""
        found = self.jury.cast(queries, self.vote_weights, k)
        rows = found.rows.astype(np.int64)
        return found.total, rows if self.judged is None else self.judged.members[rows]

    def votes(self, queries: Array) -> Votes:
        """What every voter says about new scaled rows."""
        return self.jury.poll(queries, self.vote_weights, self.classes)

    def left_out_votes(self, rows: Index) -> Votes:
        """What every voter says about training rows without their labels, others counting by their plausibility."""
        if self.judged is not None:
            return self.judged.poll(self.jury, rows, self.heard, self.classes)
        return self.jury.poll_left_out(rows, self.heard, self.classes)

    def left_out_shares(self, rows: Any) -> Array:
        """Shares of the true classes of training rows, by the same votes."""
        return self.noise.lift_zeros(self._votes_on()(rows))

    def left_out_joint(self, rows: Any, codes: Codes) -> Array:
        """Probabilities of the true classes of training rows, each times that of the labels; see `NoiseModel.joint`."""
        return self.noise.joint(self.noise.sharpened(self._votes_on()(rows)), codes)

    def cast_left_out(self, rows: Index, k: int) -> CastVotes:
        """Who votes on training rows, without themselves."""
        if self.judged is not None:
            return self.judged.cast(self.jury, rows, self.heard, k)
        return self.jury.cast_left_out(rows, self.heard, k)

    def embed(self, rows: Array) -> Array:
        """Scaled rows in the learned space that votes."""
        return self.neighbourhoods[-1].map_rows(rows)


def find_suspects(
    plausibility: Array, score: Array, codes: Codes, noise: NoiseModel, *, rate_is_given: bool,
    counts: Index | None = None,
) -> Mask:  # fmt: skip
    """Find the suspects, and let the interval of the rate begin no lower than what they prove; see `SuspectRules`."""
    found = SuspectRules().apply(plausibility, score, codes, noise, rate_is_given=rate_is_given, counts=counts)
    if not rate_is_given:
        low, high = noise.interval
        proven = proven_rate(plausibility, score < SuspectRules.outvoted, codes, counts)
        noise.interval = max(low, min(proven, noise.rate)), high
    return found


def note_rate(noise: NoiseModel, outvoted: float, *, is_guessing: bool) -> tuple[str, ...]:
    """Notes on an estimated rate, where ``outvoted`` is the share of outvoted labels; guesses prove no rate."""
    if is_guessing:
        noise.interval = 0.0, noise.interval[1]
        return (_GUESSING,)
    (low, high), rate = noise.interval, noise.rate
    if rate > _HOPELESS or outvoted - rate < _UNSETTLED:
        return ()
    part = f"up to {100 * high:.0f} % could be wrong" if low > 0.0 else f"none may be wrong, or {100 * high:.0f} %"
    return (
        f"the votes do not settle how many labels are wrong ({part}): classes overlap, or wrong labels follow the "
        "features, and votes cannot tell these apart. Look at some of the suspects.",
    )


def check_size(rows: Array, n_classes: int, owner: object) -> None:
    """Refuse, before anything is computed, rows that a jury could not hold or votes that it would count for hours."""
    n, d = rows.shape
    members = min(n, MOST_MEMBERS)
    # Copies of the rows, what is kept of rows that vote, landmarks, votes, and the rest; measured.
    needed = (8.0 * n + 12.0 * members) * d + 4200 * members + 32 * min(n, N_LANDMARKS) * d
    needed += 40 * min(n * n_classes, 1 << 22) + 1.1e8
    reduce = "Reduce the features first, for example with PCA(100), or take a part of the rows; StreamAudit and "
    check_memory(
        needed, f"a jury of {n:,} rows with {d:,} features",
        reduce + "partial_fit of a learner take rows in batches.", owner,
    )  # fmt: skip
    if n * n_classes > _MOST_VOTES:
        raise InputError(
            f"{n:,} rows of {n_classes:,} classes are {n * n_classes:.2g} votes for every voter, which takes hours. "
            "Take a group of classes at a time, or n_neighbors=3, which counts three votes a row.",
            owner=owner,
        )


def decide(
    scaled: Array, codes: Codes, classes: NDArray[Any], noise_rate: float | str, weights: str, random_state: Any,
    space: Array | Embedding | None = None, *, groups: Index | None = None, pred_probs: Array | None = None,
    models: Sequence[Any] = (),
) -> JuryDecision:  # fmt: skip
    """Assemble the default jury of at most 49,152 rows and let it judge the labels of all; see `assemble_jury`."""
    scaled, members, judged, known = narrow(scaled), None, None, codes
    if has_others(len(codes)):
        # Copies vote together or not at all, so that none outside vouches for one inside.
        equal = number_equal_rows(scaled)
        members = choose_members(codes, len(classes), equal if groups is None else join_groups(equal, groups))
    if members is not None:
        judged = JudgedRows(members, scaled)
        scaled, known = scaled[members], codes[members]
        groups = None if groups is None else np.unique(groups[members], return_inverse=True)[1]
        pred_probs = None if pred_probs is None else pred_probs[members]
    jury, noise = assemble_jury(
        scaled, known, len(classes), noise_rate, space=space, random_state=random_state, groups=groups,
        pred_probs=pred_probs, models=models,
    )  # fmt: skip
    is_given = not isinstance(noise_rate, str)
    decision = JuryDecision(jury, noise, codes, classes, weights, rate_is_given=is_given, judged=judged)
    if pred_probs is not None:
        decision.notes += _tell_of_seen_labels(jury, known, classes)
    return decision


def _tell_of_seen_labels(jury: Jury, codes: Codes, classes: NDArray[Any]) -> tuple[str, ...]:
    """A note if given probabilities agree with the labels so well that their model must have seen them."""
    some = spread_rows(len(codes), _ASKED)
    said = jury.poll_left_out(some, np.ones(len(codes)), classes)
    agree = {
        name: float((votes.argmax(axis=1) == codes[some]).mean())
        for name, votes in zip(said.voters, said.votes, strict=True)
    }
    own = agree.pop(GIVEN)
    best = max(agree.values())
    if 1.0 - best < _DOUBTFUL or 1.0 - own >= (1.0 - best) / 4.0:
        return ()
    return (
        f"the given probabilities agree with {100.0 * own:.0f} % of the labels, the best other voter with "
        f"{100.0 * best:.0f} %: make sure that their model had not seen the labels of these rows.",
    )


def assemble_jury(
    scaled: Array,
    codes: Codes,
    n_classes: int,
    noise_rate: float | str,
    *,
    space: Array | Embedding | None = None,
    random_state: Any = None,
    groups: Index | None = None,
    pred_probs: Array | None = None,
    models: Sequence[Any] = (),
) -> tuple[Jury, NoiseModel]:
    """Make the default voters, weigh them, and estimate the noise.

    Parameters
    ----------
    scaled : ndarray of shape (n_samples, n_features)
        Rows whose mean squared pair distance is about 1.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    noise_rate : float or "auto"
        Share of wrong labels; "auto" estimates it, and whether it depends on the class.
    space : ndarray of shape (n_components, n_features), Embedding or None
        A learned space of the user's own; None learns two, cross-fitted.
    random_state : int, Generator, RandomState or None
        Seed of the learned spaces.
    groups : ndarray of int64 of shape (n_samples,) or None
        Numbers of groups of rows that may not vouch for each other, beside the copies that are found.
    pred_probs : ndarray of shape (n_samples, n_classes) or None
        Probabilities from a model that has not seen the labels of these rows; they vote as well.
    models : sequence of classifier
        More voters, cross-fitted on the scaled rows.

    Returns
    -------
    jury : Jury
        Neighbours in the input space, in the learned space or spaces, two ridge regressions and a forest.
    noise : NoiseModel
        Given or estimated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1], 50)
    >>> jury, noise = assemble_jury(3.0 * codes[:, None] + rng.normal(size=(100, 2)), codes, 2, "auto", random_state=0)
    >>> [voter.name for voter in jury.voters], noise.rate < 0.05
    (['input space', 'learned spaces', 'ridge on features', 'ridge on landmarks', 'forest'], True)
    """
    with one_blas_thread():
        scaled = narrow(scaled)
        progress.begin("comparing rows")
        copies, search = find_copies(scaled, codes)
        if copies is not None:  # one stands for all of them
            scaled, codes = scaled[copies.first], codes[copies.first]
            groups = None if groups is None else copies.reduce_groups(groups)
            pred_probs = None if pred_probs is None else pred_probs[copies.first]
        apart = None if groups is None or groups.max() + 1 == len(codes) else Groups(groups)
        ones = np.ones(len(codes))
        near = NeighbourVoter("input space", search, codes, n_classes, groups=apart)
        progress.begin("making voters")
        leading, few = LeadingDirections(scaled), [Landmarks(scaled, one, N_CHOOSING) for one in _SHARPNESS]
        progress.pause()
        sharpness = RidgeVoter("few landmarks", scaled, codes, n_classes, few, apart).features.sharpness
        landmarks = [Landmarks(scaled, sharpness)]
        progress.pause()
        others: list[Voter] = [
            RidgeVoter("ridge on features", scaled, codes, n_classes, [leading], apart),
            RidgeVoter("ridge on landmarks", scaled, codes, n_classes, landmarks, apart),
            ForestVoter("forest", scaled, codes, n_classes, apart),
        ]
        if pred_probs is not None:
            others.append(OutsideVoter(GIVEN, pred_probs, "probabilities that were given"))
        for i, model in enumerate(models):
            others.append(cross_fit(model, f"{type(model).__name__} ({i + 1})", scaled, codes, n_classes, apart))
        # None of these has seen the label that it judges, so the labels as given tell how much each should count, and
        # the labels that they contradict tell how many are wrong.
        votes = [voter.left_out(ones) for voter in (near, *others)]
        if space is None:
            progress.begin("learning spaces")
            learned: Voter = learn_spaces(scaled, near, random_state, leading.axes)
            votes.insert(1, learned.left_out(ones))
        progress.begin("weighing the voters")
        some = spread_rows(len(codes), max(1, _MOST_WEIGHED // n_classes))
        votes = [_only(one, some) for one in votes] if len(some) < len(codes) else votes
        shares = draw_to_equal(stack_votes(votes, codes[some], n_classes))
        if isinstance(noise_rate, str):
            noise = estimate_noise_model(mix_votes(votes, shares), codes[some], n_classes)
        else:
            noise = NoiseModel(noise_rate, n_classes)
        if space is not None:
            # This space has seen all labels, so they do not tell how much it should count.
            learned = neighbours_in(space, "learned space", scaled, near)
            shares = np.array([shares[0] / 2.0, shares[0] / 2.0, *shares[1:]])
        return Jury([near, learned, *others], shares, copies), noise


def _only(votes_on: VotesOn, rows: Index) -> VotesOn:
    """The votes on some rows alone."""
    return lambda part: votes_on(rows[part])
