"""Checks of arguments that many functions share: switches, tensors, devices, lists; and of parts of a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import HeadraceError, InputError
from headrace.pipeline.data.arrays import as_number, describe, expected, whole_number
from headrace.pipeline.data.place import MOST_DEVICES

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block

AnyBlock = TypeVar("AnyBlock", bound="Block")

#: Of the arrays of edges; None where torch does not count.
Versions: TypeAlias = tuple[int | None, int | None]

#: Levels of what is written as JSON, or read: a config has about ten.
MOST_LEVELS = 64

#: What is counted of every stage, besides what it counts itself.
_OF_EVERY_STAGE = ("batches", "seconds")

_BLOCK_IDS = (torch.int32, torch.int64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_switches(function: str, error: type[HeadraceError] = InputError, /, **values: Any) -> None:
    """Refuse switches that are neither True nor False.

    Raises
    ------
    error
        Naming the function and the first such switch.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise error(f"{function}: expected {name} to be True or False, got {type(value).__name__}")


def check_depth(value: object, what: str, error: type[HeadraceError] = InputError) -> None:
    """Refuse dictionaries and lists within each other in more levels than any description has, or without an end.

    Raises
    ------
    error
        Beginning with `what`, what they are.
    """
    level: dict[int, Any] = {id(value): value}
    for _ in range(MOST_LEVELS):
        inner: dict[int, Any] = {}
        for one in level.values():
            values = (*one, *one.values()) if isinstance(one, Mapping) else one
            if isinstance(values, list | tuple):
                inner |= {id(part): part for part in values if isinstance(part, Mapping | list | tuple)}
        if not inner:
            return
        level = inner
    raise error(f"{what}: expected at most {MOST_LEVELS} levels of dictionaries and lists, got more; flatten it")


def check_tensor(value: object, name: str, error: type[HeadraceError] = InputError) -> None:
    """Refuse what is no tensor; `name` may have the function in front, ``"f: x"``.

    Raises
    ------
    error
        Naming the argument.
    """
    if not isinstance(value, Tensor):
        raise error(f"{expected(name)} to be a tensor, got {type(value).__name__}; pass torch.as_tensor of it")


def no_seeds(seeds: object, function: str) -> InputError:
    """Return the error for seeds that are no tensor, or a single number."""
    if isinstance(seeds, Tensor) and seeds.layout != torch.strided:
        return InputError(f"{function}: expected dense seeds, got a tensor of layout {seeds.layout}; pass ids alone")
    if isinstance(seeds, Tensor):
        return InputError(
            f"{function}: expected seeds in one dimension or two, got a single number; pass a list of one"
        )
    return InputError(
        f"{function}: expected seeds to be a tensor, got {type(seeds).__name__}; pass torch.as_tensor of it"
    )


def place_of_batch(epoch: Any, index: Any, function: str) -> tuple[int, int]:
    """Return the epoch of a batch and its number in it, or refuse what are none."""
    places = {"epoch": epoch, "index": index}
    epoch, index = (whole_number(one, f"{function}: {name}", 0, InputError) for name, one in places.items())
    return epoch, index


def check_ids(ids: object, function: str, error: type[HeadraceError] = InputError) -> None:
    """Refuse ids that are no tensor of integers with values.

    Raises
    ------
    error
        Naming the function.
    """
    check_tensor(ids, f"{function}: ids", error)
    if isinstance(ids, Tensor) and (ids.dtype not in _INTEGERS or ids.is_meta):
        raise error(f"{function}: expected ids to be integers in a tensor, got {describe(ids)}")


def is_of_headrace(value: object) -> bool:
    """Whether a value is of a class of headrace, and not of a user's."""
    return type(value).__module__.partition(".")[0] == "headrace"


def as_counts(counts: object, who: str, error: type[HeadraceError]) -> dict[str, Any]:
    """Return what code of a user counted, as numbers of Python: `loader.stats()` adds them up.

    Raises
    ------
    error
        Naming `who` returned them, for what is no mapping of names to finite numbers.
    """
    if type(counts) is not dict and not isinstance(counts, Mapping):
        raise error(
            f"{expected(who)} to return its counts, got {type(counts).__name__}; return {{}} where there is "
            "nothing to count"
        )
    numbers = dict[str, Any]()
    for name, count in counts.items():
        number = count if type(count) is int else _as_finite(count)
        if number is None or not isinstance(name, str):
            kind = describe(count) if isinstance(count, Tensor) else repr(count)
            raise error(
                f"{expected(who)} to count in finite numbers by name, got {name!r}: {kind}; return numbers, which "
                "loader.stats() adds up"
            )
        if name in _OF_EVERY_STAGE:
            raise error(
                f"{expected(who)} to count by names of its own, got {name!r}, which loader.stats() counts of every "
                "stage; name it otherwise"
            )
        numbers[name] = number
    return numbers


def _as_finite(count: Any) -> int | float | None:
    if isinstance(count, Tensor) and count.is_meta:
        return None
    number = as_number(int(count) if isinstance(count, bool | np.bool_) else count)
    return None if number is None or not math.isfinite(number) else number


def as_list(values: Any, name: str, what: str, error: type[HeadraceError] = InputError) -> list[Any]:
    """Return the entries of a list or of anything else that can be gone through; `what` they are, for the message.

    Raises
    ------
    error
        Naming the argument.
    """
    no_list = isinstance(values, str | bytes) or not isinstance(values, Iterable)
    if no_list or getattr(values, "ndim", 1) == 0:
        raise error(f"{expected(name)} to be a list of {what}, got {type(values).__name__}")
    return list(values)


def check_module(model: object, function: str) -> None:
    """Refuse a model that is no module of torch.

    Raises
    ------
    InputError
        Naming the function.
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{function}: expected model to be a torch.nn.Module, got {type(model).__name__}")


def named_device(device: Any) -> torch.device:
    """Return what torch calls so, but for a number that it takes for that of another device.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        If torch knows no such device.
    """
    found = torch.device(device)
    kind, _, number = str(device).rpartition(":")
    if number.isdecimal() and (kind or isinstance(device, int)) and int(number) >= MOST_DEVICES:
        raise ValueError(f"torch numbers devices up to {MOST_DEVICES - 1}")
    return found


def as_device(device: Any, function: str) -> torch.device:
    """Return a device of torch.

    Raises
    ------
    InputError
        If the argument names none.
    """
    if isinstance(device, torch.device):
        return device
    try:
        return named_device(device)
    except (RuntimeError, TypeError, ValueError) as cause:
        raise InputError(
            f"{function}: expected a device of torch, got {_text(device)}; write 'cpu', 'cuda' or 'cuda:1'"
        ) from cause


def as_present_device(device: Any, function: str) -> torch.device:
    """Return a device of torch that tensors can be copied to.

    Raises
    ------
    InputError
        If the argument names none.
    HeadraceError
        If torch finds no such device here.
    """
    present = as_device(device, function)
    if present.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (present.index or 0) >= count:
            finds = f"{count} GPUs" if count else "no GPU"
            raise HeadraceError(f"{function}: expected a device of this machine, got {present}; torch finds {finds}")
    elif present.type not in ("cpu", "meta"):
        try:
            torch.empty(0, device=present)
        except (RuntimeError, AssertionError, NotImplementedError, ImportError) as cause:
            reason = str(cause).partition("\n")[0].partition(". ")[0]
            raise HeadraceError(f"{function}: expected a device of this machine, got {present} ({reason})") from cause
    return present


def pinned(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor in page-locked memory.

    Raises
    ------
    HeadraceError
        If there is no accelerator that gains by it, or the memory cannot be locked.
    """
    try:
        return tensor.pin_memory()
    except RuntimeError as cause:
        reason = str(cause).partition("\n")[0]
        raise HeadraceError(
            f"pin_memory: expected a GPU of this machine, got none to pin memory for ({reason})"
        ) from cause


def _text(value: object) -> str:
    return repr(value) if isinstance(value, str | int) else type(value).__name__


def trusted(block: AnyBlock, like: Block | None = None) -> AnyBlock:
    """Mark the edges of a block as valid by construction, or as those of another one are marked, and return it.

    The host then need not wait for a GPU that looks at them.
    """
    if like is None or is_as_made(like):
        vars(block)["_is_trusted"] = versions_of(block)
    return block


def moved(block: Block, of_tensor: Callable[[Tensor], Tensor]) -> Block:
    """Return a block with copies of its tensors, or themselves, which hold the same values."""
    return trusted(block.map(of_tensor), like=block)


def is_as_made(edges: Any) -> bool:
    """Whether headrace made the edges of a block, or of what was made of it, and nobody has written to them since."""
    mark: Versions | bool = getattr(edges, "_is_trusted", False)
    return mark if isinstance(mark, bool) else mark == versions_of(edges)


def versions_of(edges: Any) -> Versions:
    """Return how often torch has written to the arrays of edges."""
    try:
        return edges.indptr._version, edges.indices._version  # noqa: SLF001 - torch has no other name
    except RuntimeError:  # of tensors made in inference mode
        return None, None


def check_block(block: Block) -> None:
    """Check classes, dtypes and lengths; values are not read, as blocks may live on any device.

    Raises
    ------
    InputError
        If they do not fit together.
    """
    if not isinstance(block.num_src, int) or not isinstance(block.num_dst, int):
        kinds = f"{type(block.num_src).__name__} and {type(block.num_dst).__name__}"
        raise InputError(f"Block: expected num_src and num_dst to be integers, got {kinds}")
    if (
        not isinstance(block.indptr, Tensor)
        or block.indptr.dtype != torch.int64
        or block.indptr.shape != (block.num_dst + 1,)
    ):
        raise InputError(f"Block: expected indptr of int64[{block.num_dst + 1}], got {describe(block.indptr)}")
    if not isinstance(block.indices, Tensor) or block.indices.dtype not in _BLOCK_IDS or block.indices.ndim != 1:
        raise InputError(f"Block: expected indices of int32 or int64[num_edges], got {describe(block.indices)}")
    if not (0 <= block.num_dst <= block.num_src or block.bipartite):
        raise InputError(
            f"Block: expected 0 <= num_dst <= num_src, got num_dst={block.num_dst}, num_src={block.num_src}; "
            "destinations come first among the sources"
        )
    ids, weight, num_edges = block.edge_ids, block.weight, block.indices.shape
    if ids is not None and (not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.shape != num_edges):
        raise InputError(f"Block: expected edge_ids of int64[{block.num_edges}], got {describe(ids)}")
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != num_edges):
        raise InputError(f"Block: expected weight of [{block.num_edges}], got {describe(weight)}")
    if not isinstance(block.bipartite, bool):
        raise InputError(f"Block: expected bipartite to be True or False, got {type(block.bipartite).__name__}")
