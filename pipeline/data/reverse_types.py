"""What the type of the reverse edges of a type is called."""

from __future__ import annotations

from collections.abc import Collection

#: What relations of reverse edges begin with, as PyG has it.
REVERSE = "rev_"


def reverse_type(edge_type: tuple[str, str, str], prefix: str = REVERSE) -> tuple[str, str, str]:
    """Return the type of the reverse edges of a type."""
    return edge_type[2], prefix + edge_type[1], edge_type[0]


def lacks_reverse(edge_type: tuple[str, str, str], names: Collection[object], prefix: str = REVERSE) -> bool:
    """Whether none of the names is that of the reverse type, and the type is no reverse one by its own."""
    return not edge_type[1].startswith(prefix) and reverse_type(edge_type, prefix) not in names
