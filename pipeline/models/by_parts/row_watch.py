"""Watches the operations of modules between layers the first time they run: no row may depend on others.

A rank has some of the rows of a layer. So a module there is exact if a row depends on no other one, and neither on its
position nor on the number of rows. Rows are known by the memory that they are in, with the stride from one to the next,
so that any view of them shows which dimension has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._pytree import tree_leaves

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.edge_index import EdgeIndex
from headrace.pipeline.models.by_parts.guards import is_read_by_guard
from headrace.pipeline.models.by_parts.row_counts import RowNumbers
from headrace.pipeline.models.by_parts.row_places import Place, Rows
from headrace.pipeline.models.by_parts.row_rules import (
    ABOUT,
    CONSTANT,
    COUNTS,
    PRODUCTS,
    SEVERAL_PLACES,
    is_entry_by_entry,
    is_pointwise,
    place_of_rows,
    problem_of_rows,
    users_line,
    without_underscore,
)
from headrace.pipeline.models.by_parts.seam import NUMBERS, storage_of, writes_in_place
from headrace.pipeline.models.by_parts.seen_indices import SeeingIndices

#: Tensors of one number, or of numbers that are drawn for each entry: the same for any row.
_UNIFORM = CONSTANT | {"empty", "rand", "randn", "randint", "normal", "new_empty", "empty_like", "rand_like",
                       "randn_like", "randint_like"}  # fmt: skip

#: Operations that return the same numbers in other dimensions: as a view, whose strides tell where rows are, or a copy.
_VIEWS = {
    "__get__", "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "transpose", "permute", "t",
    "adjoint", "movedim", "moveaxis", "swapaxes", "swapdims", "unsqueeze", "squeeze", "expand", "expand_as",
    "broadcast_to", "narrow", "select", "split", "split_with_sizes", "chunk", "tensor_split", "unbind", "detach",
    "contiguous", "atleast_2d",
}  # fmt: skip

#: Operations that fill a tensor with a number.
_FILLS = {"tensor", "as_tensor", "scalar_tensor", "full", "full_like", "new_full", "new_tensor", "fill"}


_SPLITS = {"unbind", "split", "chunk", "tensor_split", "split_with_sizes"}

_SIZES = {"__len__", "size", "numel", "shape", "nelement"}


class RowWatch(SeeingIndices):
    """Runs modules between layers, and refuses what does not work row by row.

    What mixes rows is refused where the result is read as a number or is returned: until then it may be for a log.

    Parameters
    ----------
    module
        The module; its tensors are known not to come from rows.
    caller
        Begins the error.
    advice
        Ends it.
    """

    def __init__(self, module: nn.Module, caller: str, advice: str) -> None:
        super().__init__()
        #: The modules that are running, the inner ones last.
        self.modules = [module]
        self.is_paused = False
        self._caller, self._advice = caller, advice
        self._rows: dict[int, Rows] = {}
        self._mixed: dict[int, str] = {}
        self._uniform: set[int] = set()
        self._others: set[int] = set()
        self._held: list[Tensor] = []  # so that no other tensor gets their memory
        self._numbers = RowNumbers(module)
        for one in module.modules():
            attributes = (value for value in vars(one).values() if isinstance(value, Tensor))
            for value in (*one.parameters(recurse=False), *one.buffers(recurse=False), *attributes):
                self._hold(value, self._others)

    @property
    def is_sure(self) -> bool:
        """Whether the watch has shown all: a number of few rows may be any number."""
        return self._numbers.is_sure

    def close(self) -> None:
        """Let go of all tensors."""
        self._held.clear()

    def refusal(self, problem: str) -> InputError:
        """Return the error for a module that does not work row by row."""
        return InputError(
            f"{self._caller}: expected modules between layers to work row by row, as each rank has some of the rows, "
            f"got {problem}; {self._advice}"
        )

    def named(self, problem: str) -> str:
        """Return a problem with the module that is running."""
        kind = type(self.modules[-1])
        return f"{kind.__module__}.{kind.__name__}, which {problem}"

    def enter(self, values: Any, numbers: Iterable[int]) -> None:
        """Take tensors with one of these numbers of entries in a dimension for those that have a row in each.

        Where several dimensions have that size, it is the one in which rows are stored one after the other.
        """
        numbers = set(numbers)
        for value in tree_leaves(values):
            if not isinstance(value, Tensor) or value.layout != torch.strided or storage_of(value) in self._others:
                continue
            dims = [dim for dim, size in enumerate(value.shape) if size in numbers and value.stride(dim)]
            if dims and storage_of(value) not in self._rows:
                self._mark(value, Place(max(dims, key=value.stride), 1, 0))
            elif not self._is_known(storage_of(value)):
                self._hold(value, self._others)

    def trusted(self, call: Callable[[], Any]) -> Any:
        """Return the result of a module that is exact by itself: rows, or else the same with any rows."""
        with self._pause():
            out = call()
        self.enter(out, {rows.number for rows in self._rows.values()})
        return out

    @contextmanager
    def _pause(self) -> Iterator[None]:
        is_paused, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = is_paused

    def check(self, out: Any, *, some: bool = False) -> None:
        """Refuse results that are not known to be rows, or the same for any rows; `some` takes those of a mask, too."""
        for one in tree_leaves(out):
            key = storage_of(one) if isinstance(one, Tensor) else 0
            numbers = {rows.number for rows in self._rows.values()}
            if key in self._mixed:
                raise self.refusal(self._mixed[key])
            if not isinstance(one, Tensor) or not one.is_floating_point() or not one.numel():
                continue
            place = self._place(one)
            if key in self._uniform or (place is not None and (some or not place.mask)):
                continue
            if key in self._rows:
                raise self.refusal(self.named("returns some of the rows"))
            if key not in self._others:
                unseen = "returns results of operations that cannot be seen, as those of torch.jit and C++"
                raise self.refusal(self.named(unseen))
            if numbers & set(one.shape) and not isinstance(one, nn.Parameter):
                raise self.refusal(self.named("returns a value for each row by its position"))

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of torch, and know its results for what they are."""
        kwargs = dict(kwargs or {})
        if self.is_paused or EdgeIndex in types:  # which answers for itself
            return func(*args, **kwargs)
        name: str = getattr(func, "__name__", "")
        plain = without_underscore(name)
        attribute = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        # Other arguments of views are of the shape that is wanted.
        values = args[:1] if plain in (*_VIEWS, "to", "type_as") else (args, kwargs)
        tensors = [one for one in tree_leaves(values) if isinstance(one, Tensor)]
        if attribute in _SIZES or name in _SIZES:
            return self._numbers.size(attribute or name, tensors[0], self._place(tensors[0]), func(*args, **kwargs))
        if plain in _SPLITS:  # how many there are is how many rows there are
            self._numbers.ask(tensors[0], self._place(tensors[0]))
        keys = [storage_of(one) for one in tensors]
        if plain in NUMBERS and any(key in self._mixed or key in self._rows for key in keys):
            problem = next((self._mixed[key] for key in keys if key in self._mixed), "")
            if name == "__bool__" and is_read_by_guard():
                return func(*args, **kwargs)
            raise self.refusal(problem or self.named(f"reads rows as numbers of Python, by {name} {users_line()}"))
        rows = [(one, place) for one in tensors if (place := self._place(one)) is not None]
        problem = self._problem(func, name, args, kwargs, tensors, rows)
        was_uniform = all(storage_of(one) in self._uniform or one.numel() < 2 for one in tensors)
        out = func(*args, **kwargs)
        if name in ABOUT and name not in _UNIFORM and name not in ("__get__", "type"):
            return out
        results = [one for one in tree_leaves((out, kwargs.get("out"))) if isinstance(one, Tensor)]
        if problem:
            if any(isinstance(one, bool | int | float) for one in tree_leaves(out)):
                raise self.refusal(problem)
            for one in (*results, *(args[:1] if writes_in_place(name) else ())):
                self._mixed[storage_of(one)] = problem
                self._held.append(one)
        elif plain in _UNIFORM or (not rows and was_uniform and self._keeps_uniform(plain)):
            for one in results:
                self._hold(one, self._uniform)
        elif rows:
            self._know_rows(plain, args, kwargs, rows, results)
        else:
            for one in (*results, *(args[:1] if writes_in_place(name) else ())):
                self._uniform.discard(storage_of(one))
                self._hold(one, self._others)
        return out

    def _problem(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        rows: Sequence[tuple[Tensor, Place]],
    ) -> str:
        """Return why the results of an operation depend on other rows, their number or positions; "" if they do not."""
        if name in ABOUT and name not in ("__get__", *_FILLS):
            return ""
        plain, problem = without_underscore(name), ""
        for one in tensors:
            key = storage_of(one)
            if key in self._mixed:
                return self._mixed[key]
            if key in self._rows and one.numel() and self._place(one) is None:
                problem = f"takes some of the rows, in {name}"
            elif (
                one.numel()
                and not self._is_known(key)
                and (one.grad_fn is not None or not self._numbers.elsewhere.has_tensor(one))
            ):
                problem = f"computes with a tensor of operations that cannot be seen, in {name}"
        counts = plain in _FILLS or plain in COUNTS or (rows and is_pointwise(plain))
        filled = args[2 if plain == "new_full" else 1 :] if "full" in plain else args
        defaults = getattr(func, "__defaults__", None) or ()
        if not problem and counts and (count := self._numbers.count_in((filled, kwargs), defaults)):
            problem = f"computes with {count}, in {name}"
        if not problem and not rows and plain not in _UNIFORM and not self._keeps_uniform(plain):
            numbers = {one.number for one in self._rows.values()}
            if any(storage_of(one) in self._uniform and numbers & set(one.shape) for one in tensors):
                problem = f"may count rows, in {name}"
        if not problem and rows:
            try:
                problem = self._problem_of_rows(func, name, args, kwargs, tensors, rows)
            except (IndexError, KeyError):
                problem = f"names the arguments of {name}, which is known by their order"
        return self.named(f"{problem} {users_line()}") if problem else ""

    def _problem_of_rows(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
        rows: Sequence[tuple[Tensor, Place]],
    ) -> str:
        plain = without_underscore(name)
        if plain in ("__getitem__", "__setitem__") and self._is_mask(args[1]):
            return "" if self._goes_by_mask(*args) else f"looks at several rows at once, in {name}"
        if plain in _VIEWS or (plain == "__getitem__" and args[0] is rows[0][0] and _is_plain(args[1])):
            return ""
        if plain == "__setitem__" and _is_plain(args[1]):
            with torch._C.DisableTorchFunction():  # noqa: SLF001 - not an operation of the module
                written = args[0][args[1]]
            value = [pair for pair in rows if pair[0] is not args[0]]
            of_target = self._place(written)
            if of_target is None and storage_of(args[0]) in self._rows:
                return f"writes some of the rows, in {name}"
            return self._misplaced(
                name, [written, *tensors[1:]], [*([(written, of_target)] if of_target else []), *value]
            )
        if plain != "stack":
            problem = problem_of_rows(func, name, args, kwargs, [one for one, _ in rows], [at.dim for _, at in rows])
            if problem:
                return problem
        is_batch = plain in PRODUCTS and rows[0][1].dim <= rows[0][0].dim() - 3
        return self._misplaced(name, tensors if is_batch or is_entry_by_entry(plain) else [], rows, plain)

    def _is_mask(self, index: Any) -> bool:
        """Whether an index says of each row by itself whether it is chosen."""
        place = self._place(index) if isinstance(index, Tensor) and index.dtype == torch.bool else None
        return place is not None and index.dim() == 1 and place.inner == 1

    def _goes_by_mask(self, table: Tensor, mask: Tensor, value: Any = 0) -> bool:
        """Whether a mask chooses among its own rows, and what is written are numbers, or rows that it has chosen."""
        at, of_mask = self._place(table), self._place(mask)
        if (at is None and storage_of(table) not in self._uniform) or (at is not None and at != of_mask):
            return False
        if not isinstance(value, Tensor) or storage_of(value) in self._uniform:
            return True
        if storage_of(value) not in self._rows:  # the same for all of them, or for the only one
            return value.dim() < table.dim() or len(value) < 2
        place = self._place(value)
        return place is not None and place.dim == 0 and place.mask == storage_of(mask)

    def _misplaced(
        self, name: str, tensors: Sequence[Tensor], rows: Sequence[tuple[Tensor, Place]], plain: str = ""
    ) -> str:
        """Return the problem of an operation where the rows, and other entries, of its arguments do not go together."""
        places = {(at.dim - one.dim(), at.inner, at.number, at.mask, max(at.space, 1)) for one, at in rows}
        if len(places) > 1 and plain not in SEVERAL_PLACES:
            return f"lets rows meet others, in {name}"
        place = next(iter(places))[0]
        known = [id(one) for one, _ in rows]
        for one in tensors:
            is_other = id(one) not in known and storage_of(one) not in self._uniform
            if is_other and one.dim() >= -place and one.shape[place] > 1:
                return f"has a value for each row by its position, in {name}"
        return ""

    def _know_rows(
        self,
        plain: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        rows: Sequence[tuple[Tensor, Place]],
        results: Sequence[Tensor],
    ) -> None:
        """Know the results of an operation that works row by row."""
        first, at = rows[0]
        at = at._replace(space=max(place.space for _, place in rows))
        if plain in ("__getitem__", "__setitem__") and self._is_mask(args[1]):
            chosen = at._replace(dim=0, number=0, mask=storage_of(args[1]))
            self._held.append(args[1])
            for one in results if plain == "__getitem__" else ():
                self._mark(one, chosen)
            if plain == "__setitem__":
                self._mark(args[0], at._replace(dim=0))
            return
        if plain == "__setitem__":
            if storage_of(args[0]) not in self._rows and _is_plain(args[1]):
                with torch._C.DisableTorchFunction():  # noqa: SLF001
                    written = args[0][args[1]]
                self._mark(written, at._replace(dim=written.dim() + at.dim - first.dim()))
            return
        for number, one in enumerate(results):
            if storage_of(one) in self._rows:
                continue  # a view of rows, or in place
            if one.shape == first.shape and plain in _VIEWS:
                place = at
            elif plain in _VIEWS:  # copied in the order that they had
                whole = math.prod(first.shape[at.dim + 1 :]) * at.inner
                self._hold(one, self._uniform if not one.numel() else set())
                if one.numel():
                    self._rows[storage_of(one)] = Rows(at.number, whole, int(one.storage_offset()), *at[3:])
                continue
            else:
                place = at._replace(dim=place_of_rows(plain, args, kwargs, first, at.dim, one, number))
            if one.dim() and 0 <= place.dim < one.dim() and one.shape[place.dim] % (at.number * at.inner) == 0:
                self._mark(one, place)
            elif one.numel():
                self._mixed[storage_of(one)] = self.named(f"loses rows, in {plain} {users_line()}")
                self._held.append(one)

    @staticmethod
    def _keeps_uniform(plain: str) -> bool:
        return is_pointwise(plain) or plain in _VIEWS or plain in ("to", "__getitem__", "__setitem__", "linear", "copy")

    def _is_known(self, key: int) -> bool:
        return key in self._rows or key in self._uniform or key in self._others or key in self._mixed

    def _hold(self, value: Tensor, among: set[int]) -> None:
        among.add(storage_of(value))
        self._held.append(value)

    def _mark(self, value: Tensor, place: Place) -> None:
        """Know the memory of a tensor for rows."""
        number = place.number or value.shape[place.dim]
        key = storage_of(value)
        if number > 1 and value.numel() and value.stride(place.dim):
            self._uniform.discard(key)
            stride = value.stride(place.dim) * place.inner
            self._rows[key] = Rows(number, stride, int(value.storage_offset()), *place[3:])
        else:
            self._uniform.add(key)
        self._held.append(value)

    def _place(self, value: Tensor) -> Place | None:
        """Return where a tensor has rows; None if it has none, or not all of them."""
        key = storage_of(value)
        if key not in self._rows or key in self._mixed:
            return None
        return self._rows[key].place_in(value)


def running_watch() -> RowWatch | None:
    """Return what watches the modules that run in this thread."""
    modes = reversed(_get_current_function_mode_stack())  # type: ignore[no-untyped-call] # torch has no type for it
    return next((mode for mode in modes if isinstance(mode, RowWatch)), None)


def _is_plain(index: Any) -> bool:
    """Whether an index gives a view."""
    return not any(isinstance(one, Tensor | list) for one in (index if isinstance(index, tuple) else (index,)))
