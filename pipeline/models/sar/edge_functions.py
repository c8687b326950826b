"""Softmaxes over edges, and functions of edges of users and layers, for the edges of one part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.pipeline.models.sar.edge_expressions import EdgeExpression, End, Item
from headrace.pipeline.models.sar.edge_parts import Computed, EdgeContext, Part
from headrace.pipeline.models.sar.rank_size import RankSize


class Softmax(EdgeExpression):
    """The softmax of values over the edges of each destination.

    Parameters
    ----------
    values
        The values.
    """

    def __init__(self, values: EdgeExpression) -> None:
        super().__init__(values.context, [values])
        self.single = values.context.single(lambda _: torch.ones_like(values.single))

    def compute(self, part: Part) -> Tensor:
        """Return it for the edges of one part."""
        return part.edges.seam.softmax(part.value(self.parents[0]))


class EdgeBatch:
    """The edges of one part as a function of edges sees them, as DGL's class of this name shows edges.

    Attributes
    ----------
    src, dst, data : Mapping
        Rows of sources, of destinations and of edges, by name.
    """

    def __init__(self, call: Call, part: Part) -> None:
        self._context, self._part = call.context, part
        self.src, self.dst, self.data = (_Rows(call, part, target) for target in ("u", "v", "e"))

    def batch_size(self) -> RankSize:
        """Return the number of edges, which may be a size alone."""
        return RankSize(len(self), "edges", self._context.refusal)

    def __len__(self) -> int:
        return len(self._part.edges.part)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_context":
            raise AttributeError(name)
        raise self._context.refusal(f"reads {name} of edges in a message function")


class _Rows(Mapping[str, Tensor]):
    def __init__(self, call: Call, part: Part, target: str) -> None:
        self._call, self._part, self._target = call, part, target

    def __getitem__(self, name: str) -> Tensor:
        value: Tensor = self._part.value(self._call.end(self._target, name))
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._call.names(self._target))

    def __len__(self) -> int:
        return len(self._call.names(self._target))


class Call(Computed):
    """A function of edges, of a user or of a layer.

    Parameters
    ----------
    context
        What it belongs to.
    function
        Takes an `EdgeBatch`, and returns a dictionary of rows.
    nodes, edges
        Rows of nodes and values of edges, by name.
    """

    def __init__(
        self,
        context: EdgeContext,
        function: Callable[[Any], Any],
        nodes: Mapping[str, Tensor],
        edges: Mapping[str, Tensor | EdgeExpression],
    ) -> None:
        self.context, self._function = context, function
        self._rows: dict[str, Mapping[str, Any]] = {"u": dict(nodes), "v": dict(nodes), "e": dict(edges)}
        self._ends: dict[tuple[str, str], EdgeExpression] = {}
        self._key = context.keys.next()
        name = getattr(function, "__name__", type(function).__name__)
        self._states: dict[int, list[Tensor]] = {}
        values = self._computed_singles(context)
        if not isinstance(values, Mapping) or not all(isinstance(one, Tensor) for one in values.values()):
            raise context.refusal(f"has a function of edges, {name}, that returns no dictionary of tensors")
        super().__init__(context, self._ends.values())  # of what it has read; other rows are not kept
        self._rows = {target: dict.fromkeys(rows) for target, rows in self._rows.items()}
        self._singles = dict(values)

    def results(self) -> dict[str, EdgeExpression]:
        """Return the expressions for what the function returns."""
        return {key: Item(self, key, value) for key, value in self._singles.items()}

    def names(self, target: str) -> list[str]:
        """Return the names of rows of sources or destinations, or of edges."""
        return [*self._rows[target]]

    def end(self, target: Any, name: str) -> EdgeExpression:
        """Return the expression for rows that the function reads."""
        if (target, name) not in self._ends:
            rows = self._rows[target].get(name)
            if rows is None:
                place = {"u": "src", "v": "dst", "e": "data"}[target]
                raise self.context.refusal(
                    f"reads {name!r} of edges.{place}, which has {', '.join(self.names(target)) or 'nothing'}, or did "
                    "not read it at first"
                )
            # A single edge is computed while the one of this call is: they share the seam.
            self._ends[target, name] = rows if isinstance(rows, EdgeExpression) else End(self.context, target, rows)
        return self._ends[target, name]

    def compute(self, part: Part) -> dict[str, Tensor]:
        """Return the results for the edges of one part."""
        return self._run(part, part)

    def check_unchanged(self) -> None:
        """Refuse a function that returns something else by now for the same edge."""
        values = self._computed_singles(self.context)
        if values.keys() != self._singles.keys() or not all(
            torch.allclose(one, values[key], 0.0, 0.0, equal_nan=True) for key, one in self._singles.items()
        ):
            raise self.context.refusal(
                "has a function of edges that returns something else now than when apply_edges called it: what it "
                "reads beside its edges has changed; keep that apart, or pass it as values of nodes or edges"
            )

    def _computed_singles(self, context: EdgeContext) -> Any:
        return context.single(lambda part: self._run(part, _Singles(part)), states=self._states)

    def _run(self, part: Part, shown: Any) -> dict[str, Tensor]:
        with part.edges.seam.masks_of(self._key):
            values: dict[str, Tensor] = self._function(EdgeBatch(self, shown))
        return values


class _Singles:
    """A part of one edge, the values of which have been computed."""

    def __init__(self, part: Part) -> None:
        self.edges = part.edges

    def value(self, value: EdgeExpression) -> Tensor:
        """Return the value of an expression for the edge."""
        return value.single
