"""Nodes for training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import Named
from headrace.pipeline.data.arrays import as_cpu_tensor, as_number, describe
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.split_shares import PARTS, cut_by_time, drawn, sizes_of
from headrace.pipeline.data.times import as_times

_STAGE = "split_nodes"


def split_nodes(
    nodes: Any,
    *,
    val: float = 0.1,
    test: float = 0.1,
    stratify: ArrayLike | Tensor | None = None,
    time: ArrayLike | Tensor | None = None,
    seed: int = 0,
) -> dict[str, Items]:
    """Split nodes into those for training, validation and test.

    The split depends on the arguments alone, not on the machine. Ids stay in their order within each part.

    Parameters
    ----------
    nodes
        A number of nodes, ids, or a mask: anything `ItemSampler` takes as items without types. With labels, ``(ids,
        labels)``, the parts have labels.
    val, test
        Fractions of the nodes in [0, 1), or numbers of nodes as integers.
    stratify: [num_items], optional
        The class of each item, integers: each class is split by itself, so that parts have the same shares of classes.
    time: [num_items], optional
        The time of each item. The split is then by time: no item for training is as late as one of validation, and none
        of validation as late as one of test. Items of one time are in one part.
    seed
        Of the draw, which `time` replaces.

    Returns
    -------
    dict
        "train", "val" and "test", each `hr.Items` of at least one item; parts that were asked for with 0 are absent.

    Raises
    ------
    InputError
        If val and test leave nothing for training, a part that was asked for gets no items, or arguments have wrong
        lengths or kinds.
        If `nodes` are not items of one node each.

    Examples
    --------
    >>> import headrace as hr
    >>> split = hr.split_nodes(10, val=0.2, test=2, seed=1)
    >>> [len(split[part]) for part in ("train", "val", "test")]
    [6, 2, 2]
    """
    if isinstance(nodes, Mapping):
        raise InputError(f"{_STAGE}: expected the nodes of one type, got a dictionary; split each type by itself")
    items = ItemSet.of(nodes)
    if items.are_pairs:
        raise InputError(f"{_STAGE}: expected nodes, got {items}; hr.split_links splits edges")
    if time is not None and stratify is not None:
        raise InputError(f"{_STAGE}: expected time or stratify, got both; a cut by time leaves no choice")
    sizes = sizes_of(len(items), val, test, _STAGE)
    times = None if time is None else as_times(time, f"{_STAGE}: time")
    if times is not None:
        _check_length(times, len(items), "time")
        parts, _ = cut_by_time(times, sizes, _STAGE)
    elif stratify is not None:
        parts = _by_class(_classes(stratify, len(items)), val, test, seed)
    else:
        parts = drawn(len(items), sizes, seed, _STAGE)
    found = {}
    for number, name in enumerate(PARTS):
        chosen = (parts == number).nonzero().reshape(-1)
        if not len(chosen) and sizes[number]:
            raise InputError(
                f"{_STAGE}: expected items for {name!r}, got classes that are too small for its share; change "
                "val and test, or leave stratify out"
            )
        if len(chosen):
            ids, labels = items.take(chosen.numpy())
            found[name] = Items(ids, labels, None if times is None else times[chosen])
    return Named(_STAGE, found)


def _classes(stratify: Any, num_items: int) -> Tensor:
    classes = as_cpu_tensor(stratify, f"{_STAGE}: stratify")
    _check_length(classes, num_items, "stratify")
    if classes.dtype.is_floating_point or classes.dtype.is_complex:
        raise InputError(f"{_STAGE}: expected stratify to be integers, got {describe(classes)}; pass class numbers")
    return classes


def _by_class(classes: Tensor, val: Any, test: Any, seed: Any) -> Tensor:
    """Return the part of each item, drawn class by class; numbers of items are shares of all of them."""
    parts = torch.zeros(len(classes), dtype=torch.int8, device="cpu")
    numbers = [as_number(share) or 0 for share in (val, test)]
    shares = [number / len(classes) if isinstance(number, int) else number for number in numbers]
    for stream, own in enumerate(torch.unique(classes), 1):
        chosen = (classes == own).nonzero().reshape(-1)
        of_val, of_test = (round(len(chosen) * share) for share in shares)
        sizes = max(0, len(chosen) - of_val - of_test), min(of_val, len(chosen)), min(of_test, len(chosen) - of_val)
        parts[chosen] = drawn(len(chosen), sizes, seed, _STAGE, stream)
    return parts


def _check_length(values: Tensor, num_items: int, name: str) -> None:
    if values.shape != (num_items,):
        raise InputError(f"{_STAGE}: expected {name} of [{num_items}], one for each item, got {describe(values)}")
