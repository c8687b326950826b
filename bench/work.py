"""The features that loaders fetch, and the check that they fetched the right rows. Needs torch alone: peers use it."""

from __future__ import annotations

import torch


def table(num_nodes: int, width: int) -> torch.Tensor:
    """Return float32[num_nodes, width] whose first two columns say which row it is."""
    x = torch.ones(num_nodes, width)
    ids = torch.arange(num_nodes)
    # float32 counts to 2**24: two digits.
    x[:, 0], x[:, 1] = (ids % 4096).float(), (ids // 4096).float()
    return x


def identified(x: torch.Tensor, n_id: torch.Tensor) -> None:
    """Check that rows of `table` belong to these nodes.

    Raises
    ------
    ValueError
        If there are more or fewer rows than nodes, or others.
    """
    if x.shape[0] != n_id.numel() or not bool((x[:, 1].long() * 4096 + x[:, 0].long() == n_id.long()).all()):
        raise ValueError(f"expected the rows of the {n_id.numel()} nodes of the batch, got {x.shape[0]} other ones")
