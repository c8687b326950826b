"""Edge ids of graphs that come in CSC form: a permutation."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.arrays import as_ids


def as_permutation(edge_ids: ArrayLike | Tensor, num_edges: int) -> Tensor:
    """Return edge ids as a tensor, or refuse them if they are not each of 0, ..., num_edges - 1 once."""
    ids = as_ids(edge_ids, "edge_ids", GraphError).contiguous()
    if ids.numel() != num_edges:
        raise GraphError(f"Graph.from_csc: expected edge_ids for {num_edges} edges, got {ids.numel()}")
    if num_edges:
        low, high = (int(value) for value in torch.aminmax(ids))
        in_range = low >= 0 and high < num_edges
        seen = torch.zeros(num_edges, dtype=torch.bool, device="cpu")
        if in_range:
            seen[ids.long()] = True
        if not bool(seen.all()):
            raise GraphError(
                f"Graph.from_csc: expected edge_ids to be a permutation of 0 to {num_edges - 1}, got ids from {low} to "
                f"{high}{' with repeats' if in_range else ''}; keep other keys of your edges as an edge attribute"
            )
    return ids
