"""Layers by type of edges: what each gives the nodes of a type is put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from headrace.ops import InputError
from headrace.pipeline.data import Block, is_one_of
from headrace.pipeline.models.nn.aggregate import Edges, is_block

#: Source type, relation, destination type.
EdgeType: TypeAlias = tuple[str, str, str]


class HeteroConv(nn.Module):
    """A layer for each type of edges, over rows by type of nodes.

    ``conv(x, block)`` calls the layer of each edge type with ``block.relation(edge_type)`` and the rows of its ends,
    and puts together those of each destination type. PyG's ``HeteroConv(convs, aggr)`` with the same parameters, those
    of ``convs.<source___relation___destination>``, computes the same. Layers are those of `hr.nn` that take rows of
    both ends, ``conv((x_src, x_dst), block)``, and your own that do; for edges between nodes of one type, any. It takes
    blocks of one process.

    >>> import headrace as hr, torch
    >>> types = {("author", "writes", "paper"): 2, ("paper", "cites", "paper"): 1}
    >>> graph = hr.Graph.from_coo(
    ...     [0, 1, 3], [2, 3, 2], node_types={"author": 2, "paper": 2}, edge_types=types
    ... )
    >>> block = next(iter(hr.ItemSampler({"paper": [0]}, seed=0).sample_neighbor(graph, [-1]).loader())).blocks[0]
    >>> conv = hr.nn.HeteroConv({edge_type: hr.nn.GraphConv(4, 2) for edge_type in types})
    >>> conv({"author": torch.ones(1, 4), "paper": torch.ones(2, 4)}, block)["paper"].shape
    torch.Size([1, 2])

    Parameters
    ----------
    convs
        By (source type, relation, destination type) a layer.
    aggr : {"sum", "mean", "min", "max", "cat"} or None
        How rows of several edge types are put together; "cat" side by side, None in a dimension of their own.

    Raises
    ------
    InputError
        For an unknown `aggr`, and keys that are no edge types; when called, for rows that are missing, and where ranks
        share edges.
    """

    def __init__(
        self,
        convs: Mapping[EdgeType, nn.Module],
        aggr: Literal["sum", "mean", "min", "max", "cat"] | None = "sum",
    ) -> None:
        super().__init__()
        if aggr is not None and not is_one_of(aggr, ("sum", "mean", "min", "max", "cat")):
            raise InputError(f'HeteroConv: expected aggr "sum", "mean", "min", "max", "cat" or None, got {aggr!r}')
        for edge_type in convs:
            if not isinstance(edge_type, tuple) or len(edge_type) != 3:
                raise InputError(
                    "HeteroConv: expected a layer for each (source type, relation, destination type), got "
                    f"{edge_type!r}"
                )
        self.aggr = aggr
        self.edge_types = list(convs)
        # The names that PyG has, as those of modules have no dots.
        self.convs = nn.ModuleDict({_name(edge_type): conv for edge_type, conv in convs.items()})

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for conv in self.convs.values():
            conv.reset_parameters()  # type: ignore[operator] # as layers have it

    def forward(
        self, x: Mapping[str, Tensor], block: Edges, *edge_values: Mapping[EdgeType, Tensor]
    ) -> dict[str, Tensor]:
        """Return the rows of destinations by type; none for a type that no edge type ends in.

        Parameters
        ----------
        x
            Rows of sources by type of nodes, destinations first.
        block
            The edges, of all types.
        edge_values
            The further arguments of layers, such as features of edges, by type of edges.
        """
        if not is_block(block):
            raise InputError(
                f"HeteroConv: expected a block of one process, got {type(block).__name__}; ranks that share edges have "
                "no types"
            )
        rows: dict[str, list[Tensor]] = {}
        for edge_type in self.edge_types:
            relation = block.relation(edge_type)
            values = [one[edge_type] for one in edge_values if edge_type in one]
            out = self.convs[_name(edge_type)](_ends(x, edge_type, relation), relation, *values)
            rows.setdefault(edge_type[2], []).append(out)
        return {kind: self._merged(several) for kind, several in rows.items()}

    def _merged(self, rows: list[Tensor]) -> Tensor:
        """Return the rows of one type, of one or several edge types."""
        if self.aggr is None:
            return torch.stack(rows, 1)
        if len(rows) == 1:
            return rows[0]
        if self.aggr == "cat":
            return torch.cat(rows, -1)
        stacked = torch.stack(rows)
        if self.aggr in ("sum", "mean"):
            return stacked.sum(0) if self.aggr == "sum" else stacked.mean(0)
        return (stacked.min(0) if self.aggr == "min" else stacked.max(0)).values

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"aggr={self.aggr!r}"


def _name(edge_type: EdgeType) -> str:
    return f"<{'___'.join(edge_type)}>".replace(".", "#")


def _ends(x: Mapping[str, Tensor], edge_type: EdgeType, relation: Block) -> Tensor | tuple[Tensor, Tensor]:
    """Return what the layer of an edge type takes: rows of one type, or of both ends.

    Raises
    ------
    InputError
        If those of an end are missing.
    """
    source, _, destination = edge_type
    missing = [kind for kind in (source, destination) if kind not in x]
    if missing:
        raise InputError(
            f"HeteroConv: expected rows of {missing[0]!r}, an end of {edge_type}, got those of "
            f"{', '.join(map(repr, x))}"
        )
    return x[source] if source == destination else (x[source], x[destination][: relation.num_dst])
