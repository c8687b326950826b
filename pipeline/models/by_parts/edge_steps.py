"""Operations on the edges of a layer that is watched: lookups of rows, reductions, loops, masks, sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headrace.pipeline.models.by_parts.edge_lists import (
    DESTINATION,
    DESTINATIONS,
    EDGES,
    NODES,
    SOURCE,
    EdgeLists,
    End,
    index_in,
    only_index,
)
from headrace.pipeline.models.by_parts.matrices import OF_MATRICES, PRODUCTS_OF_MATRICES, ends_of_matrix, is_matrix
from headrace.pipeline.models.by_parts.row_places import Place
from headrace.pipeline.models.by_parts.row_rules import ABOUT
from headrace.pipeline.models.by_parts.row_watch import RowWatch
from headrace.pipeline.models.by_parts.seam import NUMBERS, storage_of

#: Operations that look rows up, with the positions of the table, the dimension and the index.
_LOOKUPS = {"index_select": (0, 1, 2), "gather": (0, 1, 2), "embedding": (1, None, 0), "__getitem__": (0, None, 1)}

#: Operations that write or reduce rows by an index, with the positions of the dimension, the index and the rows.
_REDUCTIONS = {
    **dict.fromkeys(("scatter_add", "scatter_reduce", "scatter", "index_add", "index_reduce", "index_copy"), (1, 2, 3)),
    "__setitem__": (None, 1, 2),
}

#: Operations that leave an index one: by its values it is then the end of a list, or not.
_OF_INDICES = {
    "view", "view_as", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "expand_as", "unbind", "detach", "clone",
    "contiguous", "to", "long", "int", "flip", "stack", "cat", "concat", "concatenate", "repeat", "transpose", "t",
    "select", "chunk", "split", "narrow", "__getitem__", "index_select", "cpu", "cuda", "type", "__get__", "type_as",
    "broadcast_to", "movedim", "permute", "ravel", "max", "min", "amax", "amin", "copy",
    "repeat_interleave",
}  # fmt: skip

_EQUALITIES = {"eq", "ne", "__eq__", "__ne__"}


class EdgeSteps(RowWatch):
    """Knows the results of operations on edges and rows of nodes.

    Parameters
    ----------
    module, caller, advice
        As of `RowWatch`.
    lists
        The lists of edges.
    """

    def __init__(self, module: nn.Module, caller: str, advice: str, lists: EdgeLists) -> None:
        super().__init__(module, caller, advice)
        self.lists = lists
        self._indices: set[int] = set()
        self._orders: dict[int, tuple[int, int]] = {}
        self._positions: dict[int, int] = {}
        self._starts: set[int] = set()
        self._matrices: set[int] = set()

    def mark_rows(self, value: Tensor, space: int, dim: int = 0) -> None:
        """Know a tensor for rows of a space."""
        self._others.discard(storage_of(value))
        self._mark(value, Place(dim, 1, 0, 0, space))

    def _is_index(self, value: Tensor) -> bool:
        """Whether a tensor has positions of nodes; those that are known by their values are noted."""
        key = storage_of(value)
        if key in self._indices:
            return True
        is_whole = value.dtype in (torch.int64, torch.int32) and value.dim() in (1, 2) and value.numel() > 1
        if not is_whole or key in self._rows or value.shape[-1] not in self.lists.lengths():
            return False
        rows = value if value.dim() == 2 else value[None]
        if len(rows) > 2 or not any(self.lists.end_of(one) for one in rows):
            return False
        self._others.discard(key)
        self._hold(value, self._indices)
        return True

    def _step(
        self, plain: str, args: Sequence[Any], kwargs: dict[str, Any], indices: Sequence[Tensor]
    ) -> Callable[[list[Tensor]], str] | None:
        """Return what knows the results of an operation on edges, or tells its problem; None for other operations."""
        if "sparse_coo_tensor" in plain and len(args) > 1 and self._is_any_index(args[0]):
            return lambda results: self._build_matrix(args[0], args[1], results)
        matrices = [one for one in args[:2] if is_matrix(one)]
        if matrices:
            return self._step_of_matrix(plain, args, matrices[0])
        if plain in ("sub", "__sub__", "diff") and all(self._are_starts(one) for one in args[:2]):
            return lambda results: self.mark_rows(results[0], DESTINATIONS) or ""  # type: ignore[func-returns-value]
        if plain in _REDUCTIONS:
            dim, index, rows = self._arguments_of_reduction(plain, args, kwargs)
            if isinstance(index, Tensor) and not index.is_floating_point() and not index.numel():
                return lambda results: self._keep_target(args[0], results)
            if isinstance(index, Tensor) and storage_of(index) in self._positions and plain == "index_copy":
                return lambda results: self._put_back(dim, index, rows, results)
            if self._is_any_index(index):
                return lambda results: self._reduce(dim, index, rows, args[0], results)
        if plain == "index_put" and indices:
            return lambda _: "writes rows by several indices"
        if plain == "bincount" and indices:
            weights = args[1] if len(args) > 1 else kwargs.get("weights")
            return lambda results: self._reduce(0, args[0], 1 if weights is None else weights, None, results)
        if plain in _LOOKUPS:
            table, dim, index = self._arguments_of_lookup(plain, args, kwargs)
            if isinstance(index, Tensor) and not index.is_floating_point() and not index.numel():
                return lambda results: self._hold(results[0], self._uniform) or ""  # type: ignore[func-returns-value]
            if isinstance(index, Tensor) and storage_of(index) in self._positions and self._is_rows(table):
                return lambda results: self._choose_nodes(table, dim, index, results)
            if isinstance(index, Tensor) and storage_of(index) in self._orders:
                return lambda results: self._permute(table, dim, index, results)
            if isinstance(index, Tensor) and self._is_any_index(index) and not self._is_any_index(table):
                return lambda results: self._look_up(table, dim, index, results)
        if plain == "addmm" and not self._is_rows(args[2]) and not indices:
            return lambda results: self._add_product(args[0], args[1], results)
        if plain == "nonzero" and self._is_mask(args[0]):
            return lambda results: self._hold_positions(args[0], results)
        mask = self._edge_mask(plain, args)
        if mask is not None:
            return lambda results: self._choose(plain, args, *mask, results)
        if plain in ("cat", "concat", "concatenate") and not indices:
            return self._concatenation(args, kwargs)
        if not indices:
            return None
        if plain in _EQUALITIES:
            return lambda results: self._compare(args, results)
        if plain in ("argsort", "sort"):
            return lambda results: self._sort(args[0], results)
        return lambda results: self._derive(plain, indices, results)

    def _is_any_index(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self._is_index(value)

    def _are_starts(self, value: Any) -> bool:
        return isinstance(value, Tensor) and storage_of(value) in self._starts

    def _build_matrix(self, indices: Tensor, values: Tensor, results: list[Tensor]) -> str:
        ends = [self.lists.end_of(one) for one in indices] if indices.dim() > 1 else []
        place = self._place(values)
        if len(ends) != 2 or None in ends:
            return "builds a matrix of other edges"
        spaces = [one.space for one in ends if one is not None]
        is_uniform = storage_of(values) in self._uniform
        ends_ = [one.end for one in ends if one is not None]
        if ends_ != [DESTINATION, SOURCE] or spaces[0] != spaces[1]:
            return "builds a matrix of edges that has no row for each destination"
        if not is_uniform and (place is None or place.space != spaces[0] or place.dim or place.inner > 1):
            return "builds a matrix of values of other edges"
        self._matrices.add(id(results[0]))
        self._held.append(results[0])
        return ""

    def _step_of_matrix(self, plain: str, args: Sequence[Any], matrix: Tensor) -> Callable[[list[Tensor]], str] | None:
        if id(matrix) not in self._matrices:
            if id(matrix) not in self._others or not self.lists.are_of_block(*ends_of_matrix(matrix)):
                return lambda _: "computes with a sparse matrix that is not one of the block's edges"
            self._matrices.add(id(matrix))
            self._held.append(matrix)
        if plain in OF_MATRICES:
            return self._keep_matrix
        if plain in PRODUCTS_OF_MATRICES and args[0] is matrix:
            return lambda results: self._multiply(args[1], results)
        if plain == "crow_indices":
            return lambda results: self._hold(results[0], self._starts) or ""  # type: ignore[func-returns-value]
        if plain in ABOUT or plain in ("is_sparse", "__get__"):
            return None
        return lambda _: "computes with a sparse matrix"

    def _keep_matrix(self, results: list[Tensor]) -> str:
        self._matrices.update(map(id, results))
        self._held += results
        return ""

    def _multiply(self, rows: Any, results: list[Tensor]) -> str:
        place = self._place(rows) if isinstance(rows, Tensor) else None
        if isinstance(rows, Tensor) and storage_of(rows) in self._uniform:
            place = Place(0, 1, 0)
        if place is None or place.dim or place.inner > 1 or place.mask or place.space != NODES:
            return "passes messages twice, or multiplies a matrix by what has no row for each source"
        self.mark_rows(results[0], DESTINATIONS)
        return ""

    def _keep_target(self, target: Tensor, results: list[Tensor]) -> str:
        """Know a table to which no rows were written for one as before."""
        for one in results:
            self._hold(one, self._uniform if storage_of(target) in self._uniform else self._others)
            if storage_of(target) in self._rows:
                self._others.discard(storage_of(one))
                self._rows[storage_of(one)] = self._rows[storage_of(target)]._replace(offset=int(one.storage_offset()))
        return ""

    def _is_rows(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self._place(value) is not None

    def _add_product(self, rows: Tensor, factor: Tensor, results: list[Tensor]) -> str:
        places = [self._place(rows), self._place(factor)]
        if any(one is None or one.dim or one.inner > 1 for one in places):
            return "adds rows to others"
        spaces = {max(one.space, DESTINATIONS) for one in places if one is not None}
        if len(spaces) > 1:
            return "adds rows to others"
        self.mark_rows(results[0], max(one.space for one in places if one is not None))
        return ""

    def _hold_positions(self, mask: Tensor, results: list[Tensor]) -> str:
        """Know the positions that a mask of nodes chooses: rows are looked up and put back by them."""
        place = self._place(mask)
        if len(results) != 1 or place is None or place.space >= EDGES:
            return "looks for positions of rows"
        self._positions[storage_of(results[0])] = storage_of(mask)
        self._held += [mask, results[0]]
        return ""

    def _choose_nodes(self, table: Tensor, dim: int, index: Tensor, results: list[Tensor]) -> str:
        place = self._place(table)
        if place is None or place.space >= EDGES or place.dim != dim % table.dim() or place.inner > 1 or place.mask:
            return "looks rows up by positions of others"
        self._mark(results[0], place._replace(number=0, mask=self._positions[storage_of(index)]))
        return ""

    def _put_back(self, dim: int, index: Tensor, rows: Any, results: list[Tensor]) -> str:
        one, place, key = results[0], self._place(rows), self._positions[storage_of(index)]
        is_single = place is None and len(index) == 1
        if not is_single and (place is None or place.mask != key or place.dim != dim % one.dim() or place.inner > 1):
            return "writes rows to positions of others"
        self.mark_rows(one, DESTINATIONS, dim % one.dim())
        return ""

    def _derive(self, plain: str, indices: Sequence[Tensor], results: list[Tensor]) -> str:
        """Know what is made of indices: others, sizes, or a problem."""
        if plain in NUMBERS and plain != "__bool__" and indices[0].numel() == 1:
            return ""
        is_bound = all(one.numel() == 1 for one in (*indices, *results)) and plain in ("add", "__add__", "maximum")
        if (plain in _OF_INDICES or is_bound) and all(one.dtype in (torch.int64, torch.int32) for one in results):
            for one in results:
                self._uniform.discard(storage_of(one))
                self._hold(one, self._indices)
            return ""
        return "computes with the positions of nodes"

    def _compare(self, args: Sequence[Any], results: list[Tensor]) -> str:
        ends = [self.lists.end_of(one) if isinstance(one, Tensor) and one.dim() == 1 else None for one in args[:2]]
        if ends[0] is None or ends[1] is None or ends[0].space != ends[1].space:
            return "compares the positions of nodes"
        self.mark_rows(results[0], ends[0].space)
        return ""

    def _sort(self, index: Tensor, results: list[Tensor]) -> str:
        end = self.lists.end_of(index) if index.dim() == 1 else None
        if end is None:
            return "sorts positions of nodes"
        space = self.lists.chosen(end.space, results[-1])
        for one in results[:-1]:
            self._hold(one, self._indices)
        self._orders[storage_of(results[-1])] = end.space, space
        self._held.append(results[-1])
        return ""

    def _permute(self, table: Tensor, dim: int, order: Tensor, results: list[Tensor]) -> str:
        old, new = self._orders[storage_of(order)]
        if self._is_any_index(table):
            self._hold(results[0], self._indices)
            return ""
        place = self._place(table)
        if place is None or place.space != old or place.dim != dim % table.dim() or place.inner > 1:
            return "looks rows up in an order of edges that is not theirs"
        self._mark(results[0], place._replace(number=0, space=new))
        return ""

    @staticmethod
    def _arguments_of_lookup(plain: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, int, Any]:
        at_table, at_dim, at_index = _LOOKUPS[plain]
        table = args[at_table] if len(args) > at_table else kwargs.get("input", kwargs.get("weight"))
        index = args[at_index] if len(args) > at_index else kwargs.get("index")
        dim = 0 if at_dim is None else args[at_dim] if len(args) > at_dim else kwargs.get("dim", 0)
        if plain == "__getitem__" and isinstance(index, tuple):
            dim, index = only_index(index)
        return table, dim, index

    @staticmethod
    def _arguments_of_reduction(plain: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[int, Any, Any]:
        at_dim, at_index, at_rows = _REDUCTIONS[plain]
        names = ("src", "source", "value")
        rows = args[at_rows] if len(args) > at_rows else next((kwargs[one] for one in names if one in kwargs), None)
        index = args[at_index] if len(args) > at_index else kwargs.get("index")
        dim = 0 if at_dim is None else args[at_dim] if len(args) > at_dim else kwargs.get("dim", 0)
        if plain == "__setitem__" and isinstance(index, tuple):
            dim, index = only_index(index)
        return dim, index, rows

    def _look_up(self, table: Tensor, dim: int, index: Tensor, results: list[Tensor]) -> str:
        end = self.lists.end_of(index_in(index, dim % max(1, table.dim())))
        out = results[0]
        if end is None:
            return "looks rows up by an index that is not an end of edges"
        if storage_of(table) in self._uniform:
            self._hold(out, self._uniform)
            return ""
        place = self._place(table)
        if place is None or place.space >= EDGES or place.dim != dim % table.dim() or place.inner > 1 or place.mask:
            return "looks up by nodes what has no row for each node"
        if place.space == DESTINATIONS and end.end != DESTINATION:
            return "passes messages twice, or reads degrees or other sums of sources"
        self._mark(out, Place(place.dim, 1, 0, 0, end.space))
        return ""

    def _reduce(self, dim: int, index: Tensor, rows: Any, target: Tensor | None, results: list[Tensor]) -> str:
        one = results[0] if results else target
        assert one is not None
        dim = dim % one.dim()
        plain_index, end = index_in(index, dim), None
        place = self._place(rows) if isinstance(rows, Tensor) else None
        if place is not None:
            end = self._end_of_rows(plain_index, place)
            same = place.dim - rows.dim() == dim - one.dim() and place.inner == 1 and not place.mask
            if end is None or not same:
                return "reduces rows by other nodes than the destinations of their own edges"
        elif not isinstance(rows, Tensor) or storage_of(rows) in self._uniform or rows.numel() == 1:
            end = self.lists.end_of(plain_index, end=DESTINATION)
        else:
            return "reduces what has no row for each edge"
        if end is None or end.end != DESTINATION:
            return "reduces by other nodes than destinations: a rank has not all edges of these"
        if target is not None and target.numel() > 1 and storage_of(target) not in self._uniform:
            at = self._place(target)
            if at is None or at.space >= EDGES or at.dim != dim:
                return "adds to what has no row for each node"
        self._uniform.discard(storage_of(one))
        self.mark_rows(one, DESTINATIONS, dim)
        return ""

    def _end_of_rows(self, index: Tensor, place: Place) -> End | None:
        """Return the end that an index has of the edges that rows belong to: destinations, if both ends are equal."""
        if place.space == DESTINATIONS and torch.equal(index.long(), torch.arange(len(index), device=index.device)):
            return End(DESTINATIONS, DESTINATION)  # of loops, a row for each destination
        return None if place.space < EDGES else self.lists.end_of(index, place.space, DESTINATION)

    def _edge_mask(self, plain: str, args: Sequence[Any]) -> tuple[int, Tensor, Place] | None:
        """Return the dimension in which a mask chooses edges, the mask, and its place."""
        if plain not in ("__getitem__", "__setitem__"):
            return None
        dim, mask = only_index(args[1]) if isinstance(args[1], tuple) else (0, args[1])
        place = self._place(mask) if isinstance(mask, Tensor) and mask.dtype == torch.bool else None
        return None if place is None or place.space < EDGES or mask.dim() != 1 else (dim, mask, place)

    def _choose(
        self, plain: str, args: Sequence[Any], dim: int, mask: Tensor, place: Place, results: list[Tensor]
    ) -> str:
        space, table = self.lists.chosen(place.space, mask), args[0]
        if self._is_index(table):
            if plain == "__setitem__":
                return "writes positions of nodes"
            self._hold(results[0], self._indices)
            return ""
        at = self._place(table)
        is_uniform = storage_of(table) in self._uniform
        if not is_uniform and (at is None or at.space != place.space or at.dim != dim % table.dim() or at.inner > 1):
            return "chooses by a mask of edges among others"
        if plain == "__getitem__":
            if is_uniform:
                self._hold(results[0], self._uniform)
            else:
                self._mark(results[0], Place(dim % table.dim(), 1, 0, 0, space))
            return ""
        value = args[2]
        if isinstance(value, Tensor) and value.numel() > 1 and storage_of(value) not in self._uniform:
            of_value = self._place(value)
            if of_value is None or of_value.dim or max(of_value.space, DESTINATIONS) != space:
                return "writes by a mask of edges rows of others"
        self.mark_rows(table, place.space, dim % table.dim())
        return ""

    def _concatenation(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[list[Tensor]], str] | None:
        """Return what knows edges with loops behind them, or rows with nothing behind them."""
        parts = [one for one in (args[0] if args else kwargs["tensors"]) if one.numel()]
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        first = self._place(parts[0]) if parts else None
        if first is None or first.dim != dim % parts[0].dim() or first.inner > 1:
            return None
        if len(parts) == 1:
            return lambda results: self._mark(results[0], first._replace(number=0)) or ""  # type: ignore[func-returns-value]
        if first.space < EDGES or len(parts) != 2:
            return None
        loops = self._place(parts[1])
        is_uniform = storage_of(parts[1]) in self._uniform
        if not is_uniform and (loops is None or loops.space >= EDGES or loops.dim != first.dim or loops.inner > 1):
            return None
        space = self.lists.with_loops(first.space, parts[1].shape[first.dim])
        if space is None:
            return None
        return lambda results: self._mark(results[0], first._replace(number=0, space=space)) or ""  # type: ignore[func-returns-value]
