"""Item sets: the ids, ranges, masks, pairs or labelled ids that an epoch goes through."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.data.arrays import as_cpu_tensor, refuse_gradient, rows_at, whole_number
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.digest import equal, exact_digest, sampled_digest
from headrace.pipeline.data.item_datasets import (
    SPELLINGS,
    items_of_dataset,
    refuse_by_name,
    refuse_of_peers,
    rows_of_source,
)
from headrace.pipeline.data.seen import Seen, argument
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.typed_items import LinkTypes, TypeRuns, in_space, joined, joined_rows
from headrace.pipeline.data.types import TypeOffsets, type_number


@dataclasses.dataclass(frozen=True, eq=False)
class ItemSet:
    """Items in a fixed order, looked up by position. Build one with :meth:`of`.

    Parameters
    ----------
    ids
        ``range``, or integer[num_items] node ids, or integer[num_items, 2] pairs of node ids, or [num_items, k] node
        ids of k nodes that belong together (hyper-edges).
    labels
        Any dtype, [num_items, ...]; None when the items carry no labels.
    mask_size
        Length of the mask that the ids were given as; None where there was none.
    types
        Where ids count within types, those of the items that follow each other; `in_space` makes them global.
    mask_sizes
        What `mask_size` is, for each of `types`.
    edge_types
        Of pairs that came by edge type and are in the id space of a graph by now, what `types` was, in full names.
    masks
        The masks that ids were given as, and arrays by type that were put behind one another: writes to these do not
        reach the items.
    numbering
        That of the data set whose items these are; see `Items`.
    """

    ids: range | torch.Tensor
    labels: torch.Tensor | None = None
    mask_size: int | None = None
    types: TypeRuns | None = None
    mask_sizes: tuple[int | None, ...] | None = None
    edge_types: TypeRuns | None = None
    masks: tuple[Seen, ...] = ()
    numbering: str | None = None

    @staticmethod
    def of(items: Any, *, allow_empty: bool = False, allow_none: bool = False) -> ItemSet:
        """Make an item set.

        Parameters
        ----------
        items
            An int n (the ids 0..n-1), a ``range``, integer ids [num_items], a boolean mask [num_nodes] (the ids where
            it is true), integer pairs [num_items, 2] or hyper-edges [num_items, k], or any of these with labels
            [num_items, ...]: a tuple ``(ids, labels)``, a list of two tensors, or a ``torch.utils.data.Dataset`` of
            (id, label). Arrays may be torch tensors on the CPU, NumPy arrays (memory-mapped ones too), lists of ids, or
            features, such as the mask ``store.node["train_mask"]``, contiguous or not; pairs are tensors or NumPy
            arrays alone, as a list of them may as well hold (id, label).
            Of a graph with types a dictionary has the ids of each node type as they count within it, or pairs by edge
            type; labels are a dictionary of the same keys, or are with the ids of each type, ``{type: (ids, labels)}``.
        allow_empty
            Whether a batch is meant, which may be empty, or two items of many nodes.
        allow_none
            Whether a set without items is accepted, an empty list too.

        Raises
        ------
        InputError
            For no items, negative ids, a dtype that is not integer or bool, a wrong shape, labels of another length, a
            tensor on a device, or what may be pairs as well as ids with labels.
        """
        if isinstance(items, ItemSet):
            return items
        numbering = None
        if isinstance(items, Items):
            numbering = items.numbering
            items = items.ids if items.labels is None else (items.ids, items.labels)
        if allow_none and isinstance(items, list) and not items:
            items = range(0)
        if isinstance(items, torch.utils.data.Dataset):
            items = items_of_dataset(items)
        refuse_of_peers(items)
        labels: Any = None
        if isinstance(items, tuple) or _are_two_arrays(items):
            if len(items) != 2:
                raise InputError(f"a tuple of items is (ids, labels); this one has {len(items)} entries")
            items, labels = items
        refuse_by_name(items, Items)
        types = mask_sizes = None
        ids: range | torch.Tensor
        masks: list[Seen] = []
        if isinstance(items, Mapping) and items:
            items, labels = labels_by_type(items, labels)
            by_type = {name: _ids(some, masks) for name, some in items.items()}
            copied = {f"items of type {name!r}": ids for name, (ids, size) in by_type.items() if size is None}
            masks += [_copied(what, ids) for what, ids in copied.items() if isinstance(ids, torch.Tensor)]
            tensors = {name: (_listed(ids), size) for name, (ids, size) in by_type.items()}
            ids, types = joined(tensors)
            mask_size, mask_sizes = None, tuple(size for _, size in by_type.values())
        else:
            ids, mask_size = _ids(items, masks)
        if types is not None and isinstance(labels, Mapping):
            parts = {name: _as_labels(some) for name, some in labels.items()}
            masks += [_copied(f"labels of type {name!r}", part) for name, part in parts.items()]
            labels = joined_rows(parts, types, "labels", _as_labels)
        elif labels is not None:
            labels = _as_labels(labels)
        if not allow_empty:
            _refuse_transposed(ids, labels)
        if len(ids) == 0 and not (allow_empty or allow_none):
            raise InputError(
                "ItemSampler: expected at least one item, got an empty set; look whether the mask is all false"
            )
        if labels is not None and (labels.dim() == 0 or labels.shape[0] != len(ids)):
            of_all = mask_size is not None and labels.dim() > 0 and labels.shape[0] == mask_size
            raise InputError(
                f"expected labels to have one row per item ({len(ids)}), got shape {list(labels.shape)}"
                f"{'; pass labels[mask]' if of_all else ''}"
            )
        return ItemSet(ids, labels, mask_size, types, mask_sizes, masks=tuple(masks), numbering=numbering)

    def in_space(self, node_types: TypeOffsets, edge_types: TypeOffsets) -> ItemSet:
        """Return the items in the id space of a graph.

        Raises
        ------
        InputError
            If a type or an id is not there, or a mask has another length than its type.
        """
        if self.types is None:
            return self
        assert isinstance(self.ids, torch.Tensor)
        ids = in_space(self.ids, self.types, node_types, edge_types, self.mask_sizes)
        if not self.are_pairs:
            return ItemSet(ids, self.labels, masks=self.masks, numbering=self.numbering)
        named = tuple((edge_types.names[type_number(edge_types, name)], count) for name, count in self.types)
        twice = [name for i, (name, _) in enumerate(named) if name in dict(named[:i])]
        if twice:
            raise InputError(f"expected items of each edge type once, got {twice[0]!r} under two names; join them")
        return ItemSet(ids, self.labels, edge_types=named, masks=self.masks, numbering=self.numbering)

    def also_of(self, what: str, array: torch.Tensor) -> ItemSet:
        """Return the items with one more array of which there is a copy, such as their times."""
        return dataclasses.replace(self, masks=(*self.masks, _copied(what, array)))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def are_pairs(self) -> bool:
        """Whether an item is a pair of nodes, or more of them, rather than one node."""
        return self.nodes_per_item > 1

    @property
    def nodes_per_item(self) -> int:
        """1 for nodes, 2 for pairs, k for hyper-edges."""
        return self.ids.shape[1] if isinstance(self.ids, torch.Tensor) and self.ids.dim() == 2 else 1

    def take(self, positions: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the ids (int64) and labels at the given positions, int64[n]."""
        labels = None if self.labels is None else rows_at(self.labels, positions, "labels")
        if isinstance(self.ids, range):
            return torch.from_numpy(positions * self.ids.step + self.ids.start), labels
        return rows_at(self.ids, positions, "items").to(torch.int64), labels

    def link_types(self, positions: NDArray[np.int64]) -> LinkTypes | None:
        """Return the edge types of the pairs at the given positions; None where they are not known."""
        if self.edge_types is None:
            return None
        ends = np.cumsum([count for _, count in self.edge_types])
        numbers = torch.from_numpy(np.searchsorted(ends, positions, side="right"))
        return LinkTypes(tuple(name for name, _ in self.edge_types), numbers)

    def all_ids(self) -> torch.Tensor:
        """Return the ids of all items, int64[num_items] or int64[num_items, k]; a range is written out."""
        if isinstance(self.ids, range):
            return torch.arange(self.ids.start, self.ids.stop, self.ids.step, device="cpu")
        return self.ids.to(torch.int64)

    @cached_property
    def largest_id(self) -> int:
        """The largest node id among the items, found in one pass over them."""
        if isinstance(self.ids, range):
            return max(self.ids[0], self.ids[-1])
        return int(self.ids.max())

    def kind(self) -> str:
        """Return what items of one kind have in common, however many there are."""
        labels = "none" if self.labels is None else f"{self.labels.dtype}{list(self.labels.shape[1:])}"
        return f"items of {self.nodes_per_item} nodes, {'by type, ' if self.types else ''}labels {labels}"

    def content_digest(self) -> str:
        """Return a fingerprint of every id (a second for each GB) and of the labels, sampled when they are many."""
        digest = exact_digest([("ids", self._ids_tensor())]) + ("" if self.types is None else str(self.types))
        return digest if self.labels is None else digest + sampled_digest([("labels", self.labels)])

    def _ids_tensor(self) -> torch.Tensor:
        if isinstance(self.ids, range):
            return torch.tensor([self.ids.start, self.ids.stop, self.ids.step], device="cpu")
        return self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ItemSet):
            return NotImplemented
        same_kind = isinstance(self.ids, range) == isinstance(other.ids, range)
        same_kind = same_kind and self.types == other.types
        return same_kind and torch.equal(self._ids_tensor(), other._ids_tensor()) and equal(self.labels, other.labels)

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        width = self.nodes_per_item
        kind = "items" if width == 1 else "pairs" if width == 2 else f"items of {width} nodes"
        return f"{len(self):,} {kind}{' with labels' if self.labels is not None else ''}"


def seed_batch(
    items: ItemSet,
    positions: NDArray[np.int64],
    *,
    first: int = 0,
    epoch: int,
    index: int,
    num_global_seeds: int,
    seed_time: torch.Tensor | None = None,
    seed_slot: torch.Tensor | None = None,
) -> MiniBatch:
    """Return the batch, not yet sampled, whose seeds are the items at ``positions``, int64[num_seeds].

    ``first`` is the position of the set's first item in the whole epoch. Seeds may repeat: the nodes of the batch
    are the distinct ones, in order of first occurrence, and ``seed_index`` leads from each seed to its node.
    Positions are NumPy's, whose sums and slices of a few numbers take a fraction of the time of torch's.
    """
    seeds, labels = items.take(positions)
    batch = MiniBatch.of_seeds(
        seeds,
        epoch=epoch,
        index=index,
        y=labels,
        item_index=torch.from_numpy(positions + first),
        num_global_seeds=num_global_seeds,
        seed_time=seed_time,
        seed_slot=seed_slot,
    )
    return batch if items.edge_types is None else batch.replace(link_types=items.link_types(positions))


def labels_by_type(items: Mapping[Any, Any], labels: Any) -> tuple[dict[Any, Any], Any]:
    """Return the ids of each type, and the labels: of each type where they stand with its ids, or as they came.

    Raises
    ------
    InputError
        If some types have labels and others have none, or labels came twice.
    """
    ids, with_ids = {}, {}
    for name, some in items.items():
        one = items_of_dataset(some) if isinstance(some, torch.utils.data.Dataset) else some
        if isinstance(one, tuple) or _are_two_arrays(one):
            if len(one) != 2:
                raise InputError(f"a tuple of items is (ids, labels); that of {name!r} has {len(one)} entries")
            ids[name], with_ids[name] = one
        else:
            ids[name] = one
    if not with_ids:
        return ids, labels
    without = [name for name in ids if name not in with_ids]
    if without:
        raise InputError(
            f"ItemSampler: expected labels of all types or of none, got some of {list(with_ids)} and none of "
            f"{without}; give these labels that stand for none, such as -1, or a plan of their own"
        )
    if labels is not None:
        raise InputError(
            "ItemSampler: expected labels once, got some with the ids of each type and others beside them; leave "
            "one out"
        )
    return ids, with_ids


def _listed(ids: range | torch.Tensor) -> torch.Tensor:
    return ids if isinstance(ids, torch.Tensor) else torch.arange(ids.start, ids.stop, ids.step, device="cpu")


def _as_labels(labels: Any) -> torch.Tensor:
    refuse_gradient(labels, "labels", "batch.seeds")
    return as_cpu_tensor(labels, "labels")


def _refuse_transposed(ids: range | torch.Tensor, labels: torch.Tensor | None) -> None:
    """Refuse the edge_index of PyG, which would be two items of many nodes."""
    if isinstance(ids, range) or ids.dim() != 2 or not ids.shape[0] == 2 < ids.shape[1]:
        return
    if labels is None or labels.shape[:1] != (2,):
        raise InputError(
            f"expected items to have shape [num_items, 2], got {list(ids.shape)}; pass its transpose, pairs.t(). Where "
            "these are two items of several nodes, give them with labels, (items, labels)"
        )


def _are_two_arrays(items: Any) -> bool:
    """Whether items are a list of two arrays, ids and labels: what a ``DataLoader`` makes of (id, label)."""
    if not isinstance(items, list) or len(items) != 2 or not all(_is_array(one) and one.ndim > 0 for one in items):
        return False
    return not all(one.shape == (2,) for one in items)  # which may be two pairs as well


def _is_array(items: Any) -> bool:
    return isinstance(items, (torch.Tensor, np.ndarray))


def _copied(what: str, array: torch.Tensor) -> Seen:
    """Return an array as it is now, of which items hold a copy."""
    return argument("ItemSampler", what, array)


def _ids(items: Any, masks: list[Seen]) -> tuple[range | torch.Tensor, int | None]:
    """Return the ids, and the length of the mask that they came as, if they did; it is added to the masks."""
    if callable(getattr(items, "read", None)) and hasattr(items, "num_rows"):
        items = rows_of_source(items)
    if isinstance(items, bool) or items is None:
        raise InputError(f"expected items to be ids, a range, a mask or pairs, got {items!r}")
    if isinstance(items, int | np.integer) or (_is_array(items) and items.ndim == 0):
        items = whole_number(items, "ItemSampler: a number of items", -(1 << 63), InputError)
        if not 0 <= items < 1 << 63:
            raise InputError(f"ItemSampler: expected a number of items in [0, 2**63), got {items}")
        return range(items), None
    if isinstance(items, range):
        least, largest = sorted((items[0], items[-1])) if items else (0, 0)
        if least < 0 or largest >= 1 << 63:
            raise InputError(f"expected node ids {'of at least 0' if least < 0 else 'below 2**63'}, got {items!r}")
        return items, None
    if isinstance(items, Mapping):
        raise InputError(
            f"expected items to be ids, a range, a mask or pairs, got a mapping with the keys {list(items)[:20]}"
        )
    ids = as_cpu_tensor(items, "items")
    if ids.dim() == 2 and not _is_array(items):
        raise InputError(
            f"expected items to be ids, got a {type(items).__name__} of {len(ids)} entries with {ids.shape[1]} numbers "
            f"each, which may be pairs of nodes or ids with labels; {SPELLINGS}"
        )
    if ids.dtype == torch.bool:
        if ids.dim() != 1:
            raise InputError(f"expected a mask of items to have one dimension [num_nodes], got shape {list(ids.shape)}")
        masks.append(_copied("the mask of items", ids))  # before it is read
        return ids.nonzero().reshape(-1), len(ids)
    if ids.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
        hint = "; make a mask of uint8 one of bool, mask.bool()" if ids.dtype == torch.uint8 else ""
        raise InputError(
            f"ItemSampler: expected items to be integer ids or a boolean mask, got dtype {ids.dtype}{hint}"
        )
    if ids.dim() not in (1, 2) or (ids.dim() == 2 and ids.shape[1] < 2):
        raise InputError(
            "expected items to have shape [num_items], [num_items, 2] or, for more nodes that belong together, "
            f"[num_items, k], got {list(ids.shape)}"
        )
    if ids.numel() > 0 and int(ids.min()) < 0:
        raise InputError(f"expected node ids of at least 0, got {int(ids.min())}")
    return ids, None
