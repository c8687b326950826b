"""How many items the parts of a split get, and where times are cut: shared by splits of nodes and of links."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError, shuffled_range, stream_key
from headrace.ops.random.rng import SHUFFLE
from headrace.pipeline.data.arrays import as_number, whole_number
from headrace.pipeline.data.times import ordered

PARTS = ("train", "val", "test")

#: The layer in the key of the order that splits draw: loaders shuffle by layer 0 of the same purpose.
_LAYER = 1


def sizes_of(num_items: int, val: Any, test: Any, stage: str) -> tuple[int, int, int]:
    """Return the numbers of items of train, val and test.

    Raises
    ------
    InputError
        If a share is neither a fraction below 1 nor a number of items, is too small for one item, or leaves none for
        training.
    """
    of_val, of_test = (_share(num_items, share, f"{stage}: {name}") for name, share in (("val", val), ("test", test)))
    left = num_items - of_val - of_test
    if left < 1:
        raise InputError(
            f"{stage}: expected val and test to leave items for training, got {of_val} and {of_test} of {num_items}; "
            "lower them"
        )
    return left, of_val, of_test


def _share(num_items: int, share: Any, name: str) -> int:
    number = as_number(share)
    if isinstance(number, int):
        return whole_number(number, name, 0, InputError)
    if number is None or not 0 <= number < 1:
        raise InputError(f"{name.replace(': ', ': expected ')} to be a fraction in [0, 1) or a number, got {share!r}")
    size = round(num_items * number)
    if number and not size:
        raise InputError(
            f"{name.replace(': ', ': expected ')} to be at least one item, got {share!r} of {num_items}, which is "
            "none; raise it, give a number of items, or 0 for no such part"
        )
    return size


def drawn(num_items: int, sizes: tuple[int, int, int], seed: Any, stage: str, stream: int = 0) -> Tensor:
    """Return the part of each item, 0, 1 or 2, drawn without replacement: int8[num_items].

    The draw depends on the seed, the number of items and the stream alone.
    """
    seed = whole_number(seed, f"{stage}: seed", 0, InputError, (1 << 64) - 1)
    order = shuffled_range(num_items, 0, num_items, stream_key(seed, 0, stream, _LAYER, SHUFFLE))
    parts = torch.arange(3, dtype=torch.int8, device="cpu").repeat_interleave(torch.tensor(sizes, device="cpu"))
    return torch.empty_like(parts).scatter_(0, order, parts)


def cut_by_time(times: Tensor, sizes: tuple[int, int, int], stage: str) -> tuple[Tensor, list[Tensor]]:
    """Return the part of each item by its time, and the first time of val and of test, as `ordered` has times.

    Items of one time are in one part, the later one, so the sizes may differ from those asked for.

    Raises
    ------
    InputError
        If a part that should have items gets none.
    """
    keys = ordered(times)
    by_time = keys.sort().values
    ends = sizes[0], sizes[0] + sizes[1]
    cuts = [by_time[end] if end < len(by_time) else None for end in ends]
    parts = torch.zeros(len(keys), dtype=torch.int8, device="cpu")
    for number, cut in enumerate(cuts, 1):
        if cut is not None:
            parts[keys >= cut] = number
    found = torch.bincount(parts.long(), minlength=3).tolist()
    for name, asked, got in zip(PARTS, sizes, found, strict=True):
        if asked and not got:
            raise InputError(
                f"{stage}: expected times that divide the items, got none for {name!r}, as too many items have one "
                "time, and these stay together; change val and test, or give finer times"
            )
    last = torch.iinfo(torch.int64).max
    return parts, [torch.tensor(last, device="cpu") if cut is None else cut for cut in cuts]
