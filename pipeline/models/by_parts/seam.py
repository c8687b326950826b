"""Watches the operations of a layer's messages: reductions to destinations, and all that does not work edge by edge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._pytree import tree_leaves, tree_map

from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.row_rules import (
    ABOUT,
    CONSTANT,
    COUNTS,
    chooses_rows,
    problem_of_rows,
    users_line,
    without_underscore,
)
from headrace.pipeline.models.by_parts.seen_indices import SeeingIndices
from headrace.pipeline.models.by_parts.statistics import Kind
from headrace.pipeline.models.replace_modules import drop_elements

#: Reductions by an index, with the names of their arguments.
_REDUCTIONS = {
    "scatter_add": ("dim", "index", "src"),
    "index_add": ("dim", "index", "source"),
    "scatter_reduce": ("dim", "index", "src", "reduce"),
    "index_reduce": ("dim", "index", "source", "reduce"),
}
_KINDS: dict[str, Kind] = {"sum": "sum", "amax": "max", "amin": "min"}

#: What makes a number of Python of a tensor.
NUMBERS = {"item", "tolist", "__bool__", "__float__", "__int__", "__index__", "numpy", "__array__"}

#: Other operations that write by an index.
_WRITES = {"scatter", "index_copy", "index_fill", "index_put", "masked_scatter", "segment_reduce", "bincount"}

#: What may be asked of the destinations of edges.
_OF_DESTINATIONS = ABOUT | {
    "expand", "expand_as", "view", "view_as", "unsqueeze", "reshape", "squeeze", "flatten", "contiguous", "to",
    "long", "detach", "index_select", "gather", "__getitem__", "embedding",
}  # fmt: skip


#: Operations that look rows up by an index.
_LOOKUPS = {"index_select", "gather", "__getitem__", "embedding"}

#: Operations of which all numbers are sizes.
_SIZED = {"new_zeros", "new_ones", "new_empty", "view", "reshape", "expand"}


class Count(int):
    """How many destinations there are, for messages: ranks have other numbers, so it may be a size alone."""


class Unknown(BaseException):
    """Ends a run at a reduction of messages that depend on one that is not known yet; no layer should catch it."""


class Seam(SeeingIndices):
    """Runs a function of messages for the edges of one part.

    Parameters
    ----------
    reduce
        Called for each reduction with its kind and the messages; returns the reduced rows, [num_dst, ...], and whether
        they are known already.
    num_dst
        Destinations.
    edge_ids: int64[n]
        Of the edges of this part: masks of dropout belong to them.
    key
        The key of these masks.
    aliases
        By `id`, what stands for tensors of the outside, so that their gradients are found.
    """

    def __init__(
        self,
        reduce: Callable[[Kind, Tensor], tuple[Tensor, bool]],
        num_dst: int,
        edge_ids: Tensor,
        key: int,
        aliases: Mapping[int, Tensor],
    ) -> None:
        super().__init__()
        self._reduce, self._num_dst = reduce, num_dst
        self._edge_ids, self._key, self._aliases = edge_ids, key, aliases
        self._num_edges, self._num_masks = len(edge_ids), 0
        #: By storage; tensors are held, so that no other one gets theirs.
        self._of_edges: dict[int, Tensor] = {}
        self._of_rows: dict[int, Tensor] = {}  # of destinations
        self._destinations: dict[int, Tensor] = {}
        self._unknown: dict[int, Tensor] = {}
        self._constants: dict[int, Tensor] = {}
        #: Tensors with gradients that were used, by `id`.
        self.used: dict[int, Tensor] = {}

    def close(self) -> None:
        """Let go of all tensors, and of what was asked for reductions, which knows this."""
        del self._reduce
        for held in (self._of_edges, self._of_rows, self._destinations, self._unknown, self._constants, self.used):
            held.clear()

    def rows_of_edges(self, values: Iterable[Any]) -> None:
        """Take tensors for those that have a row for each edge."""
        for value in values:
            if isinstance(value, Tensor) and value.dim() and len(value) == self._num_edges:
                self._of_edges[storage_of(value)] = value

    def destinations(self, index: Tensor) -> Tensor:
        """Return the destinations of edges, which layers may reduce messages by, and look rows up by."""
        index = index.clone()
        self._destinations[storage_of(index)] = index
        return index

    def is_destinations(self, value: object) -> bool:
        """Whether something is the destinations of edges, as they are or expanded."""
        return isinstance(value, Tensor) and not value.is_floating_point() and storage_of(value) in self._destinations

    def softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of scores, [n, ...], over the edges of each destination."""
        index = next(iter(self._destinations.values()))
        scores = self._aliases.get(id(scores), scores)
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - these operations are not the layer's
            total, is_known = self._reduce("logsumexp", scores)
            of_edges = total.index_select(0, index) if self._num_dst else scores.detach() + 0 * total.sum()
            out = (scores - of_edges).exp()
        self._of_edges[storage_of(out)] = out
        if not is_known:
            self._unknown[storage_of(out)] = out
        return out

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of torch, or what it stands for."""
        kwargs = dict(kwargs or {})
        name: str = getattr(func, "__name__", "")
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if not self._aliases:  # forward; what was computed meanwhile is no leaf
            used = [one for one in tensors if one.requires_grad and (one.is_leaf or not torch.is_grad_enabled())]
            self.used.update({id(one): one for one in used})
        if any(id(one) in self._aliases for one in tensors):
            args, kwargs = tree_map(self._alias, (tuple(args), kwargs))
            tensors = [self._alias(one) for one in tensors]
        plain = without_underscore(name)
        if plain in NUMBERS and any(self.is_unknown(one) for one in tensors):
            raise Unknown
        if plain in _REDUCTIONS and self._reduces_edges(tensors):
            return self._reduced(name, args, kwargs)
        if plain in _WRITES and self._reduces_edges(tensors):
            raise _refusal(f"writes messages by {name}, which is no sum, mean, maximum or minimum over destinations")
        index = [one for one in tensors if self.is_destinations(one)]
        if index:
            self._check_use(name, args, kwargs, index, tensors)
        of_edges = [one for one in tensors if self._is_of_edges(one)]
        problem = problem_of_rows(func, name, args, kwargs, of_edges) if of_edges else ""
        if of_edges and not problem and plain not in _SIZED and _has_count((args, kwargs)):
            problem = f"computes with the number of destinations, in {name}"
        of_rows = [one for one in tensors if storage_of(one) in self._of_rows]
        if of_rows and not problem and not (index and plain in _LOOKUPS):
            problem = self._problem_of_destinations(func, name, args, kwargs, of_rows)
        if not problem and name not in ABOUT and any(self._is_turned(one) for one in tensors):
            problem = f"uses rows of edges in another order of dimensions, in {name}"
        if problem:
            raise _refusal(problem)
        if name == "dropout" and of_edges:
            out = self._dropped(*args, **kwargs)
        elif index and plain in _LOOKUPS - {"gather"} and not self._num_dst:
            table = next(one for one in tensors if not self.is_destinations(one))
            # For the rows of a rank that has none, with gradients as on other ranks.
            out = table.new_zeros(self._num_edges, *table.shape[1:]) + 0 * table.sum()
        else:
            out = func(*args, **kwargs)
        if plain in COUNTS and self._num_edges > 1 and isinstance(out, Tensor) and self._num_edges in out.shape:
            raise _refusal(f"counts the edges that are together, by {name}")
        if name in CONSTANT:
            self._constants[storage_of(out)] = out
        elif name not in ABOUT:
            self._mark(name, args, tensors, index, of_edges, out)
            self._mark_rows(of_rows, out)
        return out

    def _problem_of_destinations(
        self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[Tensor]
    ) -> str:
        """Return why an operation on reduced messages does not work row by row; "" if it does."""
        if name in ABOUT and name != "__get__":
            return ""
        if any(one.numel() and len(one) != self._num_dst for one in rows):
            return f"takes some of the destinations, in {name}"
        if without_underscore(name) not in _SIZED and _has_count((args, kwargs)):
            return f"computes with the number of destinations, in {name}"
        return problem_of_rows(func, name, args, kwargs, rows, [0] * len(rows))

    def _mark_rows(self, of_rows: Sequence[Tensor], out: Any) -> None:
        """Know the results of an operation on reduced messages for rows of destinations."""
        for one in tree_leaves(out) if of_rows else ():
            if isinstance(one, Tensor) and one.dim() and len(one) == self._num_dst and not self._is_of_edges(one):
                self._of_rows[storage_of(one)] = one

    def _check_use(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        index: Sequence[Tensor],
        tensors: Sequence[Tensor],
    ) -> None:
        """Refuse to use the destinations of edges otherwise than to look rows of destinations up by."""
        plain = without_underscore(name)
        if plain not in _OF_DESTINATIONS:
            raise _refusal(f"uses the destinations of edges in {name}, but neither to reduce messages nor to look up")
        if plain not in _LOOKUPS:
            return
        if any(args[0] is one for one in index) and plain != "embedding":
            if plain != "__getitem__" or chooses_rows(args[1], index, writes=False):
                raise _refusal(f"looks at several edges at once, in {name} of their destinations")
            return
        table = next((one for one in tensors if not self.is_destinations(one)), None)
        along = kwargs.get("dim", args[1] if plain in ("index_select", "gather") and len(args) > 1 else 0)
        if table is not None and table.dim() and table.shape[along] != self._num_dst:
            raise _refusal(
                f"looks destinations up in {list(table.shape)}, by {name}, of {self._num_dst} that this rank owns: "
                "rows of owned nodes go to propagate(), and come as x_i"
            )

    def _alias(self, value: Any) -> Any:
        return self._aliases.get(id(value), value)

    def _is_of_edges(self, value: Tensor) -> bool:
        return value.dim() > 0 and len(value) == self._num_edges and storage_of(value) in self._of_edges

    def _is_turned(self, value: Tensor) -> bool:
        return value.numel() > 0 and storage_of(value) in self._of_edges and not self._is_of_edges(value)

    def _reduces_edges(self, tensors: Sequence[Tensor]) -> bool:
        return any(self.is_destinations(one) or self._is_of_edges(one) for one in tensors)

    def _mark(
        self,
        name: str,
        args: Sequence[Any],
        tensors: Sequence[Tensor],
        index: Sequence[Tensor],
        of_edges: Sequence[Tensor],
        out: Any,
    ) -> None:
        """Know the results of an operation for what they are."""
        results = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        if any(storage_of(one) in self._unknown for one in tensors):
            written = [args[0]] if args and isinstance(args[0], Tensor) and writes_in_place(name) else []
            self._unknown.update({storage_of(one): one for one in (*results, *written)})
        is_index = bool(index) and bool(args) and self.is_destinations(args[0])
        for one in results:
            if is_index and one.is_floating_point():
                raise _refusal(f"computes with the destinations of edges, by {name}: ranks have other numbers for them")
            if is_index:
                self._destinations[storage_of(one)] = one
            elif (of_edges or index) and one.dim() and len(one) == self._num_edges:
                self._of_edges[storage_of(one)] = one
            elif of_edges and one.numel() and not writes_in_place(name):
                raise _refusal(
                    f"makes {list(one.shape)} of rows of {self._num_edges} edges by {name}: a row for each edge is "
                    "expected until messages are reduced"
                )

    def _reduced(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Return what a reduction writes to, with the messages of all parts as far as they are known."""
        base: Tensor = args[0]
        plain = without_underscore(name)
        given = {**dict(zip(_REDUCTIONS[plain], args[1:], strict=False)), **kwargs}
        source, index = given.get("src", given.get("source")), given["index"]
        kind = _KINDS.get(given.get("reduce", "sum"))
        if not self.is_destinations(index) or kind is None or given.get("alpha", 1) != 1:
            raise _refusal(f"reduces messages by {name} otherwise than to the sum, maximum or minimum of destinations")
        if not isinstance(source, Tensor) or given["dim"] % source.dim() or len(source) != self._num_edges:
            raise _refusal(f"reduces by {name} along another dimension than the first, that of edges")
        if not self._is_of_edges(source) and storage_of(source) not in self._constants:
            raise _refusal(f"reduces what is not known to have a row for each of these edges, by {name}")
        if base.shape[:1] != (self._num_dst,):
            raise _refusal(f"reduces messages to {len(base)} rows, of {self._num_dst} destinations")
        value, is_known = self._reduce(kind, source)
        if kind == "sum":
            out = base + value.to(base.dtype)
        elif given.get("include_self", True):
            out = torch.maximum(base, value) if kind == "max" else torch.minimum(base, value)
        else:
            count, _ = self._reduce("sum", source.detach().new_ones(len(source)))
            out = value.where((count > 0).view(-1, *(1 for _ in value.shape[1:])), base)
        out = base.copy_(out) if name.endswith("_") else out
        self._of_rows[storage_of(out)] = out
        if not is_known:
            self._unknown[storage_of(out)] = out
        return out

    def _dropped(self, rows: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        """Drop elements of rows of edges: by masks of edges, which are the same in whatever part these are."""
        if not training or not p:
            return rows
        if inplace:
            raise _refusal("drops elements in place; write dropout(x)")
        self._num_masks += 1
        return drop_elements(rows, mask_key(self._key, self._num_masks), self._edge_ids, p)

    @contextmanager
    def masks_of(self, key: int) -> Iterator[None]:
        """Draw masks of dropout by another key, from its first one on."""
        before = self._key, self._num_masks
        self._key, self._num_masks = key, 0
        try:
            yield
        finally:
            self._key, self._num_masks = before

    def is_unknown(self, value: Tensor) -> bool:
        """Whether a tensor depends on a reduction that is not known yet."""
        return storage_of(value) in self._unknown


def mask_key(key: int, number: int) -> int:
    """Return the key of a mask of dropout, from that of a call and the number of the mask in it, which begins at 1."""
    return (key + 0x9E3779B97F4A7C15 * number) % (1 << 64)


def running_seam() -> Seam | None:
    """Return what watches the operations of this thread, if they are those of messages."""
    modes = reversed(_get_current_function_mode_stack())  # type: ignore[no-untyped-call] # torch has no type for it
    return next((mode for mode in modes if isinstance(mode, Seam)), None)


def storage_of(value: Tensor) -> int:
    """Return what all views of some memory share."""
    try:
        return value.untyped_storage().data_ptr() if value.numel() else id(value)
    except (NotImplementedError, RuntimeError):  # of a sparse tensor, or inside torch.vmap
        return id(value)


def _has_count(values: Any) -> bool:
    return any(isinstance(one, Count) for one in tree_leaves(values))


def writes_in_place(name: str) -> bool:
    """Whether an operation writes to its first argument."""
    return name == "__setitem__" or (name.endswith("_") and not name.startswith("__"))


def _refusal(problem: str) -> InputError:
    """Return the error for a message that cannot be computed by parts, with the line that it is in."""
    return InputError(
        f"the message {problem}: what it is depends on which edges are together, and ranks have different ones "
        f"{users_line()}"
    )
