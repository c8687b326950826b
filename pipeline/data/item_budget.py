"""Batches that end before what their items cost exceeds a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, describe
from headrace.pipeline.data.integers import as_int64, is_whole
from headrace.pipeline.data.typed_items import joined_rows

if TYPE_CHECKING:
    from headrace.pipeline.data.items import ItemSet

#: Running sums of costs are 64-bit integers.
_LARGEST_SUM = float(1 << 62)


def as_costs(cost: Any, items: ItemSet) -> Tensor:
    """Return what each item costs, int64[num_items].

    Raises
    ------
    InputError
        For costs that are no integers, negative or of another number than the items.
    """
    if items.types is not None and isinstance(cost, Mapping):
        return joined_rows(cost, items.types, "cost", _integers)
    costs = _integers(cost)
    if len(costs) != len(items):
        of_all = len(costs) == items.mask_size
        raise InputError(
            f"ItemSampler: expected a cost for each of {len(items)} items, got {len(costs)}"
            f"{'; pass cost[mask]' if of_all else ''}"
        )
    return costs


def _integers(cost: Any) -> Tensor:
    costs = as_cpu_tensor(cost, "cost")
    if costs.dim() != 1 or not is_whole(costs.dtype):
        raise InputError(
            f"ItemSampler: expected costs that are integers, one for each item, got {describe(costs)}; the in-degrees "
            "of nodes are graph.in_degrees()[ids]"
        )
    costs = as_int64(costs, "ItemSampler: costs")
    if len(costs) and int(costs.min()) < 0:
        raise InputError(f"ItemSampler: expected costs of at least 0, got {int(costs.min())}")
    if float(costs.double().sum()) > _LARGEST_SUM:
        raise InputError("ItemSampler: expected costs with a sum below 2**62, got more; give them in a larger unit")
    return costs


def cut(costs: NDArray[np.int64], budget: int, most: int | None) -> NDArray[np.int64]:
    """Return where batches begin among items in their order, and where the last one ends: int64[num_batches + 1].

    A batch takes the next item as long as all of it costs no more than the budget, as PyG's ``DynamicBatchSampler``
    does; one that costs more by itself is a batch of its own.

    Parameters
    ----------
    costs: int64[num_items]
        In the order of the items.
    budget
        What the items of a batch may cost.
    most
        How many there may be of them.
    """
    total = np.cumsum(costs)
    starts = [0]
    while starts[-1] < len(costs):
        start = starts[-1]
        spent = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, min(spent + budget, int(total[-1])), "right")), start + 1)
        starts.append(stop if most is None else min(stop, start + most))
    return np.array(starts, dtype=np.int64)
