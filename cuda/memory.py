"""Memory of the host that a GPU reads in place, and memory of one GPU that other processes and GPUs read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor

from headrace.cuda.errors import DeviceError
from headrace.cuda.pinned_ranges import PinnedRanges

#: What CUDA says of a GPU whose memory can be read already.
_REACHED_ALREADY = 704


def is_pinned(tensor: Tensor) -> bool:
    """Whether GPUs read a tensor of the host in place."""
    return tensor.is_cpu and torch.cuda.is_available() and tensor.is_pinned()


def pin(tensor: Tensor, ranges: PinnedRanges | None = None) -> Callable[[], None]:
    """Pin the memory of a tensor where it is, and return what unpins it when nobody else wants it pinned.

    All of the storage that the tensor is a view of is pinned, so that views of one array do not pin parts of each
    other. Memory that others have pinned already stays so. Pages of a mapped file can be pinned as well; those that
    are mapped for reading alone on devices that know how.

    Parameters
    ----------
    tensor
        In memory of the host, contiguous.
    ranges
        What counts who wants memory pinned; default: that of the process.

    Raises
    ------
    DeviceError
        If memory must not or cannot be pinned: more than the process may lock, or than there is.
    """
    if not tensor.is_cpu or not tensor.is_contiguous():
        raise DeviceError(f"pin: expected a contiguous tensor of the host, got one on {tensor.device}")
    if tensor.nbytes == 0:
        return _nothing
    return (_pinned_ranges() if ranges is None else ranges).pin(tensor.untyped_storage())


@cache
def _pinned_ranges() -> PinnedRanges:
    """Return the ranges that this process has pinned."""
    return PinnedRanges(_functions(None)[0])


@cache
def reach_peer(device: int, other: int, runtime: Any = None, copy: Callable[[int, int], object] | None = None) -> bool:
    """Let the current GPU, `device`, read memory of another one, and say whether it can. It is asked once.

    Parameters
    ----------
    device, other
        Their numbers.
    runtime
        CUDA's functions as CuPy has them; default: CuPy's.
    copy
        Lets torch copy something to `device` from `other`.
    """
    functions, failed = _functions(runtime)
    if not functions.deviceCanAccessPeer(device, other):
        return False
    # CUDA's own switch is for memory of cudaMalloc alone. With expandable_segments torch maps memory itself, for peers
    # to which it has copied once as well: what there is and what is to come.
    (copy or _copy_from_peer)(device, other)
    try:
        functions.deviceEnablePeerAccess(other)
    except failed as error:
        return bool(error.status == _REACHED_ALREADY)
    return True


def _copy_from_peer(device: int, other: int) -> Tensor:
    return torch.zeros(1, device=torch.device("cuda", other)).to(torch.device("cuda", device))


def shared(tensor: Tensor) -> bytes:
    """Return what another process of this machine opens a tensor of a GPU by, through CUDA IPC.

    The tensor must live as long as others read it.

    Raises
    ------
    DeviceError
        For a tensor that is on no GPU, or in an expandable segment, which other GPUs do not reach.
    """
    if not tensor.is_cuda:
        raise DeviceError(f"shared: expected a tensor on a GPU, got one on {tensor.device}")
    address = tensor.data_ptr()
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        if segment.get("is_expandable") and 0 <= address - segment["address"] < segment["total_size"]:
            raise DeviceError(
                f"shared: expected memory on {tensor.device} that other GPUs reach, got an expandable segment; leave "
                "expandable_segments:True out of PYTORCH_CUDA_ALLOC_CONF"
            )
    return bytes(ForkingPickler.dumps(tensor))


def opened(handle: bytes) -> Tensor:
    """Return the tensor of another process that `shared` names: the same memory, not a copy.

    Raises
    ------
    DeviceError
        If the GPUs do not reach each other, or that process has ended.
    """
    try:
        tensor: Tensor = pickle.loads(handle)  # noqa: S301 - from a process of the same job
    except RuntimeError as error:
        raise DeviceError(f"opened: expected memory that another process shares, got an error: {error}") from error
    return tensor


def _functions(runtime: Any) -> tuple[Any, type[Any]]:
    if runtime is not None:
        return runtime, runtime.CUDARuntimeError
    from headrace.cuda.gpu import check_cupy

    check_cupy()
    import cupy

    return cupy.cuda.runtime, cupy.cuda.runtime.CUDARuntimeError


def _nothing() -> None:
    """Unpin nothing."""
