"""The input of a layer with other edges and rows for all nodes of a block but its first destinations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.pipeline.data.block import Block
from headrace.pipeline.models.bound_block import BoundBlock

_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
_DTYPES_OF_IDS = (torch.int64, torch.int32)


class CannotBeMadeError(Exception):
    """A change that cannot be made of a layer's input."""


@dataclasses.dataclass(frozen=True)
class OtherNodes:
    """What stays of a block: some destinations, their in-edges, and the sources of these.

    Parameters
    ----------
    block
        The block.
    num_kept
        Destinations whose in-edges stay, the first ones.
    num_edges
        The in-edges of these, the first ones.
    needed: bool[num_src]
        The sources of these edges, and these destinations.
    """

    block: Block
    num_kept: int
    num_edges: int
    needed: Tensor

    @staticmethod
    def of(block: Block) -> OtherNodes | None:
        """Return it; None where a block has too few destinations or edges for some to stay and some to change."""
        if block.num_dst < 2 or block.num_edges < 2:
            return None
        ends = block.indptr.cpu()
        middle = int(torch.searchsorted(ends, block.num_edges // 2, right=True)) - 1
        num_kept = min(max(middle, 1), block.num_dst - 1)
        num_edges = int(ends[num_kept])
        if not 0 < num_edges < block.num_edges:
            return None
        needed = torch.zeros(block.num_src, dtype=torch.bool, device=block.indices.device)
        needed[block.indices[:num_edges].long()] = True
        needed[:num_kept] = True
        return OtherNodes(block, num_kept, num_edges, needed)

    def change(self, *, anywhere: bool, more: bool) -> Change:
        """Return a change of arguments.

        Parameters
        ----------
        anywhere
            Whether edges may end at any source, for layers that take destinations for sources.
        more
            Whether there are more sources: half as many again.
        """
        return Change(self, anywhere, max(3, self.block.num_src // 2) if more else 0)

    def alone(self) -> Change:
        """Return a change of the rows of all nodes but the kept destinations, the sources of their edges among them."""
        return Change(self, anywhere=False, num_more=0, alone=True)

    @staticmethod
    def is_bipartite(argument: Any) -> bool:
        """Whether a layer that takes this argument tells destinations from sources."""
        return isinstance(argument, Block | BoundBlock) or (type(argument) is tuple and len(argument) == 2)


class Change:
    """A function of one argument of a layer, which returns it with other edges and rows.

    Parameters
    ----------
    others
        What stays.
    anywhere
        Whether edges may end at any source.
    num_more
        Rows that are added.
    alone
        Whether rows of sources change that matter to those that are kept.
    """

    def __init__(self, others: OtherNodes, anywhere: bool, num_more: int, *, alone: bool = False) -> None:
        self._block, self._num_kept, self._needed = others.block, others.num_kept, others.needed
        self._anywhere = anywhere
        self._num_more = num_more
        self._num_edges = others.num_edges
        self._alone = alone
        self.has_edges = False  # whether any argument so far had some, which were changed
        self.knows_edges = False  # whether any argument so far says between which nodes messages pass

    def __call__(self, argument: Any) -> Any:
        """Return the changed argument.

        Raises
        ------
        CannotBeMadeError
            If there cannot be one.
        """
        is_of_dgl = getattr(argument, "is_block", False)
        if is_of_dgl or isinstance(argument, Block | BoundBlock):
            self.knows_edges = True
        if isinstance(argument, Tensor):
            return self._tensor(argument)
        if isinstance(argument, BoundBlock):
            return BoundBlock(self._csc_block(), argument._running)  # noqa: SLF001 - as `bind` made it
        if isinstance(argument, Block):
            return self._csc_block()
        if is_of_dgl:
            return self._dgl_block(argument)
        if type(argument) in (tuple, list):
            return type(argument)(map(self, argument))
        if type(argument) is int and argument == self._block.num_src != self._block.num_dst:  # alone, or in size=
            return argument + self._num_more
        return argument

    def _tensor(self, tensor: Tensor) -> Tensor:
        if is_matrix(tensor):
            return self._matrix(tensor)
        if tensor.layout != torch.strided:
            return tensor
        if is_edge_list(tensor):
            ends = self._place_of_ends(tensor[0], tensor[1])
            if ends is None:
                return tensor
            return torch.stack(self._moved(tensor[0], tensor[1], ends, anywhere=self._anywhere))
        return self._rows(tensor)

    def _place_of_ends(self, *edges: Tensor) -> int | None:
        """Return which of two rows of nodes has the ends of edges; None if these are others than the block's."""
        for place in (1, 0):
            starts, ends = edges[1 - place], edges[place]
            of_kept = starts[ends < self._num_kept].long()
            known = len(of_kept) and int(of_kept.max()) < self._block.num_src
            if known and bool(self._needed[of_kept.to(self._needed.device)].all()):
                return place
        return None

    def _moved(self, first: Tensor, second: Tensor, place: int = 1, *, anywhere: bool = False) -> tuple[Tensor, Tensor]:
        """Return edges of which those stay that end at kept nodes; the others go between nodes that matter to these.

        They are in the order of their ends if they were.
        """
        self.has_edges = self.knows_edges = True
        starts, ends = (first, second) if place == 1 else (second, first)
        moved = ends >= self._num_kept
        needed = self._needed.nonzero().squeeze(1).to(ends.device)
        limit = self._block.num_src if anywhere else self._block.num_dst
        goals = needed[(needed >= self._num_kept) & (needed < limit)]
        if not len(goals):
            goals = torch.arange(self._num_kept, limit, device=ends.device)
        count = torch.arange(int(moved.sum()), device=ends.device)
        starts, ends = starts.clone(), ends.clone()
        starts[moved] = needed[count % len(needed)].to(starts.dtype)
        # As many as there are at the first of them, then ever fewer, so that all degrees differ.
        places = ((count.double() / max(len(count), 1)).square() * len(goals)).long()
        ends[moved] = goals[places].to(ends.dtype)
        return (starts, ends) if place == 1 else (ends, starts)

    def _csc_block(self) -> Block:
        """Return the block with other edges; with its own where these have types, which the others would not have."""
        block = self._block
        if block.types is not None:
            if self._num_more:
                raise CannotBeMadeError
            return block
        starts, ends = self._moved(*block.edge_index)
        indptr = nn.functional.pad(torch.bincount(ends, minlength=block.num_dst).cumsum(0), (1, 0))
        return dataclasses.replace(
            block, indptr=indptr, indices=starts.to(block.indices.dtype), num_src=block.num_src + self._num_more
        )

    def _matrix(self, matrix: Tensor) -> Tensor:
        """Return a matrix with entries for other edges: [num_dst or num_src, num_src], or transposed."""
        block = self._block
        indices, values = coordinates_of(matrix)
        place = self._place_of_ends(indices[0], indices[1])
        shape = tuple(matrix.shape if place == 0 else reversed(matrix.shape))
        if matrix.dim() != 2 or place is None or shape not in ((block.num_dst, block.num_src), (block.num_src,) * 2):
            return matrix
        square = shape[0] == shape[1]
        size = [block.num_src + self._num_more if square else block.num_dst, block.num_src + self._num_more]
        rows, columns = self._moved(indices[0], indices[1], place, anywhere=self._anywhere and square)
        return matrix_of(matrix, rows, columns, values, size if place == 0 else size[::-1])

    def _dgl_block(self, graph: Any) -> Any:
        """Return a block of DGL with other edges; out-degrees, which ranks count together, stay."""
        check_is_of_block(graph, self._block)
        edges = self._moved(*graph.edges(order="eid"))
        size = (graph.num_src_nodes() + self._num_more, graph.num_dst_nodes())
        degrees = nn.functional.pad(graph.out_degrees(), (0, self._num_more), value=1)
        return dgl_block_of(graph, edges, size, degrees, self._rows)

    def _rows(self, rows: Tensor) -> Tensor:
        """Return rows of nodes, others for those that do not matter to the kept ones; all else as it is.

        Where there are as many edges as nodes, rows may be of either: those of the edges that stay do so, too.
        """
        block = self._block
        if rows.dim() == 0 or len(rows) not in (block.num_src, block.num_dst):
            return rows
        is_of_sources = len(rows) == block.num_src
        stays = self._needed
        if self._alone or not is_of_sources:
            stays = torch.arange(len(rows), device=rows.device) < self._num_kept
        if len(rows) == block.num_edges:
            stays = stays | (torch.arange(len(rows), device=stays.device) < self._num_edges)
        other = 1 - 2 * rows if rows.is_floating_point() else rows
        changed = torch.where(stays.to(rows.device).view(-1, *[1] * (rows.dim() - 1)), rows, other)
        if not is_of_sources or not self._num_more:
            return changed
        return torch.cat([changed, other[torch.arange(self._num_more, device=rows.device) % len(rows)]])


def is_matrix(tensor: Tensor) -> bool:
    """Whether a tensor is a sparse one."""
    return tensor.layout in _SPARSE


def is_edge_list(tensor: Tensor) -> bool:
    """Whether a tensor may be an ``edge_index``."""
    return tensor.dim() == 2 and len(tensor) == 2 and tensor.dtype in _DTYPES_OF_IDS


def coordinates_of(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the coordinates and the values of a sparse matrix, in their order."""
    coordinates = matrix if matrix.layout == torch.sparse_coo else matrix.to_sparse(layout=torch.sparse_coo)
    return coordinates._indices(), coordinates._values()  # noqa: SLF001 - as they are


def check_is_of_block(graph: Any, block: Block) -> None:
    """Refuse a block of DGL of several relations, or of other sources than a block has."""
    if len(graph.canonical_etypes) != 1 or graph.num_src_nodes() != block.num_src:
        raise CannotBeMadeError


def dgl_block_of(
    like: Any, edges: tuple[Tensor, Tensor], size: tuple[int, int], degrees: Tensor, rows_of: Callable[[Tensor], Tensor]
) -> Any:
    """Return a block of DGL with other edges, numbers of nodes, out-degrees, and rows that a function makes."""
    import dgl

    made = dgl.create_block(edges, num_src_nodes=size[0], num_dst_nodes=size[1], idtype=like.idtype, device=like.device)
    for frame, other in ((like.srcdata, made.srcdata), (like.dstdata, made.dstdata), (like.edata, made.edata)):
        for name, rows in frame.items():
            other[name] = rows_of(rows)

    def out_degrees(u: Any = None, etype: Any = None) -> Tensor:
        del etype
        return degrees if u is None else degrees[u]

    made.out_degrees = out_degrees
    return made


def matrix_of(like: Tensor, rows: Tensor, columns: Tensor, values: Tensor, size: list[int]) -> Tensor:
    """Return a sparse matrix of another one's layout; entries in one place stay apart, as each counts as an edge."""
    by_columns = like.layout == torch.sparse_csc
    major, minor = (columns, rows) if by_columns else (rows, columns)
    order = major.argsort(stable=True)
    major, minor, values = major[order], minor[order], values[order]
    if like.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(
            torch.stack([major, minor]),
            values,
            size,
            device=values.device,
            is_coalesced=True if like.is_coalesced() else None,
        )
    starts = nn.functional.pad(torch.bincount(major, minlength=size[by_columns]).cumsum(0), (1, 0))
    return torch.sparse_compressed_tensor(starts, minor, values, size, layout=like.layout, device=values.device)
