"""Arrays of users that tables are made of, and whether they are still what they were then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import version_of_tensor
from headrace.pipeline.data.digest import content_mark
from headrace.pipeline.data.graph_machinery import kept

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView

#: Below it all bytes of an array are compared when an iteration begins or ends: 0.1 s at 10 GB/s. Above, a sample.
WHOLE_BELOW_BYTES = 1 << 30

#: The same of the structure of a graph, which nobody means to write: 2 ms.
STRUCTURE_BELOW_BYTES = 16 << 20


class Seen:
    """An array as it was when a table was made of it.

    Where the array is written later, the table is wrong, and batches are made by old values and new ones together.
    Torch counts what it writes in place: `check_version` costs nothing, and is asked for each batch. NumPy,
    ``tensor.data`` and other processes count nothing: `check` reads the values, when an iteration begins and ends.

    Parameters
    ----------
    array
        The array, before the table is made, so that a write in between is seen.
    what
        What it is, for messages: "times 't'".
    expected
        What an error says of it, up to what came: "Graph: expected times 't' to stay as they were ...".
    advice
        What to do, for the same error.
    counts
        Whether what torch counts as a write is one: it counts ``tensor.set_`` to another memory of the same values.
    whole_below
        How many bytes are compared whole; above it a sample is (`sampled_digest`).
    """

    def __init__(
        self,
        array: Tensor,
        what: str,
        expected: str,
        advice: str,
        counts: bool = True,
        whole_below: int = WHOLE_BELOW_BYTES,
    ) -> None:
        self._seen = array, version_of_tensor(array)
        self.what = what
        self._refusal = expected, advice
        self._counts, self._whole_below = counts, whole_below
        self._mark = content_mark(array, whole_below)

    @property
    def array(self) -> Tensor:
        """The array."""
        return self._seen[0]

    @property
    def is_counted_as_written(self) -> bool:
        """Whether torch has written to the array."""
        array, version = self._seen
        return self._counts and version_of_tensor(array) != version

    def check_version(self) -> None:
        """Refuse an array that torch has written to.

        Raises
        ------
        InputError
            Or a subclass, saying so.
        """
        if self.is_counted_as_written:
            raise self._changed()

    def check(self) -> None:
        """Refuse an array that torch has written to, or whose values are others, as far as they are compared.

        Raises
        ------
        InputError
            Or a subclass, saying so.
        """
        self.check_version()
        if content_mark(self.array, self._whole_below) != self._mark:
            raise self._changed()

    def move(self, there: Tensor) -> None:
        """Learn that a copy has taken the place of the array."""
        self._seen = there, version_of_tensor(there)  # at once, as threads look at both

    def _changed(self) -> InputError:
        expected, advice = self._refusal
        return InputError(f"{expected}, got other values, written in place; {advice}")

    def __reduce__(self) -> tuple[type[Seen], tuple[Any, ...]]:
        # A copy in another process has a count of its own.
        return Seen, (self.array, self.what, *self._refusal, self._counts, self._whole_below)


def argument(stage: str, name: str, array: Tensor) -> Seen:
    """Return an argument of a stage as it is now, of which the stage has a table."""
    expected = f"{stage}: expected {name} to stay as it was when the plan was made"
    return Seen(array, name, expected, "make a new plan with the new values")


def note(graph: GraphView, name: str, seen: Iterable[Seen]) -> None:
    """Keep with a graph what a table of it was made of, under a name; twice the same array is once."""
    known = kept(graph).seen.setdefault(name, [])
    known += [one for one in seen if all(one.array is not other.array for other in known)]


def structure_of(graph: GraphView) -> tuple[Seen, ...]:
    """Return the arrays of a graph that hold its structure, as they were when this was first asked for."""
    seen = kept(graph).seen
    if "structure" not in seen:
        arrays = {name: getattr(graph, name) for name in ("indptr", "indices", "edge_permutation", "node_ids")}
        note(graph, "structure", [_structure(name, array) for name, array in arrays.items() if array is not None])
    return tuple(seen["structure"])


def seen_of(graph: GraphView, weight: str | None, time: str | None) -> tuple[Seen, ...]:
    """Return the weights and the times of a name that tables of a graph were made of."""
    names = [*([] if weight is None else [of_weight(weight)]), *([] if time is None else [of_times(time)])]
    return tuple(one for name in names for one in kept(graph).seen.get(name, ()))


def of_weight(name: str) -> str:
    """Return under which name `note` keeps the weights of a name."""
    return f"weight {name}"


def of_times(name: str) -> str:
    """Return under which name `note` keeps the times of a name."""
    return f"times {name}"


def _structure(name: str, array: Tensor) -> Seen:
    expected = f"Graph: expected {name} to stay as it was when a loader was first made of the graph"
    advice = "make a new graph of the new edges"
    return Seen(array, name, expected, advice, counts=False, whole_below=STRUCTURE_BELOW_BYTES)
