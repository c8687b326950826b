"""Which operations on rows of edges work edge by edge: what others give would depend on which edges are together.

Known are the pointwise operations of torch, by its own tags, and the others below. What is not known is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

#: Operations that tell about a tensor, or make one of its kind.
ABOUT = {
    "__get__", "size", "dim", "numel", "stride", "__len__", "is_contiguous", "is_floating_point", "is_complex",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "zeros_like", "ones_like", "empty_like",
    "full_like", "ndimension", "requires_grad_", "untyped_storage", "element_size", "data_ptr", "__repr__", "__hash__",
    "storage_offset", "is_signed", "type", "get_device", "retain_grad",
}  # fmt: skip

#: Attributes that are the same numbers in another order of dimensions.
_TRANSPOSED = {"T", "mT", "H", "mH"}

#: Operations that leave the first dimension as it is, or whose result shows that they did not.
_KEEP = {
    "clone", "contiguous", "to", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "type_as",
    "detach", "cpu", "cuda", "expand", "expand_as", "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten",
    "unsqueeze", "squeeze", "broadcast_to", "repeat", "embedding", "bucketize", "dropout", "alpha_dropout", "rand_like",
    "randn_like", "bernoulli", "prelu", "relu6", "logsigmoid", "softsign", "tanhshrink", "hardsigmoid", "hardswish",
    "hardshrink", "softshrink", "threshold", "rrelu", "bmm", "bilinear", "pairwise_distance", "nan_to_num", "copy",
    "fill", "zero",
    # Pointwise, which torch before 2.5 has no tags for.
    "celu", "elu", "hardtanh", "isfinite", "isinf", "leaky_relu", "mish", "rad2deg", "selu", "softplus",
}  # fmt: skip

#: Operations along a dimension: the place of that argument, and what it is by default; None is all of them.
_ALONG: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys((
        "sum", "mean", "max", "min", "std", "var", "prod", "amax", "amin", "logsumexp", "median", "any", "all",
        "argmax", "argmin", "nanmean", "nansum", "softmax", "log_softmax", "softmin", "cumsum", "cumprod",
        "logcumsumexp", "cummax", "cummin",
    ), (1, None)),
    **dict.fromkeys(("norm", "linalg_vector_norm", "quantile"), (2, None)),
    **dict.fromkeys(("topk", "kthvalue"), (2, -1)),
    **dict.fromkeys(("unbind", "select", "narrow", "cat", "concat", "concatenate", "gather", "index_select"), (1, 0)),
    **dict.fromkeys(("chunk", "split", "tensor_split", "take_along_dim"), (2, 0)),
    **dict.fromkeys(("sort", "argsort", "mode", "fliplr", "glu"), (1, -1)),
    "repeat_interleave": (2, None),
    "cross": (2, None),
    "linalg_cross": (2, -1),
    "roll": (2, None),
    "stack": (1, 0),
    "normalize": (2, 1),
    "cosine_similarity": (2, 1),
    "gumbel_softmax": (4, -1),
}  # fmt: skip

#: Convolutions by the dimensions of a batch of inputs.
_CONVOLUTIONS = {"conv1d": 3, "conv2d": 4, "conv3d": 5}

#: What Python's operators are called in torch.
_OPERATORS = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "invert": "bitwise_not", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip

#: Tensors of one number.
CONSTANT = {"ones", "zeros", "full", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"}

#: Numbers in a row, which would count the edges that are together.
COUNTS = {"arange", "linspace", "logspace", "randperm", "eye"}


def without_underscore(name: str) -> str:
    """Return the name of an operation that may write in place as that of the one which does not."""
    return name if name.startswith("__") else name.rstrip("_")


def problem_of_rows(
    func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[Tensor]
) -> str:
    """Return why an operation does not work edge by edge, or is not known to; "" if it does.

    Parameters
    ----------
    func, name
        The operation, and its name.
    args, kwargs
        Its arguments.
    rows
        Those among them that have a row for each edge, [num_edges, ...].
    """
    plain = without_underscore(name)
    several = f"looks at several edges at once, in {name}"
    if name == "__get__":
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return several if attribute in _TRANSPOSED else ""
    if plain == "flip":
        given = [*args[1:], *kwargs.values()]
        dims = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
        return several if any(one % rows[0].dim() == 0 for one in dims) else ""
    if plain == "batch_norm":  # in evaluation it scales and shifts each row
        return several if kwargs.get("training", args[5] if len(args) > 5 else False) else ""
    if plain in _ALONG:
        return several if _is_along_edges(plain, args, kwargs, rows) else ""
    if plain == "embedding" and len(args) > 1 and _is(args[1], rows):
        return several
    if name in ABOUT or plain in _KEEP or is_pointwise(plain):
        return ""
    if plain in ("__getitem__", "__setitem__"):
        return several if _is(args[0], rows) and chooses_rows(args[1], rows, writes=plain == "__setitem__") else ""
    if plain in ("linear", "matmul", "mm", "__matmul__", "__rmatmul__"):
        second = args[0] if plain == "__rmatmul__" else args[1] if len(args) > 1 else next(iter(kwargs.values()), None)
        sums_edges = isinstance(second, Tensor) and _is(second, rows) and (plain == "linear" or second.dim() <= 2)
        return several if sums_edges else ""
    if plain in _CONVOLUTIONS:  # of a batch of edges
        return "" if rows[0].dim() == _CONVOLUTIONS[plain] and not _is(args[1], rows) else several
    if plain == "einsum":
        return "" if _keeps_edges(args, rows) else several
    if plain in ("layer_norm", "rms_norm"):
        shape = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
        return several if len(shape) >= rows[0].dim() else ""
    if plain == "one_hot":
        number = kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
        return several if number < 0 else ""
    if plain in ("transpose", "swapaxes", "swapdims", "permute", "movedim"):
        return several if any(one == 0 or one == -rows[0].dim() for one in _first_moved(plain, args, kwargs)) else ""
    return f"uses {name}, of which it is not known that it works edge by edge"


@cache
def is_pointwise(name: str) -> bool:
    """Whether torch says that an operation is one on each number by itself."""
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        found = (name, name[1:]) if name[0] in "ir" else (name,)
        return any(is_pointwise(_OPERATORS.get(one, one)) for one in found)
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else [getattr(packet, one) for one in packet.overloads()]
    return any(torch.Tag.pointwise in one.tags for one in overloads)


def _is(value: Any, rows: Sequence[Tensor]) -> bool:
    return any(value is one for one in rows)


def _is_along_edges(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[Tensor]) -> bool:
    place, default = _ALONG[name]
    along = kwargs.get("dim", kwargs.get("axis", kwargs.get("dims", args[place] if len(args) > place else default)))
    if isinstance(along, Tensor):  # of two tensors, as torch.max(a, b)
        return name not in ("max", "min")
    if name in ("gather", "index_select", "take_along_dim") and not _is(args[0], rows):
        return False  # looks up what is no row of an edge
    number = rows[0].dim() + (name == "stack")
    dims = along if isinstance(along, tuple | list) else [along]
    return any(one is None or one % max(1, number) == 0 for one in dims)


def _first_moved(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the dimensions that are moved, as far as the first may be among them."""
    given = [*args[1:], *kwargs.values()]
    given = [*given[0]] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if name == "permute":
        return [] if given and given[0] in (0, -len(given)) else [0]
    return [one for value in given for one in (value if isinstance(value, tuple | list) else [value])]


def chooses_rows(index: Any, rows: Sequence[Tensor], *, writes: bool) -> bool:
    """Whether an index of rows of edges picks some of them, by their place among the others."""
    first = (index[0] if index else Ellipsis) if isinstance(index, tuple) else index
    if writes and isinstance(first, Tensor) and first.dtype == torch.bool and _is(first, rows):
        return False
    return not (first is Ellipsis or first is None or (isinstance(first, slice) and first == slice(None)))


def _keeps_edges(args: Sequence[Any], rows: Sequence[Tensor]) -> bool:
    """Whether a sum of products in Einstein's notation has the edges first in all rows, and in its result."""
    equation = args[0]
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return False
    inputs, _, output = equation.replace(" ", "").partition("->")
    operands = args[1] if len(args) == 2 and isinstance(args[1], tuple | list) else args[1:]
    of_edges = {labels[:1] for labels, one in zip(inputs.split(","), operands, strict=False) if _is(one, rows)}
    others = "".join(labels for labels, one in zip(inputs.split(","), operands, strict=False) if not _is(one, rows))
    return len(of_edges) == 1 and output[:1] in of_edges and output[:1] not in others
