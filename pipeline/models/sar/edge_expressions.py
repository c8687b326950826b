"""Values of edges as expressions: operations on them are recorded, and computed for the edges of one part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from headrace.pipeline.models.by_parts.row_rules import is_pointwise, without_underscore
from headrace.pipeline.models.sar.edge_parts import Computed, EdgeContext, Part
from headrace.pipeline.models.sar.rank_size import RankSize

#: Attributes of a tensor that are the same for any number of edges.
_ATTRIBUTES = {"dtype", "device", "ndim", "is_cuda", "is_cpu", "layout", "is_sparse", "requires_grad"}

#: Methods that ask for a number or a list, which the values of one part cannot give.
_READS = {"item", "tolist", "numpy", "data_ptr", "backward", "storage", "untyped_storage", "grad", "data", "grad_fn"}

#: Operations whose arguments begin with the number of rows of the result.
_SIZED = {"view", "reshape", "expand"}

#: Operations whose further tensors are parameters, of any shape.
_OF_PARAMETERS = {
    "linear", "layer_norm", "rms_norm", "batch_norm", "embedding", "prelu", "conv1d", "conv2d", "conv3d", "bilinear",
    "index_select", "gather", "__getitem__",
}  # fmt: skip

#: Operations that take the rows of all their tensors together, beside those on each number by itself.
_ALIGNED = {"cat", "concat", "concatenate", "stack", "where", "bmm", "cosine_similarity", "pairwise_distance"}

#: Operations that draw, beside dropout, the masks of which belong to edges.
_RANDOM = {"rand_like", "randn_like", "randint_like", "bernoulli", "normal", "alpha_dropout", "feature_alpha_dropout",
           "rrelu", "gumbel_softmax", "uniform", "multinomial"}  # fmt: skip

#: Operations that do so with three dimensions or more.
_PRODUCTS = {"matmul", "__matmul__", "__rmatmul__"}


class EdgeExpression(Computed):
    """Values of all edges, [num_edges, ...], in the place of a tensor.

    Attributes
    ----------
    single
        Its value for one edge.
    factors
        Of a product of rows and nothing else, both.
    """

    single: Tensor
    factors: tuple[End, End] | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape for all edges of this rank."""
        return torch.Size([self.context.graph.num_edges, *self.single.shape[1:]])

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or one of its numbers."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.single.dim()

    def is_floating_point(self) -> bool:
        """Return whether the dtype is one of floating point."""
        return self.single.is_floating_point()

    def __len__(self) -> int:
        return self.context.graph.num_edges

    def __bool__(self) -> bool:
        raise self.context.refusal("asks whether values of edges are true")

    def __iter__(self) -> Iterator[Any]:
        raise self.context.refusal("reads values of edges one by one")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self.context.refusal("writes to values of edges in place")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "single" not in self.__dict__:
            raise AttributeError(name)
        if name in _ATTRIBUTES:
            return getattr(self.single, name)
        method = getattr(Tensor, name, None)
        if not callable(method) or name in _READS:
            raise self.context.refusal(f"reads {name} of values of edges")
        return lambda *args, **kwargs: operation(method, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record an operation of torch."""
        return operation(func, args, kwargs or {})


def _operator(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def call(self: EdgeExpression, *args: Any) -> Any:
        return operation(method, (self, *args), {})

    return call


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "pow", "rpow", "matmul",
    "neg", "abs", "invert", "and", "or", "xor", "getitem", "eq", "ne", "lt", "le", "gt", "ge",
):  # fmt: skip
    setattr(EdgeExpression, f"__{_name}__", _operator(f"__{_name}__"))


def _in_place(self: EdgeExpression, _: Any) -> Any:
    raise self.context.refusal(
        "writes to values of edges in place, by an operator; write s = s * 2, or g.edata[...] = s * 2"
    )


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(EdgeExpression, f"__i{_name}__", _in_place)
EdgeExpression.__hash__ = object.__hash__  # type: ignore[method-assign] # comparisons are those of numbers


class End(EdgeExpression):
    """The rows of the sources or destinations of edges, or of the edges themselves.

    Parameters
    ----------
    context
        What it belongs to.
    target
        "u" for sources, "v" for destinations, "e" for edges, as DGL names them.
    rows: [num_src, ...], [num_dst, ...] or [num_edges, ...]
        All rows.
    """

    def __init__(self, context: EdgeContext, target: Literal["u", "v", "e"], rows: Tensor) -> None:
        super().__init__(context, ())
        self.target, self.rows, self._version = target, rows, rows._version  # noqa: SLF001 - as torch has no other name
        if target == "u":
            self.sources = {id(rows): rows}
        self.single = context.single(self.compute, rows if target == "u" else None)

    def compute(self, part: Part) -> Tensor:
        """Return the rows of the edges of one part."""
        if self.target == "e":
            return part.edges.of_edges(self.rows)
        if self.target == "v":
            return part.of_destinations(self.rows)
        if id(self.rows) not in part.tables:
            raise self.context.refusal("reads rows of sources in a function of edges that did not read them at first")
        return part.edges.of_sources(part.tables[id(self.rows)])

    def check_unchanged(self) -> None:
        """Refuse rows that were written to."""
        if self.rows._version != self._version:  # noqa: SLF001
            raise self.context.refusal("writes to rows in place behind what it has computed of them for edges")


class Operation(EdgeExpression):
    """An operation of torch, or one of several results of it.

    Parameters
    ----------
    context
        What it belongs to.
    func, args, kwargs
        The operation, and its arguments.
    """

    def __init__(self, context: EdgeContext, func: Any, args: Any, kwargs: Any) -> None:
        super().__init__(context, [one for one in tree_leaves((args, kwargs)) if isinstance(one, EdgeExpression)])
        self._func, self._args, self._kwargs = func, args, kwargs
        # The mask of an edge stays the same, in whichever reductions it is computed.
        self._key = context.keys.next() if "dropout" in getattr(func, "__name__", "") else None
        self.single = context.single(lambda part: self._call(part, lambda value: getattr(value, "single", value)))

    def compute(self, part: Part) -> Any:
        """Call the operation for the edges of one part."""
        return self._call(part, part.value)

    def _call(self, part: Part, value_of: Callable[[Any], Any]) -> Any:
        args, kwargs = tree_map(
            lambda one: value_of(one) if isinstance(one, EdgeExpression) else one, (self._args, self._kwargs)
        )
        if self._key is None:
            return self._func(*args, **kwargs)
        with part.edges.seam.masks_of(self._key):
            return self._func(*args, **kwargs)


class Item(EdgeExpression):
    """One of several results: of an operation by its number, of a function of edges by its name.

    Parameters
    ----------
    of
        What has several results.
    key
        Which of them.
    single
        Its value for one edge.
    """

    def __init__(self, of: Computed, key: Any, single: Tensor) -> None:
        super().__init__(of.context, [of])
        self._key, self.single = key, single

    def compute(self, part: Part) -> Tensor:
        """Return that result."""
        values = part.value(self.parents[0])
        if isinstance(values, Mapping) and self._key not in values:
            raise self.context.refusal(f"has a function of edges that did not return {self._key!r} again")
        value: Tensor = values[self._key]
        return value


def operation(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return the expression for an operation of torch, or several, as many as the operation has results.

    Raises
    ------
    InputError
        For one that writes in place, or does not work edge by edge.
    """
    leaves = tree_leaves((args, dict(kwargs)))
    expressions = [one for one in leaves if isinstance(one, EdgeExpression)]
    context = expressions[0].context
    name: str = getattr(func, "__name__", str(func))
    if any(one.context.graph is not context.graph for one in expressions):
        raise context.refusal(f"computes with values of the edges of two graphs, in {name}")
    in_place = name.endswith("_") and not name.startswith("__")
    if in_place or kwargs.get("inplace") or kwargs.get("out") is not None:
        raise context.refusal(f"writes to values of edges in place, in {name}")
    number = next((one for one in leaves if isinstance(one, RankSize)), None)
    if number is not None and without_underscore(name) not in _SIZED:
        raise number.refused(name)
    if without_underscore(name) in _RANDOM:
        raise context.refusal(f"draws numbers for values of edges, in {name}: each reduction would draw its own")
    args, kwargs = _with_edges(context, without_underscore(name), args, dict(kwargs), leaves)
    computed = Operation(context, func, args, kwargs)
    several: Any = computed.single
    if isinstance(several, tuple | list):
        return tuple(Item(computed, number, one) for number, one in enumerate(several))
    if not isinstance(computed.single, Tensor) or not computed.single.dim() or len(computed.single) != 1:
        raise context.refusal(f"makes something else than a row for each edge by {name}")
    return computed


def _with_edges(context: EdgeContext, name: str, args: Any, kwargs: Any, leaves: Sequence[Any]) -> tuple[Any, Any]:
    """Return arguments with expressions in the place of tensors of all edges, and -1 in that of their number."""
    number = context.graph.num_edges
    if name in _SIZED and len(args) > 1:
        sizes = [*args[1]] if isinstance(args[1], tuple | list) else [*args[1:]]
        if sizes and sizes[0] == number:
            args = (args[0], -1, *sizes[1:])
        return args, kwargs
    if name in _OF_PARAMETERS:
        return args, kwargs
    tensors = [one for one in leaves if isinstance(one, Tensor) and one.dim() and len(one) == number]
    if not tensors:
        return args, kwargs
    most = max(one.dim() for one in leaves if isinstance(one, Tensor | EdgeExpression))
    if name in _PRODUCTS and most < 3:
        return args, kwargs
    if not (is_pointwise(name) or name in _ALIGNED or name in _PRODUCTS):
        if number == 1:  # a row for the one edge, or a parameter: the same numbers
            return args, kwargs
        raise context.refusal(f"computes {name} with a tensor of {number} rows that is not in graph.edata")

    def of_edges(value: Any) -> Any:
        is_aligned = isinstance(value, Tensor) and value.dim() == most and len(value) == number
        return End(context, "e", value) if is_aligned else value

    return tree_map(of_edges, args), tree_map(of_edges, kwargs)
