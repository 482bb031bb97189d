"""The order of the examples in a section of the gallery: what a newcomer wants first, then by name."""

FIRST = (
    "three_lines", "evidence", "text_table", "review_sample", "noisy_labels", "noise_rate", "rescaled_hinge",
    "learned_space", "digits_neighbours", "which_learner", "octg", "bounded_memory", "drift", "clicks",
)  # fmt: skip


class FirstThingsFirst:
    """Sort key of a file name."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return FIRST.index(name) if name in FIRST else len(FIRST), name
