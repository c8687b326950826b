"""Items that come as a ``torch.utils.data.Dataset``: samples that are an id, an id with its label, or a pair.

Several sets of items by name are refused. Items may be all rows of a feature as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset, default_collate

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, describe
from headrace.pipeline.data.integers import as_int64

if TYPE_CHECKING:
    from headrace.pipeline.data.split_items import Items

SPELLINGS = (
    "give ids with labels as a tuple (ids, labels), and pairs of nodes as one integer tensor of shape "
    "[num_pairs, 2], torch.as_tensor(pairs)"
)


def items_of_dataset(dataset: Dataset[Any]) -> Tensor | tuple[Tensor, Tensor]:
    """Return the ids, or the ids and labels, of all samples of a map-style data set.

    A sample of one entry is an id, or a pair of nodes if it is a tensor of two; a sample of two is (id, label). The
    tensors of a ``TensorDataset`` are taken as they are; other data sets are read sample by sample.

    Raises
    ------
    InputError
        If the data set has no length, or its samples are something else.
    """
    tensors = _tensors(dataset)
    if len(tensors) == 1:
        return tensors[0]
    if len(tensors) == 2:
        return tensors[0], tensors[1]
    raise InputError(
        f"expected samples of a {type(dataset).__name__} to be ids or (id, label), got {len(tensors)} entries in each; "
        f"{SPELLINGS}"
    )


def refuse_by_name(items: Any, kind: type[Items]) -> None:
    """Refuse several sets of items by name, as data sets and splits have them, and what has such in ``items``.

    Raises
    ------
    InputError
        With the first of the names.
    """
    own = getattr(items, "items", None)
    named = items if isinstance(items, Mapping) else own
    if not isinstance(named, Mapping) or not any(isinstance(one, kind) for one in named.values()):
        return
    came = "item sets by name" if named is items else f"a {type(items).__name__} with item sets by name"
    names = list(named)
    raise InputError(
        f"ItemSampler: expected the items of one split, got {came}, {', '.join(map(str, names))}; pass one of them, "
        f"such as data.items[{names[0]!r}]"
    )


def refuse_of_peers(items: Any) -> None:
    """Refuse seeds of a type as PyG's loaders take them, and whole graphs.

    Raises
    ------
    InputError
        With what to write.
    """
    if isinstance(items, tuple) and len(items) == 2 and isinstance(items[0], str):
        raise InputError(
            f"ItemSampler: expected items of a type in a dictionary, got a tuple with {items[0]!r}; write "
            f"{{{items[0]!r}: ids}}"
        )
    if type(items).__name__ in ("Data", "HeteroData", "DGLGraph", "Graph"):
        raise InputError(
            f"ItemSampler: expected items to be ids, a mask or pairs, got a {type(items).__name__}; pass the seeds, "
            "such as data.train_mask, or the number of nodes, for all of them"
        )


def _tensors(dataset: Dataset[Any]) -> list[Tensor]:
    """Return what the samples consist of: a tensor for each entry, with a row for each sample."""
    if isinstance(dataset, TensorDataset):
        return list(dataset.tensors)
    if isinstance(dataset, Subset):
        indices = as_cpu_tensor(dataset.indices, "indices of a Subset")
        chosen = as_int64(indices, "indices of a Subset")
        tensors = _tensors(dataset.dataset)
        count = min(len(one) for one in tensors)
        if len(chosen) and not -count <= int(chosen.min()) <= int(chosen.max()) < count:
            raise InputError(
                f"expected indices of a Subset of {count} samples, got {int(chosen.min())} to {int(chosen.max())}"
            )
        return [tensor[chosen] for tensor in tensors]
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InputError(
            f"expected a data set with a length, whose samples can be looked up, got {type(dataset).__name__}; give "
            "its ids as a tensor, or begin the plan with hr.ext.NodeSource"
        )
    samples = [dataset[index] for index in range(len(dataset))]
    if not samples:
        return [torch.empty(0, dtype=torch.int64, device="cpu")]
    try:
        entries = default_collate(samples)
    except (TypeError, RuntimeError):  # neither numbers nor tensors of one shape
        entries = None
    if isinstance(entries, Tensor):
        return [entries]
    if isinstance(entries, (list, tuple)) and all(isinstance(entry, Tensor) for entry in entries):
        return list(entries)
    raise InputError(
        f"expected samples of a {type(dataset).__name__} to be ids or (id, label), got a {type(samples[0]).__name__}; "
        f"{SPELLINGS}"
    )


def rows_of_source(source: Any) -> torch.Tensor:
    """Return all rows of a feature, such as a mask: in place, where they are one tensor."""
    rows: torch.Tensor | None = getattr(source, "rows_in_place", None)
    if rows is not None:
        return rows
    returned = source.read(torch.arange(source.num_rows, device="cpu"))
    rows = returned[0] if isinstance(returned, tuple) and returned else None
    if not isinstance(rows, torch.Tensor) or rows.ndim == 0 or len(rows) != source.num_rows:
        raise InputError(
            f"ItemSampler: expected {type(source).__name__}.read to return {source.num_rows} rows and counts, got "
            f"{describe(returned if rows is None else rows)}; return hr.Rows(rows), a row for each id"
        )
    return rows.clone()  # which the source may write again
