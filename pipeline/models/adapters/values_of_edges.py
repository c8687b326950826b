"""Values of edges that are computed part by part: in their place layers have what knows how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.staged import Edges


class ValuesOfEdges(ABC):
    """What stands for values of all edges until messages ask for them.

    Raises
    ------
    InputError
        If a layer uses them otherwise than in ``propagate``.
    """

    #: What made them, in messages.
    maker: str

    @abstractmethod
    def ends(self, side: int) -> Iterable[Tensor]:
        """Return the rows of nodes of which it needs those of sources, side 0, or of destinations, side 1."""

    @abstractmethod
    def of(self, edges: Edges, tables: Mapping[int, int]) -> Any:
        """Return the values of some edges; `tables` has the numbers of rows of nodes by their `id`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._refusal(f"a look at its {name}")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse to compute with them."""
        raise cls._refusal(f"it in {getattr(func, '__name__', func)}")

    @classmethod
    def _refusal(cls, problem: str) -> InputError:
        return InputError(
            f"expected what {cls.maker} returns to go to propagate() as it is, got {problem}: it is computed part by "
            "part"
        )


class OfMessages(ValuesOfEdges):
    """What messages have set on their layer: that of one part of the edges, which nobody is to read."""

    maker = "message()"

    def ends(self, side: int) -> Iterable[Tensor]:
        """Return nothing."""
        del side
        return []

    def of(self, edges: Edges, tables: Mapping[int, int]) -> Any:
        """Refuse to be read.

        Raises
        ------
        InputError
            Always.
        """
        del edges, tables
        raise self._refusal("it in propagate()")

    @classmethod
    def _refusal(cls, problem: str) -> InputError:
        return InputError(
            f"expected what a message sets on its layer to stay unread, got {problem}: it is that of the edges of one "
            "part alone; return it from propagate(), or compute it in forward"
        )


class Normalised(ValuesOfEdges):
    """Weights of edges times a factor of either end, as ``gcn_norm`` makes them.

    Parameters
    ----------
    weight: [num_edges], optional
        Those of this rank's edges; 1 without them.
    factor: [num_dst]
        Of owned nodes.
    """

    maker = "gcn_norm"

    def __init__(self, weight: Tensor | None, factor: Tensor) -> None:
        self.weight, self.factor = weight, factor

    def ends(self, side: int) -> Iterable[Tensor]:
        """Return the factors, on both sides."""
        del side
        return [self.factor]

    def of(self, edges: Edges, tables: Mapping[int, int]) -> Tensor:
        """Return the normalised weights of some edges."""
        values = edges.of_sources(tables[id(self.factor)]) * edges.of_destinations(self.factor)
        return values if self.weight is None else values * edges.of_edges(self.weight)
