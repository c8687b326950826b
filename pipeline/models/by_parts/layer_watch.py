"""Watches the operations of a layer that several ranks run on a block, the first time: results must be rows of nodes.

A rank has the rows of all sources and all in-edges of its destinations. So a row is right if it comes from sources,
along edges, by a reduction to their destinations, once. Indices are known by their values: these are the ends of the
block's edges, or of a list that the layer has made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.edge_lists import (
    DESTINATIONS,
    EDGES,
    NODES,
    EdgeLists,
)
from headrace.pipeline.models.by_parts.edge_steps import EdgeSteps
from headrace.pipeline.models.by_parts.matrices import is_matrix
from headrace.pipeline.models.by_parts.row_places import Place
from headrace.pipeline.models.by_parts.row_rules import ABOUT, users_line, without_underscore
from headrace.pipeline.models.by_parts.seam import storage_of, writes_in_place

#: Blocks of fewer destinations may have the sizes of other things.
_FEW = 4


class LayerWatch(EdgeSteps):
    """Runs a layer, and refuses what does not give a destination the row that it has in one process.

    Parameters
    ----------
    module
        The layer.
    ends: int64[num_edges], int64[num_edges]
        Sources and destinations of the block's edges.
    num_src, num_dst
        The numbers of its nodes.
    number
        The number of the layer, for errors.
    advice
        Ends them.
    """

    def __init__(
        self, module: nn.Module, ends: tuple[Tensor, Tensor], num_src: int, num_dst: int, number: int, advice: str
    ) -> None:
        super().__init__(module, "cooperative", advice, EdgeLists(*ends, num_dst))
        self._num_src, self._num_dst, self._layer = num_src, num_dst, number
        self._has_few = False
        self._numbers.suspect((num_src, num_dst, len(ends[0])))

    @property
    def is_sure(self) -> bool:
        """Whether the watch has shown all: few edges, or loops alone, may look like others."""
        return super().is_sure and self.lists.is_sure and not self._has_few and self._num_dst > _FEW

    def refusal(self, problem: str) -> InputError:
        """Return the error for a layer that is not exact."""
        return InputError(
            f"cooperative: expected layer {self._layer} to give a node the same row whatever edges and rows other "
            f"nodes have, of which each rank has some, got {problem}; {self._advice}"
        )

    def enter_arguments(self, values: Iterable[Any]) -> None:
        """Know tensors with a value for each node or edge by their sizes."""
        for value in values:
            if is_matrix(value):
                self._hold(value, self._others)
            elif isinstance(value, Tensor) and value.layout == torch.strided and not self._is_known(storage_of(value)):
                self._enter_argument(value)

    def enter_rows(self, value: Tensor) -> None:
        """Know rows of nodes; those of destinations may be the first ones of the sources'."""
        if storage_of(value) not in self._rows:
            self.mark_rows(value, NODES)

    def row_by_row(self, call: Callable[[], Any], rows: Tensor) -> Any:
        """Return the result of a module that works row by row by itself."""
        with self._pause():
            place, out = self._place(rows), call()
            if storage_of(rows) in self._uniform:  # a single one
                self._hold(out, self._uniform)
                return out
            if place is None:
                raise self.refusal(self.named(f"takes some of the rows {users_line()}"))
            self._mark(out, place._replace(number=0))
            return out

    def aggregated(self, call: Callable[[], Any], rows: Tensor, index: Any, dim: int) -> Any:
        """Return the result of an aggregation of edges by their destinations."""
        with self._pause():
            out, problem = call(), "aggregates without an index"
            if self._is_any_index(index):
                problem = self._reduce(dim % out.dim(), index, rows, None, [out])
        if problem:
            raise self.refusal(self.named(f"{problem} {users_line()}"))
        return out

    def step(self, call: Callable[[], Any], values: Iterable[tuple[Tensor, set[int]]], space: int) -> Any:
        """Return rows of a space from a step that is known as a whole.

        Parameters
        ----------
        call
            Runs it.
        values
            Its operands, each with the spaces that its rows may be of.
        space
            That of its result.
        """
        with self._pause():
            for one, spaces in values:
                place, key = self._place(one), storage_of(one)
                if (place is None and key in (*self._rows, *self._mixed)) or (place and place.space not in spaces):
                    problem = f"passes messages twice, or along other edges {users_line()}"
                    raise self.refusal(self._mixed.get(key) or self.named(problem))
                if not self._is_known(key):
                    raise self.refusal(self.named(f"uses results of operations that cannot be seen {users_line()}"))
            out = call()
            self.mark_rows(out, space)
            return out

    def brought(self, call: Callable[[], Tensor], space: int = NODES) -> Tensor:
        """Return rows of nodes that are right as they come, of all sources by default."""
        with self._pause():
            out = call()
            self.mark_rows(out, space)
            return out

    def _mark(self, value: Tensor, place: Place) -> None:
        super()._mark(value, place)
        self._has_few |= storage_of(value) in self._uniform  # a single row looks like one that is the same for all

    def _enter_argument(self, value: Tensor) -> None:
        if self._is_index(value):
            return
        if value.dim() == 1 and value.dtype in (torch.int64, torch.int32) and self.lists.are_starts(value):
            self._hold(value, self._starts)
            return
        sizes = {self._num_dst: NODES, self._num_src: NODES, self.lists.number(EDGES): EDGES}
        for dim, size in enumerate(value.shape):
            if size in sizes and size > 1 and value.stride(dim):
                self.mark_rows(value, sizes[size], dim)
                return
        self._hold(value, self._others)

    def _is_known(self, key: int) -> bool:
        return (
            super()._is_known(key)
            or key in self._indices
            or key in (*self._orders, *self._positions, *self._starts, *self._matrices)
        )

    def _place(self, value: Tensor) -> Place | None:
        """Return where a tensor has rows: of nodes also those of the first ones, which all destinations are among."""
        place = super()._place(value)
        rows = self._rows.get(storage_of(value))
        if place is not None or rows is None or rows.space >= EDGES or storage_of(value) in self._mixed:
            return place
        if not 0 <= value.storage_offset() - rows.offset < rows.stride:
            return None
        for number in (self._num_dst, self._num_src):
            place = rows._replace(number=number).place_in(value) if number <= rows.number else None
            if place is not None:
                return place
        return None

    def _misplaced(
        self, name: str, tensors: Sequence[Tensor], rows: Sequence[tuple[Tensor, Place]], plain: str = ""
    ) -> str:
        if len({max(at.space, DESTINATIONS) for _, at in rows}) > 1:
            return f"lets rows of nodes and edges, or of different edges, meet by position, in {name}"
        return super()._misplaced(name, tensors, rows, plain)

    def _know_rows(
        self,
        plain: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        rows: Sequence[tuple[Tensor, Place]],
        results: Sequence[Tensor],
    ) -> None:
        super()._know_rows(plain, args, kwargs, rows, results)
        space = max(at.space for _, at in rows)
        for one in (*results, *(args[:1] if plain == "__setitem__" else ())):
            known = self._rows.get(storage_of(one))
            if known is not None and known.space < space:
                self._rows[storage_of(one)] = known._replace(space=space)

    def check(self, out: Any, *, some: bool = False) -> None:
        """Refuse a result whose first table does not have rows of nodes, or any part that mixes them."""
        leaves = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        for one in leaves:
            if storage_of(one) in self._mixed:
                raise self.refusal(self._mixed[storage_of(one)])
        tables = [one for one in leaves if one.is_floating_point() and one.layout == torch.strided and one.dim()]
        super().check(tables[:1], some=some)
        for one in tables[:1]:
            place = self._place(one)
            if place is not None and (place.space >= EDGES or place.dim):
                raise self.refusal(self.named("returns rows of edges, or not in the first dimension"))

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of torch, and know its results for what they are."""
        kwargs = dict(kwargs or {})
        if self.is_paused:
            return func(*args, **kwargs)
        name: str = getattr(func, "__name__", "")
        plain = without_underscore(name)
        attribute = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        indices = [one for one in tensors if self._is_index(one)]
        if (attribute or name) in ABOUT | {"shape", "dtype", "device", "is_sparse", "layout", "is_cuda", "grad_fn"}:
            if indices and (attribute or name) in ("shape", "size", "__len__", "numel"):
                return self._size_of_index(attribute or name, indices[0], func(*args, **kwargs))
            return super().__torch_function__(func, types, args, kwargs)
        if name == "arange":
            out = func(*args, **kwargs)
            if out.dtype == torch.int64 and torch.equal(out, torch.arange(len(out), device=out.device)):
                self._hold(out, self._indices)
                return out
        if any(storage_of(one) in self._mixed for one in tensors):
            return super().__torch_function__(func, types, args, kwargs)
        call = self._step(plain, args, kwargs, indices)
        if call is None:
            return super().__torch_function__(func, types, args, kwargs)
        out = func(*args, **kwargs)
        results = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        problem = call(results)
        if problem:
            if not results and not writes_in_place(name):
                raise self.refusal(self.named(f"{problem}, in {name} {users_line()}"))
            for one in (*results, *(args[:1] if writes_in_place(name) else ())):
                self._mixed[storage_of(one)] = self.named(f"{problem}, in {name} {users_line()}")
                self._held.append(one)
        return out

    def _size_of_index(self, name: str, index: Tensor, out: Any) -> Any:
        return self._numbers.size(name, index, Place(index.dim() - 1, 1, index.shape[-1]) if index.dim() else None, out)
