"""The edge types of seeds that are pairs, where items were given by edge type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.pipeline.data.type_offsets import TypeName


@dataclass(frozen=True, eq=False)
class LinkTypes:
    """Which edge type each pair of a batch is of: two nodes may be joined by several.

    Parameters
    ----------
    names
        The edge types of the items, (source type, relation, destination type) each; a batch may have none of one.
    numbers: int64[num_pairs]
        The place of each pair's type among them; a negative has the type of its pair.
    """

    names: tuple[TypeName, ...]
    numbers: Tensor

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> LinkTypes:
        """Return the same with a function applied to the numbers."""
        return LinkTypes(self.names, of_tensor(self.numbers))

    def with_negatives(self, counts: Tensor) -> LinkTypes:
        """Return them for the pairs and, behind these, so many negatives of each: int64[num_pairs]."""
        return LinkTypes(self.names, torch.cat([self.numbers, self.numbers.repeat_interleave(counts)]))
