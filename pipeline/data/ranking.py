"""Nodes by falling score."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, as_ids


def as_scores(
    scores: ArrayLike | Tensor,
    num_nodes: int | None = None,
    *,
    stage: str = "ranking",
    each: str = "node",
) -> Tensor:
    """Return scores as a CPU tensor of one number per node, or refuse them."""
    values = as_cpu_tensor(scores, "scores")
    if values.ndim != 1 or values.dtype == torch.bool or values.is_complex():
        raise InputError(
            f"{stage}: expected scores to be one number per {each}, got {values.dtype}{list(values.shape)}"
        )
    if num_nodes is not None and len(values) != num_nodes:
        raise InputError(f"{stage}: expected a score for each of {num_nodes} {each}s, got {len(values)}")
    if values.is_floating_point() and bool(values.isnan().any()):
        first = int(values.isnan().nonzero()[0])
        raise InputError(
            f"{stage}: expected scores that are numbers, got nan, first of {each} {first}; replace them, such as by "
            "scores.nan_to_num(0.0)"
        )
    return values


def in_float64(scores: Tensor) -> Tensor:
    """Return scores in the same order as float64, which has not all integers of 64 bits: for these their places."""
    if not scores.is_floating_point() and scores.element_size() == 8:
        return torch.from_numpy(np.unique(scores.numpy(), return_inverse=True)[1]).to(torch.float64)
    return scores.to(torch.float64)


def ranking(scores: ArrayLike | Tensor) -> Tensor:
    """Return the ids of nodes by falling score; among equal scores the smaller id is first.

    Parameters
    ----------
    scores : [num_nodes]
        One number per node, the larger the hotter.

    Returns
    -------
    torch.Tensor
        int64[num_nodes].

    Raises
    ------
    InputError
        If there is not one number per node, or one is nan.

    Examples
    --------
    >>> import headrace as hr
    >>> hr.scores.ranking([0.1, 0.4, 0.2, 0.4]).tolist()
    [1, 3, 2, 0]
    """
    return torch.argsort(as_scores(scores), descending=True, stable=True)


def hot_rows(ids: ArrayLike | Tensor | None, scores: Tensor | None, capacity: int) -> Tensor:
    """Return the rows of a static cache, int64[n]: those of given ids, or those with the highest scores."""
    if scores is not None and ids is None:
        return torch.sort(scores, descending=True, stable=True).indices[:capacity]
    if ids is not None and scores is None:
        if not len(hot := as_ids(ids, "ids")) and capacity:
            raise InputError("CachedFeature: expected ids of rows to hold, got none; leave the cache out")
        return hot.to(torch.int64)[:capacity]
    raise InputError("CachedFeature: expected ids= or scores= of a static cache, got neither or both; pass one")
