"""The input of a layer with the last destinations of a block alone, as a rank has it that owns these."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from headrace.pipeline.data.block import Block
from headrace.pipeline.models.bound_block import BoundBlock
from headrace.pipeline.models.other_nodes import (
    CannotBeMadeError,
    OtherNodes,
    check_is_of_block,
    coordinates_of,
    dgl_block_of,
    is_edge_list,
    is_matrix,
    matrix_of,
)
from headrace.pipeline.models.running_batch import RunningBatch


class FewerNodes:
    """A function of one argument of a layer, which returns what a rank with fewer destinations would pass.

    The numbers of nodes and edges are smaller, and another node is first. A layer whose rows depend on these returns
    other rows for the destinations that are left. An argument that may be of edges as well as of nodes is not guessed.

    Parameters
    ----------
    others
        The destinations that are left out: those that it keeps.
    """

    def __init__(self, others: OtherNodes) -> None:
        block, first = others.block, others.num_kept
        self._block = block
        self._starts, self._ends = block.edge_index
        stays = self._ends >= first
        left = torch.arange(first, block.num_dst, device=stays.device)
        starts = self._starts[stays].unique()
        self._sources = torch.cat([left, starts[(starts < first) | (starts >= block.num_dst)]])
        self._numbers = torch.full((block.num_src,), -1, device=stays.device)
        self._numbers[self._sources] = torch.arange(len(self._sources), device=stays.device)
        self._stays = {block.num_edges: stays}  # which edges of a list of so many are left
        self.destinations = slice(first, block.num_dst)  # that are left
        self._num_dst = block.num_dst - first
        self.has_rows = False  # whether any argument so far had rows of nodes
        #: The block of the destinations that are left.
        self.block = self._block_of(stays)

    def __call__(self, argument: Any) -> Any:
        """Return the changed argument.

        Raises
        ------
        CannotBeMadeError
            If it is not clear what the argument is of.
        """
        if isinstance(argument, Tensor):
            return self._tensor(argument)
        if isinstance(argument, BoundBlock):
            return BoundBlock(self.block, argument._running)  # noqa: SLF001 - as `bind` made it
        if isinstance(argument, Block):
            return self.block
        if getattr(argument, "is_block", False):
            return self._dgl_block(argument)
        if type(argument) in (tuple, list):
            return type(argument)(self._pair(*argument) if len(argument) == 2 else map(self, argument))
        if argument is None or isinstance(argument, bool | int | float | str):
            return argument
        raise CannotBeMadeError

    def _block_of(self, stays: Tensor) -> Block:
        block = self._block
        return dataclasses.replace(
            block,
            indptr=self._indptr,
            indices=self._numbers[self._starts[stays]].to(block.indices.dtype),
            num_src=len(self._sources),
            num_dst=self._num_dst,
            edge_ids=None if block.edge_ids is None else block.edge_ids[stays],
            weight=None if block.weight is None else block.weight[stays],
            types=None if block.types is None else block.types.of(block.types.ids[self._sources]),
        )

    def running(self, running: RunningBatch, number: int) -> RunningBatch:
        """Return the batch in the layer of this number, as the rank has it."""
        blocks = running.batch.blocks
        batch = running.batch.replace(blocks=(*blocks[:number], self.block, *blocks[number + 1 :]))
        return dataclasses.replace(running, batch=batch, nodes=running.nodes[self._sources.to(running.nodes.device)])

    @property
    def _indptr(self) -> Tensor:
        indptr = self._block.indptr
        return indptr[self.destinations.start :] - indptr[self.destinations.start]

    def _pair(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return a pair of sources and destinations: of their numbers or rows."""
        sizes = self._block.num_src, self._block.num_dst
        if type(first) is type(second) is int and (first, second) == sizes:
            return len(self._sources), self._num_dst
        if isinstance(second, Tensor) and second.dim() and len(second) == sizes[1] not in self._stays:
            self.has_rows = True
            return self(first), second[self.destinations]
        return self(first), self(second)

    def _tensor(self, tensor: Tensor) -> Tensor:
        if is_matrix(tensor):
            return self._matrix(tensor)
        if tensor.layout != torch.strided:
            raise CannotBeMadeError
        if is_edge_list(tensor):
            return torch.stack(self._edges(tensor[0], tensor[1]))
        return self._rows(tensor)

    def _edges(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges that are left, of two rows of nodes of which one has the ends."""
        numbers = self._numbers.to(first.device)
        for ends in (second, first):
            stays = (ends >= self.destinations.start) & (ends < self.destinations.stop)
            made = [numbers[one[stays].long()].to(one.dtype) for one in (first, second)]
            # In the other direction, nodes would be among the starts that no edge to destinations has.
            if int(stays.sum()) >= int(self._indptr[-1]) and all(bool((one >= 0).all()) for one in made):
                self._stays[len(first)] = stays
                return made[0], made[1]
        raise CannotBeMadeError

    def _matrix(self, matrix: Tensor) -> Tensor:
        """Return a matrix of the edges that are left: [num_dst or num_src, num_src], or transposed."""
        indices, values = coordinates_of(matrix)
        sizes = {self._block.num_dst: self._num_dst, self._block.num_src: len(self._sources)}
        if matrix.dim() != 2 or not sizes.keys() >= set(matrix.shape):
            raise CannotBeMadeError
        rows, columns = self._edges(indices[0], indices[1])
        stays = self._stays[len(values)]
        return matrix_of(matrix, rows, columns, values[stays], [sizes[one] for one in matrix.shape])

    def _dgl_block(self, graph: Any) -> Any:
        """Return a block of DGL with the edges that are left; out-degrees, which ranks count together, stay."""
        check_is_of_block(graph, self._block)
        edges = self._edges(*graph.edges(order="eid"))
        degrees = graph.out_degrees()[self._sources]
        return dgl_block_of(graph, edges, (len(self._sources), self._num_dst), degrees, self._rows)

    def _rows(self, rows: Tensor) -> Tensor:
        """Return rows of the nodes or edges that are left; other numbers as they are."""
        block, size = self._block, len(rows) if rows.dim() else None
        of_edges, of_nodes = size in self._stays, size in (block.num_src, block.num_dst)
        are_ids = rows.dim() == 1 and rows.dtype in (torch.int64, torch.int32)
        if of_edges and of_nodes:
            raise CannotBeMadeError
        if of_nodes:
            self.has_rows = True
            return rows[self._sources.to(rows.device) if size == block.num_src else self.destinations]
        if of_edges and not (are_ids and any(torch.equal(rows, one.to(rows)) for one in (self._starts, self._ends))):
            return rows[self._stays[len(rows)].to(rows.device)]
        if of_edges or are_ids:
            raise CannotBeMadeError
        return rows
