"""The edges of a block by source: the way back for gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, as_num_threads, graph_arrays
from headrace.ops.aggregate import on_gpu
from headrace.ops.aggregate.edges import EdgeRows
from headrace.ops.errors import InputError
from headrace.ops.gpu import kernels_for
from headrace.ops.memory_limit import check_fits_memory


class Transposed(NamedTuple):
    """A transposed CSC: row j lists the edges from source j, in their order in the CSC.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_src + 1].
    indices : torch.Tensor
        int32[num_edges] or int64[num_edges], the destinations.
    positions : torch.Tensor
        With the same dtype, the position of each edge in the original CSC.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    positions: torch.Tensor


def transpose_csc(
    indptr: Array, indices: Array, num_src: int, *, num_threads: int | None = None, trusted: bool = False
) -> Transposed:
    """Sort the edges of a CSC by source, with a stable counting sort.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_dst + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges], sources in [0, num_src).
    num_src : int
        Rows of the result.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.
    trusted : bool
        A promise that the CSC is valid, see `spmm`.

    Raises
    ------
    InputError
        For wrong dtypes or lengths, an indptr that decreases, a source out of range, more sources than fit in memory.
    """
    stage = "transpose_csc"
    num_src = as_count(num_src, "num_src", stage=stage)
    check_fits_memory(8 * (num_src + 1), f"{stage}: got num_src = {num_src:,}", "is it a slip?")
    rows = EdgeRows(indptr, indices, None, num_threads, trusted, stage)
    num_dst = rows.num_rows
    device = kernels_for(indices)
    if device is not None:
        found = on_gpu.edge_rows(rows, device, num_others=num_src, num_positions=None)
        return _sorted(found.indptr, found.indices, num_src)
    if isinstance(indices, torch.Tensor) and not indices.is_cpu and not indices.is_meta:
        return _sorted(torch.as_tensor(indptr, device=indices.device), indices, num_src)
    starts, sources = graph_arrays(indptr, indices, stage)
    degrees = np.diff(starts)
    if degrees.size and degrees.min() < 0:
        row = int((degrees < 0).argmax())
        message = (
            f"{stage}: indptr decreases: indptr[{row}] = {starts[row]}, indptr[{row + 1}] = {starts[row + 1]}; "
            "expected the running sum of degrees"
        )
        raise InputError(message)
    largest = int(sources.max(initial=-1))
    if largest >= num_src or sources.min(initial=0) < 0:
        wrong = int(((sources < 0) | (sources >= num_src)).argmax())
        message = f"{stage}: indices[{wrong}] = {sources[wrong]} is no source: expected 0 <= it < num_src = {num_src}"
        raise InputError(message)
    destinations = np.repeat(np.arange(num_dst, dtype=sources.dtype), degrees)
    # As an edge list in the other direction; the ids of both sides are below one bound there.
    begins, ends, places = _native.coo_to_csc(
        destinations, sources, max(num_src, num_dst), as_num_threads(num_threads, stage=stage)
    )
    positions = np.arange(len(ends), dtype=ends.dtype) if places is None else places
    wide = np.promote_types(ends.dtype, positions.dtype)
    return Transposed(
        torch.from_numpy(begins[: num_src + 1]),
        torch.from_numpy(ends.astype(wide, copy=False)),
        torch.from_numpy(positions.astype(wide, copy=False)),
    )


def _sorted(indptr: torch.Tensor, indices: torch.Tensor, num_src: int) -> Transposed:
    """Sort by torch's operations: devices other than the CPU do it so."""
    if len(indices) > torch.iinfo(indices.dtype).max:
        indices = indices.long()  # as positions have to be
    degrees = indptr.diff()
    rows = torch.arange(len(degrees), device=indices.device, dtype=indices.dtype)
    destinations = rows.repeat_interleave(degrees, output_size=indices.numel())
    found, positions = indices.sort(stable=True)
    # Not `bincount`, for which the host waits.
    sources = torch.arange(num_src + 1, device=indices.device, dtype=indices.dtype)
    starts = torch.searchsorted(found, sources)
    return Transposed(starts, destinations[positions], positions.to(indices.dtype))
