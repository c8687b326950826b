"""Which operations on rows, of edges or nodes, work row by row: others depend on which rows are together.

Known are the pointwise operations of torch, by its own tags, and the others below. What is not known is refused.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headrace.pipeline.models.by_parts.users_frames import OURS, TORCH

#: Operations that tell about a tensor, or make one of its kind.
ABOUT = {
    "__get__", "size", "dim", "numel", "stride", "__len__", "is_contiguous", "is_floating_point", "is_complex",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "zeros_like", "ones_like", "empty_like",
    "full_like", "ndimension", "requires_grad_", "untyped_storage", "element_size", "data_ptr", "__repr__", "__hash__",
    "storage_offset", "is_signed", "type", "get_device", "retain_grad",
}  # fmt: skip

#: Attributes that are the same numbers in another order of dimensions.
_TRANSPOSED = {"T", "mT", "H", "mH"}

#: Operations that leave the dimension of rows as it is, or whose result shows that they did not.
_KEEP = {
    "clone", "contiguous", "to", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "type_as",
    "detach", "cpu", "cuda", "expand", "expand_as", "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten",
    "unsqueeze", "squeeze", "broadcast_to", "repeat", "embedding", "bucketize", "dropout", "alpha_dropout", "rand_like",
    "randn_like", "bernoulli", "prelu", "relu6", "logsigmoid", "log_sigmoid", "softsign", "tanhshrink", "hardsigmoid",
    "hardswish", "hardshrink", "softshrink", "threshold", "_threshold", "rrelu", "nan_to_num", "copy", "fill", "zero",
    "where",
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
    **dict.fromkeys(("norm", "linalg_norm", "linalg_vector_norm", "quantile"), (2, None)),
    **dict.fromkeys(("topk", "kthvalue"), (2, -1)),
    **dict.fromkeys(("unbind", "select", "narrow", "cat", "concat", "concatenate", "gather", "index_select"), (1, 0)),
    **dict.fromkeys(("chunk", "split", "tensor_split", "take_along_dim"), (2, 0)),
    **dict.fromkeys(("sort", "argsort", "mode", "fliplr", "glu"), (1, -1)),
    "repeat_interleave": (2, None),
    "cross": (2, None),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce", "index_add", "index_fill"), (1, None)),
    "linalg_cross": (2, -1),
    "roll": (2, None),
    "stack": (1, 0),
    "normalize": (2, 1),
    "cosine_similarity": (2, 1),
    "gumbel_softmax": (4, -1),
}  # fmt: skip

#: Operations on the last dimensions of each item of a batch, the first argument, by their number; and on all but the
#: first one.
_LAST = {"bilinear": 1, "pairwise_distance": 1, "cdist": 1, "scaled_dot_product_attention": 2, "pixel_shuffle": 3,
         "pixel_unshuffle": 3}  # fmt: skip
_OF_ITEMS = {"group_norm", "local_response_norm", "channel_shuffle", "unfold", "fold"}
_CONVOLUTION = re.compile(r"conv(_transpose)?([123])d")
_POOL = re.compile(r".*pool([123])d(_with_indices)?")

#: Products of matrices.
PRODUCTS = {"matmul", "mm", "bmm", "mv", "__matmul__", "__rmatmul__"}

#: Recurrent networks, which take [length, num_rows, ...], or with batch_first [num_rows, length, ...].
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
_CELLS = {f"{name}_cell" for name in _RECURRENT}

#: Operations that take rows in several dimensions, each in its own, or by a notation.
SEVERAL_PLACES = {"multi_head_attention_forward", "einsum", "__getitem__", "__setitem__", *_RECURRENT}

#: Operations whose result has the dimensions of rows first, and others behind them.
_FROM_THE_LEFT = {
    "linear",
    "embedding",
    "embedding_bag",
    "one_hot",
    "pairwise_distance",
    "unfold",
    "fold",
    "__getitem__",
}

#: Operations that use an argument otherwise than entry by entry, so that it has no entry for a row by its position.
_OF_TABLES = {
    "linear", "embedding", "embedding_bag", "bilinear", "cdist", "bucketize", "einsum", "index_select", "layer_norm",
    "rms_norm", "batch_norm", "group_norm", "instance_norm", "prelu", "multi_head_attention_forward", "__getitem__",
    "__setitem__", *_RECURRENT, *_CELLS,
}  # fmt: skip

#: What Python's operators are called in torch.
_OPERATORS = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "invert": "bitwise_not", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip

#: What stands for dimensions that an equation of Einstein's leaves out.
_LEFT_OUT = "0123456789"

#: Tensors of one number.
CONSTANT = {"ones", "zeros", "full", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"}

#: Numbers in a row, which would count the edges that are together.
COUNTS = {"arange", "linspace", "logspace", "randperm", "eye"}


def without_underscore(name: str) -> str:
    """Return the name of an operation that may write in place as that of the one which does not."""
    return name if name.startswith("__") else name.rstrip("_")


def problem_of_rows(
    func: Any,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    rows: Sequence[Tensor],
    places: Sequence[int] | None = None,
) -> str:
    """Return why an operation does not work row by row, or is not known to; "" if it does.

    Parameters
    ----------
    func, name
        The operation, and its name.
    args, kwargs
        Its arguments.
    rows
        Those among them that have rows.
    places
        The dimension of each of these that has the rows; by default the first one, as messages of edges have it.
    """
    plain = without_underscore(name)
    of_edges = places is None
    several = f"looks at several {'edges' if of_edges else 'rows'} at once, in {name}"
    places = places or [0] * len(rows)
    rank, place = rows[0].dim(), places[0]
    if name == "__get__":
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return several if attribute in _TRANSPOSED else ""
    if plain == "flip":
        dims = _numbers(args[1:], kwargs)
        return several if any(one % rank == place for one in dims) else ""
    if plain == "batch_norm":  # in evaluation it scales and shifts each row
        return several if place or kwargs.get("training", args[5] if len(args) > 5 else False) else ""
    if plain == "instance_norm":  # of channels, which weights and running estimates tell apart
        has_more = any(isinstance(one, Tensor) for one in (*args[1:], *kwargs.values()))
        return several if place > 1 or (place == 1 and has_more) else ""
    if plain in _ALONG:
        return several if _is_along_rows(plain, args, kwargs, rows, place) else ""
    if plain == "embedding" and len(args) > 1 and _is(args[1], rows):
        return several
    if plain == "prelu":
        return several if place == 1 and args[1].numel() > 1 else ""
    if name in ABOUT or plain in _KEEP or is_pointwise(plain):
        return ""
    if plain in ("__getitem__", "__setitem__"):
        chooses = _is(args[0], rows) and chooses_rows(args[1], rows, writes=plain == "__setitem__", place=place)
        return several if chooses else ""
    if plain == "linear":
        return several if _is(args[1] if len(args) > 1 else kwargs["weight"], rows) or place == rank - 1 else ""
    if plain in PRODUCTS:
        return several if _sums_rows(plain, args, kwargs, rows, places) else ""
    pool, convolution = _POOL.fullmatch(plain), _CONVOLUTION.fullmatch(plain)
    if plain == "cdist" and any(one is args[1] and at == one.dim() - 2 for one, at in zip(rows, places, strict=True)):
        return several
    if pool or plain in _LAST:
        return several if place >= rank - (int(pool[1]) if pool else _LAST[plain]) else ""
    if convolution:  # of a batch of rows
        return "" if rank == int(convolution[2]) + 2 and place == 0 and not _is(args[1], rows) else several
    if plain in _OF_ITEMS:
        return "" if rank > 1 and place == 0 else several
    if plain == "interpolate":
        return several if place > 1 else ""
    if plain == "pad":
        return several if place >= rank - len(kwargs["pad"] if "pad" in kwargs else args[1]) // 2 else ""
    if plain == "einsum":
        label = _kept_label(args, rows, places)
        return "" if label and (not of_edges or _equation(args)[1][0] == label) else several
    if plain in ("layer_norm", "rms_norm"):
        shape = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
        return several if place >= rank - len(shape) else ""
    if plain == "one_hot":
        number = kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
        return several if number < 0 else ""
    if plain == "embedding_bag":  # of [num_rows, length]; without offsets, which would be positions
        return "" if rank == 2 and place == 0 and not _is(args[1], rows) else several
    if plain in _RECURRENT:  # what is packed has the lengths of the batch in the place of states
        is_packed = isinstance(args[1], Tensor) and not args[1].is_floating_point()
        return "" if not is_packed and rank == 3 and place == (0 if args[-1] is True else 1) else several
    if plain in _CELLS:
        return "" if rank == 2 and set(places) == {0} else several
    if plain == "multi_head_attention_forward":
        is_batch = _is(args[0], rows) and all(
            one == (1 if any(value is argument for argument in args[:3]) else 0)
            for value, one in zip(rows, places, strict=True)
        )
        return "" if rank == 3 and is_batch else several
    if plain in ("transpose", "swapaxes", "swapdims", "permute", "movedim"):
        return several if any(one in (0, -rank) for one in _first_moved(plain, args, kwargs)) else ""
    return f"uses {name}, of which it is not known that it works {'edge by edge' if of_edges else 'row by row'}"


def place_of_rows(
    plain: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Tensor, place: int, out: Tensor, number: int
) -> int:
    """Return the dimension that has the rows in a result of an operation that works row by row.

    Parameters
    ----------
    plain, args, kwargs
        The operation.
    rows, place
        The first of its arguments that has rows, and their dimension.
    out, number
        The result, and its number among those of the operation.
    """
    more = out.dim() - rows.dim()
    if plain in _RECURRENT or plain == "multi_head_attention_forward":
        return place if number == 0 else int(plain in _RECURRENT)
    if plain == "einsum":
        operands, output = _equation(args)
        return output.index(next(labels for labels, one in operands if one is rows)[place])
    if plain in ("stack", "index_select"):
        along: int = _along(plain, args, kwargs)[0] % out.dim()
        return along if plain == "index_select" and rows is not args[0] else place + (more > 0 and along <= place)
    if plain in _FROM_THE_LEFT or (plain in PRODUCTS and args[0] is rows and more < 0):
        return place
    if plain in _ALONG and more < 0:
        return place - len([one for one in _along(plain, args, kwargs) if one % rows.dim() < place])
    return place + more


def is_entry_by_entry(plain: str) -> bool:
    """Whether an operation, which works row by row, takes the entries of other arguments by their positions."""
    return not (plain in _OF_TABLES or plain in PRODUCTS or _CONVOLUTION.fullmatch(plain))


def users_line(error: BaseException | None = None) -> str:
    """Return the line of a user or of the library of a layer that is running, or had an error: "(file:line: text)"."""
    stack = traceback.extract_stack() if error is None else traceback.extract_tb(error.__traceback__)
    frames = [one for one in stack if not one.filename.startswith((OURS, "<"))]
    of_layers = [one for one in frames if not one.filename.startswith(TORCH)]
    line = (of_layers or frames)[-1]
    return f"({Path(line.filename).name}:{line.lineno}: {line.line})"


@cache
def is_pointwise(name: str) -> bool:
    """Whether torch says that an operation is one on each number by itself."""
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        names = (name, name[1:]) if name[0] in "ir" else (name,)
        return any(is_pointwise(_OPERATORS.get(one, one)) for one in names)
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else [getattr(packet, one) for one in packet.overloads()]
    return any(torch.Tag.pointwise in one.tags for one in overloads)


def _is(value: Any, rows: Sequence[Tensor]) -> bool:
    return any(value is one for one in rows)


def _along(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the dimensions that an operation works along; None is all of them."""
    place, default = _ALONG[name]
    along = kwargs.get("dim", kwargs.get("axis", kwargs.get("dims", args[place] if len(args) > place else default)))
    return list(along) if isinstance(along, tuple | list) else [along]


def _is_along_rows(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[Tensor], place: int
) -> bool:
    along = _along(name, args, kwargs)
    if isinstance(along[0], Tensor):  # of two tensors, as torch.max(a, b)
        return name not in ("max", "min")
    if name in ("gather", "index_select", "take_along_dim") and not _is(args[0], rows):
        return False  # looks up what is no row
    number = rows[0].dim() + (name == "stack")
    return any(one is None or one % max(1, number) == place for one in along)


def _numbers(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Return arguments that are numbers, or one sequence of these."""
    values = [*args, *kwargs.values()]
    return values[0] if len(values) == 1 and isinstance(values[0], tuple | list) else values


def _sums_rows(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[Tensor], places: Sequence[int]
) -> bool:
    """Whether a product of matrices adds rows up."""
    left, right = [*args, *kwargs.values()][:2]
    left, right = (right, left) if name == "__rmatmul__" else (left, right)
    return any(
        (one is left and place == one.dim() - 1) or (one is right and place == max(0, one.dim() - 2))
        for one, place in zip(rows, places, strict=True)
    )


def _first_moved(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the dimensions that are moved, as far as the first may be among them."""
    dims = _numbers(args[1:], kwargs)
    if name == "permute":
        return [] if dims and dims[0] in (0, -len(dims)) else [0]
    return [one for value in dims for one in (value if isinstance(value, tuple | list) else [value])]


def chooses_rows(index: Any, rows: Sequence[Tensor], *, writes: bool, place: int = 0) -> bool:
    """Whether an index of rows picks some of them, by their place among the others."""
    entries = [one for one in (index if isinstance(index, tuple) else (index,)) if one is not None]
    number = sum(
        one.dim() if isinstance(one, Tensor) and one.dtype == torch.bool else one is not Ellipsis for one in entries
    )
    if entries and entries[0] is Ellipsis and number >= rows[0].dim():
        entries = entries[1:]
    first = entries[0] if entries else Ellipsis
    if writes and isinstance(first, Tensor) and first.dtype == torch.bool and _is(first, rows):
        return place > 0
    return place > 0 or not (first is Ellipsis or (isinstance(first, slice) and first == slice(None)))


def _equation(args: Sequence[Any]) -> tuple[list[tuple[str, Any]], str]:
    """Return the operands of a sum of products in Einstein's notation with their labels, and those of its result."""
    inputs, _, output = args[0].replace(" ", "").partition("->")
    operands = args[1] if len(args) == 2 and isinstance(args[1], tuple | list) else args[1:]
    pairs = list(zip(inputs.split(","), operands, strict=False))
    numbers = [one.dim() - len(labels) + 3 if "." in labels else 0 for labels, one in pairs]
    left_out = [_LEFT_OUT[len(_LEFT_OUT) - number :] for number in (*numbers, max(numbers))]
    labelled = [(labels.replace("...", more), one) for (labels, one), more in zip(pairs, left_out, strict=False)]
    return labelled, output.replace("...", left_out[-1])


def _kept_label(args: Sequence[Any], rows: Sequence[Tensor], places: Sequence[int]) -> str:
    """Return the label of rows in a sum of products in Einstein's notation, if they all have it, and the result too."""
    if not isinstance(args[0], str) or "->" not in args[0]:
        return ""
    operands, output = _equation(args)
    place_of = {id(one): place for one, place in zip(rows, places, strict=True)}
    pairs = [(labels, place_of.get(id(one))) for labels, one in operands]
    kept = {labels[place] for labels, place in pairs if place is not None}
    others = "".join(labels if place is None else labels[:place] + labels[place + 1 :] for labels, place in pairs)
    return kept.pop() if len(kept) == 1 and kept <= set(output) - set(others) else ""
