"""Memory of the host that a GPU reads in place, and memory of one GPU that other processes and GPUs read."""

from __future__ import annotations

import pickle
import resource
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import Tensor

from headrace.cuda.errors import DeviceError

#: What CUDA says of memory that is pinned already, or was never.
_ALREADY, _NOT_PINNED = 712, 713
#: What it says of a GPU whose memory can be read already.
_REACHED_ALREADY = 704
#: Readable by every GPU of the process.
_PORTABLE = 1


def is_pinned(tensor: Tensor) -> bool:
    """Whether GPUs read a tensor of the host in place."""
    return tensor.is_cpu and torch.cuda.is_available() and tensor.is_pinned()


def pin(tensor: Tensor, runtime: Any = None) -> Callable[[], None]:
    """Pin the memory of a tensor where it is, and return what unpins it.

    Memory that is pinned already stays so, and is not unpinned. Pages of a mapped file can be pinned as well, if they
    are not written.

    Parameters
    ----------
    tensor
        In memory of the host, contiguous.
    runtime
        CUDA's functions as CuPy has them; default: CuPy's.

    Raises
    ------
    DeviceError
        If memory must not or cannot be pinned: more than the process may lock, or than there is.
    """
    if not tensor.is_cpu or not tensor.is_contiguous():
        raise DeviceError(f"pin: expected a contiguous tensor of the host, got one on {tensor.device}")
    if tensor.nbytes == 0:
        return _nothing
    functions, failed = _functions(runtime)
    try:
        functions.hostRegister(tensor.data_ptr(), tensor.nbytes, _PORTABLE)
    except failed as error:
        if error.status == _ALREADY:
            return _nothing
        raise DeviceError(
            f"pin: {tensor.nbytes:,} bytes cannot be pinned ({error}); {_limit()}; pin less, or leave it to a cache "
            "on the device"
        ) from error

    address = tensor.data_ptr()  # not the tensor itself, which must not live by this

    def unpin() -> None:
        try:
            functions.hostUnregister(address)
        except failed as error:
            if error.status != _NOT_PINNED:
                raise DeviceError(f"pin: memory cannot be unpinned: {error}") from error

    return unpin


def reach_peer(device: int, other: int, runtime: Any = None) -> bool:
    """Let the current GPU, `device`, read memory of another one, and say whether it can.

    Parameters
    ----------
    device, other
        Their numbers.
    runtime
        CUDA's functions as CuPy has them; default: CuPy's.
    """
    functions, failed = _functions(runtime)
    if not functions.deviceCanAccessPeer(device, other):
        return False
    try:
        functions.deviceEnablePeerAccess(other)
    except failed as error:
        return bool(error.status == _REACHED_ALREADY)
    return True


def shared(tensor: Tensor) -> bytes:
    """Return what another process of this machine opens a tensor of a GPU by, through CUDA IPC.

    The tensor must live as long as others read it.

    Raises
    ------
    DeviceError
        For a tensor that is on no GPU.
    """
    if not tensor.is_cuda:
        raise DeviceError(f"shared: expected a tensor on a GPU, got one on {tensor.device}")

    return bytes(ForkingPickler.dumps(tensor))


def opened(handle: bytes) -> Tensor:
    """Return the tensor of another process that `shared` names: the same memory, not a copy."""
    tensor: Tensor = pickle.loads(handle)  # noqa: S301 - from a process of the same job
    return tensor


def _functions(runtime: Any) -> tuple[Any, type[Any]]:
    if runtime is not None:
        return runtime, runtime.CUDARuntimeError
    from headrace.cuda.gpu import check_cupy

    check_cupy()
    import cupy

    return cupy.cuda.runtime, cupy.cuda.runtime.CUDARuntimeError


def _limit() -> str:
    """Return what the system lets a process lock, as text."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "the system sets no limit" if soft == resource.RLIM_INFINITY else f"ulimit -l allows {soft:,} bytes"


def _nothing() -> None:
    """Unpin nothing."""
