"""What stages say of themselves: what they have in parts, know of nodes, read of the user's memory, and show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.pipeline.data.arrays import version_reader
from headrace.pipeline.data.seen import Seen
from headrace.pipeline.data.type_offsets import TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.partition.partition import Partition


@dataclass(frozen=True)
class Divided:
    """Data of a stage that are divided among ranks.

    Parameters
    ----------
    what
        The name of the data, for messages.
    partition
        The owner of each node.
    part
        The rank of this part; None if all ranks have the same data.
    """

    what: str
    partition: Partition
    part: int | None = None


@dataclass(frozen=True)
class KnownNodes:
    """The nodes to which ids in a stage refer.

    Parameters
    ----------
    what
        The name of the graph or data, for messages.
    num_nodes
        The number of nodes.
    types
        Their types; None if unknown.
    """

    what: str
    num_nodes: int
    types: TypeOffsets | None = None


class Watched(NamedTuple):
    """Memory that a stage reads and a training loop may write.

    Parameters
    ----------
    what
        The name of the memory, for messages.
    version
        Returns the number of writes; None if writes are not counted.
    """

    what: str
    version: Callable[[], int | None]


class Shown(NamedTuple):
    """A parameter of a stage as texts show it, unless it has its default.

    Parameters
    ----------
    name, value
        The parameter.
    default
        Its default; `dataclasses.MISSING` for none.
    named
        Whether the name is shown.
    """

    name: str
    value: Any
    default: Any = MISSING
    named: bool = False

    @staticmethod
    def of_fields(value: Any) -> list[Shown]:
        """Return the fields of a dataclass, and of values that are shown as its parameters; first those by position."""
        found: list[Shown] = []
        for one in fields(value):
            part = getattr(value, one.name)
            if getattr(part, "shown_as_parameters", False):
                found += Shown.of_fields(part)
            else:
                found.append(Shown(one.name, part, one.default, bool(one.kw_only)))
        return sorted(found, key=lambda one: one.named)


def watched_tables(seen: Iterable[Seen]) -> tuple[Watched, ...]:
    """Return arrays that tables were made of as memory that a training loop may write."""
    readers = [(one.what, version_reader(one.array)) for one in seen]
    return tuple(Watched(what, reader) for what, reader in readers if reader is not None)
