"""The order of examples in a section of the gallery, what newcomers want first, then by name; and their output."""

import logging
from typing import Any

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


def leave_out_notices(config: dict[str, Any], file_name: str) -> None:
    """Keep out of the output of an example that loops are compiled, which depends on what ran before."""
    logging.getLogger("nearkin").addFilter(_is_not_a_notice)


def _is_not_a_notice(record: logging.LogRecord) -> bool:
    return "compiles its loops" not in record.getMessage()
