"""Renumber ids by first occurrence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_numpy


@dataclass(frozen=True)
class Compacted:
    """Ids and the local numbers that stand for them.

    Attributes
    ----------
    ids : torch.Tensor
        int64[num_src], the ids seen before, then new ones by first occurrence.
    indices : torch.Tensor
        [num_edges] of the neighbours' dtype: ``ids[indices]`` are the neighbours.
    """

    ids: torch.Tensor
    indices: torch.Tensor


def compact(seen: Array, neighbors: Array) -> Compacted:
    """Renumber `neighbors` by their place in `seen`, behind which unknown ids are put by first occurrence.

    Parameters
    ----------
    seen : torch.Tensor or numpy.ndarray
        int64[num_seen], unique.
    neighbors : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].

    Raises
    ------
    InputError
        If `seen` holds an id twice, for more than 2**31 - 1 ids, or for other dtypes or devices.
    """
    ids, indices = _native.compact(
        as_numpy(seen, "seen", stage="compact"),
        as_numpy(neighbors, "neighbors", stage="compact", dtypes=ID_DTYPES),
    )
    return Compacted(torch.from_numpy(ids), torch.from_numpy(indices))


def unique_and_inverse(ids: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distinct ids by first occurrence, and where each id is among them.

    Parameters
    ----------
    ids : torch.Tensor or numpy.ndarray
        int64[n].

    Returns
    -------
    unique : torch.Tensor
        int64[num_unique].
    inverse : torch.Tensor
        int64[n], ``unique[inverse]`` are the ids.
    """
    values = as_numpy(ids, "ids", stage="unique_and_inverse")
    unique, inverse = _native.compact(np.empty(0, np.int64), values)
    return torch.from_numpy(unique), torch.from_numpy(inverse)
