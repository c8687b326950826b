"""Rows that a cache on a GPU has, and others that it is given."""

from __future__ import annotations

import torch

from headrace.ops._arrays import Array
from headrace.ops.cache.set_index import SetLookup
from headrace.ops.errors import InputError
from headrace.ops.features import on_gpu
from headrace.ops.gpu import on_device, reads

_IDS = (torch.int32, torch.int64)


def gather_cached(cache: torch.Tensor, lookup: SetLookup, source: torch.Tensor, ids: Array) -> torch.Tensor:
    """Copy the rows that `ids` name, from a cache where it has them, and give it those that it is to have.

    The host does not wait, and nobody looks whether ids have rows.

    Parameters
    ----------
    cache : torch.Tensor
        [num_slots, ...] contiguous, on a GPU; slots are filled.
    lookup : SetLookup
        Where the cache has `ids`, and is to have them.
    source : torch.Tensor
        [num_rows, ...] of the dtype of the cache, which the GPU reads in place: in its own memory, that of another
        GPU, or pinned.
    ids : torch.Tensor
        int32[n] or int64[n], on the GPU; those that the cache has not have rows in the source.

    Returns
    -------
    torch.Tensor
        [n, ...] on the GPU.

    Raises
    ------
    InputError
        If the cache, the source, ids or look-up do not fit each other, or the GPU cannot read one of them.
    """
    stage = "gather_cached"
    device = lookup.slots.device
    wanted = on_device(ids, "ids", device, stage=stage, dtypes=_IDS)
    if cache.device != device or not cache.is_contiguous():
        message = f"{stage}: expected a contiguous cache on {device}, got one on {cache.device} {cache.stride()}"
        raise InputError(message)
    if cache.dtype != source.dtype or cache.shape[1:] != source.shape[1:]:
        message = (
            f"{stage}: expected a source with rows as of the cache, {cache.dtype}{list(cache.shape[1:])}, got "
            f"{source.dtype}{list(source.shape[1:])}"
        )
        raise InputError(message)
    if not reads(source, device):
        message = f"{stage}: expected a source that {device} reads in place, got one on {source.device}; pin it"
        raise InputError(message)
    if len(wanted) != len(lookup.slots):
        message = f"{stage}: expected the look-up of {len(wanted)} ids, got that of {len(lookup.slots)}"
        raise InputError(message)
    return on_gpu.gather_cached(cache, lookup.slots, lookup.fills, source.detach(), wanted)


def missing_ids(lookup: SetLookup, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find out which ids a cache on a GPU has not; the host waits for that.

    Parameters
    ----------
    lookup : SetLookup
        Where the cache has `ids`.
    ids : torch.Tensor
        int32[n] or int64[n], on the GPU.

    Returns
    -------
    missing : torch.Tensor
        [num_missing] in CPU memory, of the dtype of `ids`.
    positions : torch.Tensor
        int64[n] on the GPU: which of these a missing id is. With their rows as the source, and these as ids,
        `gather_cached` reads all rows.
    """
    return on_gpu.missing_ids(lookup.slots, ids)
