"""Descriptions that all learners share, so that the same word means the same thing in every class."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["documented"]

Class = TypeVar("Class", bound=type)

_TEXTS = {
    "steps": """
    C : float, default={C}
        Aggressiveness: upper bound on a step before robust weighting; 0 never moves, infinity always removes the
        loss.
    loss : {"hinge", "rescaled_hinge"} or Loss, default="{loss}"
        "hinge" trusts every triplet alike (Eq. 8); "rescaled_hinge" bounds what one triplet can do (Eq. 10).
    eta : float, default=1.0
        How fast a triplet's weight falls with its hinge, for "rescaled_hinge"; 0 is the plain hinge.
    max_hq_iter : int, default=3
        Half-quadratic iterations per triplet, each weighing it anew at the parameters reached (step 3.3 of
        Algorithm 1).""",
    "stream": """
    triplets : {"octg", "one_pass", "batch", "random"} or TripletSource, default="{triplets}"
        Where triplets come from when rows and labels are given.
    n_epochs : int, default={n_epochs}
        Passes of `fit` over the rows.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the rows in a new random order; `partial_fit` keeps the order given.
    scale : {"auto", "pairs", "unit", None}, default="auto"
        How raw features are brought to the scale on which the margin 1 is meaningful; learned at the first batch.
        "pairs": unit variance per feature, then one number so that two rows have mean squared distance 1 ("auto"
        for distances). "unit": zero mean and unit variance per feature, then rows of length 1 ("auto" for
        similarities). None: as they come.
    rescore : bool, default=True
        Whether `fit` scores all rows with the final metric for `plausibility_`; otherwise the weights of the last
        pass.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the order, of k-means and of drawn triplets.""",
    "device": """
    device : str, default="cpu"
        "cuda" or "cuda:N" learns on an NVIDIA GPU, which needs torch and Triton; the results are those of "cpu" up to
        rounding. Without a GPU that is an error: nothing moves to the processor by itself.""",
    "lowrank": """
    n_components : int or None, default=None
        Rank r of the map; None for all features up to 128, else 64.
    init : {"auto", "pca", "identity"} or array of shape (n_components, n_features), default="auto"
        Start of the map: "auto" is the identity when r equals the number of features, else the leading principal
        directions of the first batch; "identity" keeps the first r features, as printed in the paper.
    solver : {"exact", "subgradient"}, default="exact"
        "exact" solves each step in closed form; "subgradient" takes the paper's steps (Eqs. 32, 33).
    step_size : float, default=1.0
        Of the sub-gradient steps.
    n_steps : int, default=1
        Sub-gradient steps per half-quadratic iteration.""",
    "modalities": """
    modalities : list, dict or None, default=None
        Which columns belong together: how many each modality has (``[3, 5]``), or its columns as a slice, as numbers
        or, for a data frame, as names; in a dict by name. None is one modality, unless X itself is a dict or list of
        matrices with equally many rows: then `partial_fit`, `transform` and all others take the same form.""",
    "hedge": """
    beta : float, default=0.9
        What is left of a modality's weight when it orders a triplet wrongly, in (0, 1); see `Hedge`.
    margin : float, default=1.0
        A triplet is learned while the weighted sum of its margins is below this.""",
    "modal": """
    weights_ : ndarray of shape (n_modalities,)
        Share of each modality in the distance.
    modalities_ : dict
        Columns of each modality by its name.""",
    "fitted": """
    metric_ : ndarray of shape (n_features, n_features)
        M on the learner's scale, ``L L'`` for low rank (made when read).
    components_ : ndarray of shape (n_components, n_features)
        ``transform(X) == scaling_.apply(X) @ components_.T``.
    query_map_, item_map_ : ndarray of shape (n_components, n_features)
        The two sides whose inner product is the score of a similarity.
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].
    classes_ : ndarray
        Classes met so far.
    scaling_ : Scaling
        What was learned about scale at the first batch.
    triplet_source_ : TripletSource
        With its centres or remembered rows.
    n_features_in_, n_rows_seen_, n_triplets_seen_, n_updates_ : int
        Counters.""",
}


def documented(cls: Class) -> Class:
    """Fill the ``{names}`` of a docstring with the shared descriptions."""
    import inspect

    parameters = inspect.signature(cls).parameters
    text = cls.__doc__ or ""
    for name, block in _TEXTS.items():
        for key in ("C", "loss", "triplets", "n_epochs"):
            block = block.replace("{" + key + "}", str(parameters[key].default))
        text = text.replace("{" + name + "}", block.strip())
    cls.__doc__ = text
    return cls
