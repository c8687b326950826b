"""The layer of relational graph convolutions on every kind of message graph."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from headrace.ops import InputError
from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.pipeline.data import Block, check_switches, describe, is_one_of
from headrace.pipeline.data.block_messages import edges_without_padding
from headrace.pipeline.data.checks import trusted
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.nn.aggregate import Edges, columns, is_block
from headrace.pipeline.models.nn.messages import (
    MessageEdges,
    both_ends,
    columns_of_ends,
    each_end,
    graph_of,
    pass_messages,
)


class Groups(NamedTuple):
    """Aggregated rows of the edges of one type to one destination.

    Parameters
    ----------
    rows: [num_groups, ...]
    destinations: int64[num_groups]
    sizes
        The number of groups of each type, in which order they are.
    """

    rows: Tensor
    destinations: Tensor
    sizes: list[int]


class RGCNConv(nn.Module):
    """Relational graph convolution (arXiv 1703.06103): an aggregate by type of edges, multiplied by the type's matrix.

    PyG's ``RGCNConv(in_channels, out_channels, num_relations, ...)`` with the same parameters, ``weight``, ``comp`` for
    bases, ``root`` and ``bias``, computes the same if blocks have no weights. With weights, sums and means of a type
    are weighted. On a block and over shards a row is kept for each type and destination with edges; where ranks share
    edges, for each type and destination. ``torch.compile(fullgraph=True)`` does not take it.

    Parameters
    ----------
    in_channels
        Columns; a pair for those of sources and of destinations.
    out_channels
        Columns.
    num_relations
        Types of edges.
    num_bases
        The number of matrices that those of types are sums of; by default each type has its own.
    num_blocks
        The number of blocks on the diagonal, of which the matrices of types consist; by default they are whole.
    aggr : {"mean", "sum", "add"}
        By type.
    root_weight
        Whether the node's own row is added, through `root`.
    bias
        Whether a bias is added.

    Raises
    ------
    InputError
        For an unknown `aggr`, sizes below 1, columns that blocks do not divide, and both bases and blocks; when called,
        for wrong shapes, and types out of range.
    """

    comp: nn.Parameter | None
    root: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        aggr: Literal["mean", "sum", "add"] = "mean",
        root_weight: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not is_one_of(aggr, ("mean", "sum", "add")):
            raise InputError(f'RGCNConv: expected aggr "mean", "sum" or "add", got {aggr!r}')
        if num_bases is not None and num_blocks is not None:
            raise InputError("RGCNConv: expected num_bases or num_blocks, got both; leave one out")
        check_switches("RGCNConv", root_weight=root_weight, bias=bias)
        self.in_channels = columns_of_ends("RGCNConv", in_channels)
        self.out_channels = columns("RGCNConv", "out_channels", out_channels)
        self.num_relations = columns("RGCNConv", "num_relations", num_relations)
        self.num_bases = None if num_bases is None else columns("RGCNConv", "num_bases", num_bases)
        self.num_blocks = None if num_blocks is None else columns("RGCNConv", "num_blocks", num_blocks)
        self.aggr: Literal["mean", "sum"] = "mean" if aggr == "mean" else "sum"
        of_sources, of_destinations = each_end(self.in_channels)
        shape: tuple[int, ...] = (self.num_bases or self.num_relations, of_sources, self.out_channels)
        if self.num_blocks is not None:
            if of_sources % self.num_blocks or self.out_channels % self.num_blocks:
                raise InputError(
                    f"RGCNConv: expected in_channels and out_channels that {num_blocks} blocks divide, got "
                    f"{of_sources} and {out_channels}"
                )
            blocks = self.num_blocks
            shape = (self.num_relations, blocks, of_sources // blocks, self.out_channels // blocks)
        self.weight = nn.Parameter(torch.empty(shape))
        comp = None if self.num_bases is None else nn.Parameter(torch.empty(self.num_relations, self.num_bases))
        self.register_parameter("comp", comp)
        root = nn.Parameter(torch.empty(of_destinations, self.out_channels)) if root_weight else None
        self.register_parameter("root", root)
        self.register_parameter("bias", nn.Parameter(torch.empty(self.out_channels)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for matrix in (self.weight, self.comp, self.root):
            if matrix is not None:  # by the sizes of the last two dimensions, as PyG's Glorot has it
                bound = (6.0 / (matrix.shape[-2] + matrix.shape[-1])) ** 0.5
                nn.init.uniform_(matrix, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | tuple[Tensor, Tensor], block: Edges, edge_type: Tensor | None = None) -> Tensor:
        """Return [num_dst, out_channels].

        Parameters
        ----------
        x: [num_src, in_channels], or a pair of [num_src, in_channels[0]] and [num_dst, in_channels[1]]
            The rows of sources, and of destinations if they are not the first sources.
        block
            The edges.
        edge_type: integer[num_edges], optional
            The type of each edge. By default those of the block.
        """
        x, own = both_ends("RGCNConv", x, block, self.in_channels)
        if edge_type is None:
            if not is_block(block) or block.types is None:
                raise InputError(
                    f"RGCNConv: expected edge_type, integer[{block.num_edges}], for edges without types, got none; "
                    "pass the type of each edge"
                )
            edge_type = block.edge_types
        wrong = not isinstance(edge_type, Tensor) or edge_type.shape != (block.num_edges,)
        if wrong or edge_type.is_floating_point():
            raise InputError(f"RGCNConv: expected edge_type of integer[{block.num_edges}], got {describe(edge_type)}")
        weight: Tensor = self.weight
        if self.comp is not None:
            weight = torch.einsum("rb,bio->rio", self.comp, weight)
        x = widened(x)
        groups = self._groups(block, in_single(x), edge_type)
        rows = as_narrow_as(groups.rows, x)
        out = transform_by_type(rows, groups.destinations, groups.sizes, weight, len(own))
        if self.root is not None:
            out = out + widened(own @ self.root)
        return out if self.bias is None else out + self.bias

    def _groups(self, block: Edges, x: Tensor, edge_type: Tensor) -> Groups:
        """Return aggregates of rows by type and destination."""
        if is_block(block):
            edges, destinations, sizes = _by_type(block, _checked(edge_type, block, self.num_relations))
            sizes += [0] * (self.num_relations - len(sizes))
            weight = None if edges.weight is None else edges.weight.to(x.dtype)
            return Groups(edges.aggregate(x, reduce=self.aggr, weight=weight), destinations, sizes)
        if not isinstance(block, SharedBlock):  # a graph in shards
            typed = block.by_type(edge_type, self.num_relations)  # type: ignore[attr-defined]
            return Groups(typed.aggregate(x, reduce=self.aggr), typed.destinations, typed.sizes)
        types = _checked(edge_type, block, self.num_relations)
        numbers = torch.arange(self.num_relations, device=types.device)

        def body(edges: MessageEdges) -> Tensor:
            rows = edges.of_sources(0)
            is_of = (edges.of_edges(types)[:, None] == numbers).to(rows.dtype)
            sums = [edges.reduce(rows * is_of[:, number, None], "sum") for number in range(self.num_relations)]
            stacked = torch.stack(sums, 1)
            return stacked if self.aggr == "sum" else stacked / edges.reduce(is_of, "sum").clamp(min=1).unsqueeze(2)

        rows = pass_messages(graph_of(block), body, (x,), name="RGCNConv").transpose(0, 1)
        destinations = torch.arange(rows.shape[1], device=rows.device).repeat(self.num_relations)
        return Groups(rows.flatten(0, 1), destinations, [rows.shape[1]] * self.num_relations)

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}"


def transform_by_type(rows: Tensor, destinations: Tensor, sizes: list[int], weight: Tensor, num_dst: int) -> Tensor:
    """Add up rows of groups, each multiplied by the matrix of its type.

    Parameters
    ----------
    rows: [num_groups, num_in]
    destinations: int64[num_groups]
    sizes
        The number of groups of each type.
    weight: [num_types, num_in, num_out] or [num_types, num_blocks, num_in / num_blocks, num_out / num_blocks]
        A matrix of each type, or the blocks on its diagonal.
    num_dst
        Rows of the result.
    """
    num_out = weight.shape[-1] * (weight.shape[1] if weight.dim() == 4 else 1)
    out = rows.new_zeros(num_dst, num_out)
    pieces = zip(rows.split(sizes), destinations.split(sizes), weight.unbind(0), strict=True)  # type: ignore[no-untyped-call]
    for group, places, matrix in pieces:
        if matrix.dim() == 3:
            blocks = group.view(len(group), matrix.shape[0], matrix.shape[1])
            transformed = torch.einsum("nbi,bio->nbo", blocks, matrix).reshape(len(group), num_out)
        else:
            transformed = group @ matrix
        out = out.index_add(0, places, widened(transformed))
    return out


def _by_type(block: Block, types: Tensor) -> tuple[Block, Tensor, list[int]]:
    """Return the edges of a block with a destination for each type and destination that there is, in order of types.

    Returns
    -------
    edges : Block
    destinations : int64[num_groups]
        What they are in the block.
    sizes : list of int
        The number of groups of each type, up to the last one.
    """
    num_dst = max(block.num_dst, 1)
    keys, groups = torch.unique(types * num_dst + block.edge_index[1], return_inverse=True)
    order = groups.argsort(stable=True)
    counts = torch.bincount(groups, minlength=len(keys))
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    weight = None if block.weight is None else block.weight[order]
    edges = Block(indptr, block.indices[order], block.num_src, len(keys), weight=weight, bipartite=True)
    return trusted(edges, like=block), keys % num_dst, torch.bincount(keys // num_dst).tolist()


def _checked(types: Tensor, block: Edges, num_types: int) -> Tensor:
    """Return types of edges, int64[num_edges]; 0 for padding.

    Raises
    ------
    InputError
        For types out of range.
    """
    types = edges_without_padding(types.long(), block)
    if len(types) and not (int(types.min()) >= 0 and int(types.max()) < num_types):
        raise InputError(
            f"RGCNConv: expected edge_type in [0, {num_types}), got {int(types.min())} to {int(types.max())}; pass "
            "num_relations= for all types of the graph"
        )
    return types
