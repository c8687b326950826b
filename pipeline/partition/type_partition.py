"""The owners of the nodes of one type, which are counted from 0 within it."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from headrace.pipeline.partition.partition import Partition


class TypePartition(Partition):
    """Owners of a range of nodes, by their numbers in it: `Partition.of_type` makes it.

    Every answer is that of the partition of all nodes, so a rank owns a row of a type's feature where it owns the node,
    and no table is kept for each type.

    Parameters
    ----------
    whole
        The owners of all nodes.
    nodes
        Those of the type, by their ids among all.
    """

    def __init__(self, whole: Partition, nodes: range) -> None:
        super().__init__(len(nodes), whole.num_parts)
        self.whole = whole
        self.nodes = nodes

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return self.whole.owner(ids + self.nodes.start)

    def owned(self, part: int) -> Tensor:
        """Return the nodes of a part."""
        owned = self.whole.owned(part)
        low, high = torch.searchsorted(owned, torch.tensor([self.nodes.start, self.nodes.stop], device="cpu")).tolist()
        return owned[low:high] - self.nodes.start

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of nodes in their part."""
        nodes = ids + self.nodes.start
        return self.whole.position(nodes) - self._there(self._before, ids)[self.whole.owner(nodes)]

    @cached_property
    def _before(self) -> Tensor:
        """How many nodes before the type each part owns, int64[num_parts]."""
        return torch.bincount(self.whole.owner(torch.arange(self.nodes.start, device="cpu")), minlength=self.num_parts)
