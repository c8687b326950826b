"""Random masks and variates on a device: twins of ``ops/native/random``."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.launch import launch
from headrace.cuda.variates import Variates


def dropout_mask(key: int, ids: Tensor, width: int, threshold: int) -> Tensor:
    """Return bool[n, width]: element j of row i is kept if word j of the stream of its id reaches the threshold."""
    kept = torch.empty(len(ids), width, dtype=torch.bool, device=ids.device)
    arguments = (key, ids, len(ids), width, threshold, kept)
    launch("dropout_mask", (), len(ids) * ((width + 3) // 4), *arguments, device=ids.device)
    return kept


def labor_variates(variates: Variates, nodes: Tensor, numbers: Tensor) -> Tensor:
    """Return the variates of edges from nodes, int64[n] each with the bits of unsigned ones.

    Parameters
    ----------
    variates
        The key or keys.
    nodes, numbers
        int64[n]: sources, and how many edges of their rows come from them before.
    """
    out = torch.empty(len(nodes), dtype=torch.int64, device=nodes.device)
    launch("labor_variates", (), len(nodes), *variates, nodes, numbers, len(nodes), out, device=nodes.device)
    return out
