"""What a package index shows of README.md: links and pictures are paths in the repository, and become addresses."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Fill in ``readme``, from the repository that ``[project.urls]`` names."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text into the metadata."""
        home = metadata["urls"]["Source"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        for begin, kind in ((r"!\[[^\]]*\]", "raw"), (r"(?<!!)\[[^\]]*\]", "blob")):
            text = re.sub(rf"({begin})\((?!https?:|#)", rf"\1({home}/{kind}/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
