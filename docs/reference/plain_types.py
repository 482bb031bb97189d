"""Show the types of docstrings as they are written, and settings once.

The docstring reader takes ``{"a", "b"} or Thing, default="b"`` for a choice between a and b whose default is a.
Without the braces it keeps the whole line, with the right default.
"""

import re
from typing import Any

import griffe

_TYPE_LINE = re.compile(r"^(\s*[\w, ]+ : )\{([^}]*)\}", flags=re.MULTILINE)


class PlainTypes(griffe.Extension):
    """Take the braces out of the type lines of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _TYPE_LINE.sub(r"\1\2", obj.docstring.value)

    def on_class_members(self, *, node: Any, cls: griffe.Class, **kwargs: Any) -> None:
        """Drop the plain attributes of classes with settings, which are described under Parameters."""
        fields = getattr(getattr(node, "obj", None), "__dataclass_fields__", {})
        if not any("kind" in field.metadata for field in fields.values()):
            return
        for name, member in list(cls.members.items()):
            if not member.is_alias and member.is_attribute and "property" not in member.labels:
                cls.del_member(name)
