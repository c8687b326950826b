"""The way to the CUDA twins of kernels: which device an operation runs on, and what its arguments must be there.

All of `ops` that knows of devices is here: doors ask `device_of`, check arguments by `on_device`, and call what
`headrace.cuda` has. That package is imported when a first argument is on a GPU, not before.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeGuard, TypeVar

import numpy as np
import torch

from headrace.ops._arrays import Array, is_packed
from headrace.ops.errors import HeadraceError, InputError

Made = TypeVar("Made")


def device_of(array: Array) -> torch.device | None:
    """Return the GPU that an operation runs on whose main argument this is, or None for the CPU."""
    if isinstance(array, torch.Tensor) and array.is_cuda:
        return array.device
    backend = sys.modules.get("headrace.cuda.backend")
    if backend is None or not backend.is_gpu(torch.device("cpu")):
        return None
    on_cpu = array.is_cpu if isinstance(array, torch.Tensor) else isinstance(array, np.ndarray)
    return torch.device("cpu") if on_cpu else None


def kernels_for(array: Array) -> torch.device | None:
    """Return the GPU whose kernels work on an array; None for the CPU and where there are none, as without CuPy."""
    device = device_of(array)
    if device is None:
        return None
    from headrace.cuda.backend import is_usable

    return device if is_usable(device) else None


def resolved(device: torch.device | str) -> torch.device:
    """Return a device of torch: what stands in for GPUs, if anything does, is in memory of the CPU.

    Of GPUs without a number it is that of `current_gpu`.
    """
    wanted = torch.device(device)
    if wanted.type != "cuda":
        return wanted
    backend = sys.modules.get("headrace.cuda.backend")
    if backend is not None and backend.is_gpu(torch.device("cpu")):
        return torch.device("cpu")
    return torch.device("cuda", current_gpu()) if wanted.index is None else wanted


def current_gpu() -> int:
    """Return the number of the GPU that ``"cuda"`` means: torch's current one, or that of this rank.

    Where the current one is the default, 0, it is that of ``LOCAL_RANK``, by which torchrun numbers the ranks of a
    machine, if there is a GPU of this number. 0 where there is none, as for plans that are made for other machines. It
    does not initialise CUDA.
    """
    number = torch.cuda.current_device() if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
    local_rank = os.environ.get("LOCAL_RANK", "")
    if number == 0 and local_rank.isdecimal() and int(local_rank) < torch.cuda.device_count():
        return int(local_rank)
    return number


def name_of_gpu(device: torch.device | str) -> str:
    """Return a name of a GPU by which processes on any machines tell whether it is theirs as well.

    Processes may number GPUs in their own ways, by ``CUDA_VISIBLE_DEVICES``; the driver has one name for each.
    """
    wanted = torch.device(device)
    number = current_gpu() if wanted.index is None else wanted.index
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    own_name = f"number {number} of {seen}" if seen else f"number {number}"
    if torch.cuda.is_available() and resolved(wanted).type == "cuda":
        own_name = str(getattr(torch.cuda.get_device_properties(number), "uuid", own_name))
    return f"cuda:{number} of {socket.gethostname()} ({own_name})"


def gpu_at(device: torch.device | str) -> torch.device:
    """Return a GPU with its number, which its tensors have: ``cuda`` is the current one.

    Raises
    ------
    HeadraceError
        If there are no kernels for the device, or it cannot be used.
    """
    try:
        found = device_of(torch.empty(0, device=resolved(device)))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise HeadraceError(f"expected a GPU, got {device}, which cannot be used here: {error}") from error
    if found is None:
        raise HeadraceError(f"expected a GPU, got {device}")
    return found


def pin(tensor: torch.Tensor) -> Callable[[], None]:
    """Pin the memory of a tensor where it is, and return what unpins it.

    Raises
    ------
    HeadraceError
        If it cannot be pinned.
    """
    from headrace.cuda.backend import pin as pin_memory

    with device_errors():
        return pin_memory(tensor)


def placed(tensors: Sequence[torch.Tensor | None], device: torch.device) -> list[torch.Tensor | None]:
    """Return arrays of the host as kernels on a device read them: copies, or themselves, pinned as long as they live.

    They are copied if the device's free memory has room for all of them, as `has_room` says. Copies are complete then,
    for all streams.

    Raises
    ------
    HeadraceError
        If they can neither be copied nor pinned.
    """
    from headrace.cuda.backend import copied, free_memory, is_on

    given = [tensor for tensor in tensors if tensor is not None and not is_on(tensor, device)]
    if not given:
        return list(tensors)
    if has_room(sum(tensor.nbytes for tensor in given), free_memory(device)):
        there = [None if tensor is None else copied(tensor, device) for tensor in tensors]
        synchronize(device)
        return there
    for tensor in given:
        # With the storage: it is there until it is unpinned.
        weakref.finalize(tensor, release_pinned, pin(tensor), tensor.untyped_storage())
    return list(tensors)


def use_bus_threads(count: int) -> None:
    """Let GPUs read rows in memory of the host with so many threads at once, in this process, instead of measuring."""
    from headrace.cuda import bus

    bus.use_threads(count)


def release_pinned(unpin: Callable[[], None], memory: object) -> None:
    """Unpin memory, which whoever is to call this has kept alive until then."""
    del memory
    unpin()


def has_room(num_bytes: int, memory: int) -> bool:
    """Whether arrays of a graph are copied to a GPU that has so much memory: batches and the model need half of it."""
    return num_bytes <= memory // 2


def gpu_name(device: torch.device | str) -> str:
    """Return a name of a GPU that all processes of a machine use; empty where there is none, or a stand-in."""
    wanted = resolved(device)
    if wanted.type != "cuda" or not torch.cuda.is_available():
        return ""
    number = torch.cuda.current_device() if wanted.index is None else wanted.index
    return str(torch.cuda.get_device_properties(number).uuid) if number < torch.cuda.device_count() else ""


def shared_memory(tensor: torch.Tensor) -> str:
    """Return the text by which another process of this machine opens memory of a GPU.

    Raises
    ------
    HeadraceError
        If that memory cannot be shared.
    """
    from headrace.cuda.memory import shared

    with device_errors():
        return shared(tensor).hex()


def opened_memory(handle: str) -> torch.Tensor:
    """Return the tensor on a GPU that another process shares: the same memory.

    Raises
    ------
    HeadraceError
        If it cannot be opened.
    """
    from headrace.cuda.memory import opened

    with device_errors():
        return opened(bytes.fromhex(handle))


class Event(Protocol):
    """What was on its way on a stream when it was recorded."""

    def wait(self) -> None:
        """Let what is launched from now on, on the current stream, come behind it."""


def has_gpu() -> bool:
    """Whether there is a GPU, or something that stands in for one."""
    return torch.cuda.is_available() or resolved("cuda").type == "cpu"


def side_stream(device: torch.device, *, behind_current: bool) -> AbstractContextManager[None]:
    """Let what this thread launches on a GPU go to a stream of its own.

    With `behind_current` it comes behind what was launched before, by this thread and others on the same stream: only
    who reads what is made there needs that.
    """
    from headrace.cuda import streams

    return streams.side_stream(device, behind_current=behind_current)


def capture(device: torch.device, work: Callable[[], Made]) -> tuple[Made, Callable[[], None]]:
    """Return what a function returns whose work on a GPU is captured, and a function that does this work, in order.

    Nothing is done before that is called; each call does it once more, in the same memory.
    """
    from headrace.cuda import streams

    return streams.capture(device, work)


def record(device: torch.device) -> Event:
    """Return an event of what is on its way on the current stream of a GPU."""
    from headrace.cuda import streams

    return streams.record(device)


def synchronize(device: torch.device) -> None:
    """Let the host wait for all that the current stream of a GPU was given."""
    from headrace.cuda import streams

    streams.synchronize(device)


def use_here(tensors: Iterable[torch.Tensor]) -> None:
    """Keep memory of tensors, which come from another stream, until what this stream has to do with it is done."""
    from headrace.cuda import streams

    streams.use_here(tensors)


def is_readable(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether kernels on a device can read a tensor in place."""
    from headrace.cuda.backend import is_reachable

    return is_reachable(tensor, device)


def reads(source: Array, device: torch.device) -> TypeGuard[torch.Tensor]:
    """Whether rows of a source can be read in place by kernels on a device, each in one piece."""
    if not isinstance(source, torch.Tensor) or source.layout != torch.strided or source.ndim == 0:
        return False
    from headrace.cuda.backend import is_reachable, is_usable

    if source.is_neg() or source.is_conj() or not is_usable(device) or not is_reachable(source, device):
        return False
    return is_packed(source.shape[1:], source.stride()[1:], 1)


def on_device(
    value: Array,
    name: str,
    device: torch.device,
    *,
    stage: str,
    dtypes: Sequence[torch.dtype] = (torch.int64,),
    in_place: bool = False,
) -> torch.Tensor:
    """Return a one-dimensional array that kernels on a device can read, contiguous, or refuse it.

    Pinned memory is copied to the device. With `in_place`, for arrays of a graph, it is read where it is. The caller
    may drop it before the kernel that reads it has run.

    Raises
    ------
    InputError
        For another type, number of dimensions or dtype, or memory that the device cannot read in place.
    """
    from headrace.cuda.backend import copied, reach_of

    if isinstance(value, np.ndarray) and device.type == "cpu":
        value = torch.from_numpy(np.require(value, requirements=["C", "A", "W", "O"]))
    if isinstance(value, torch.Tensor) and value.ndim == 1 and value.dtype in dtypes:
        reach = reach_of(value, device)
        if reach == "there":
            return value.detach().resolve_neg().contiguous()
        # A contiguous copy of pinned memory would not be pinned, and nobody would keep one in memory of a peer.
        if reach is not None:
            if not (in_place and value.is_contiguous() and not value.is_neg()):
                return copied(value.detach(), device).resolve_neg().contiguous()
            from headrace.cuda.kept import keep

            keep(value, device)
            return value.detach()
    words = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    expected = f"{stage}: expected {name} to be a 1-d tensor of {words} on {device}, or in pinned memory"
    if not isinstance(value, torch.Tensor):
        raise InputError(
            f"{expected}, got {type(value).__name__}; pass torch.as_tensor({name}, device={str(device)!r})"
        )
    if value.ndim != 1 or value.dtype not in dtypes:
        raise InputError(f"{expected}, got {str(value.dtype).removeprefix('torch.')}{list(value.shape)}")
    raise InputError(f"{expected}, got a tensor on {value.device}; move it with .to({str(device)!r}), or pin it")


class device_errors:  # noqa: N801 - used as a function is, and by each small batch, which feels the calls of a generator
    """Let what goes wrong with a device be one of headrace's errors.

    Raises
    ------
    HeadraceError
        In the place of that of `headrace.cuda`.
    """

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the error of headrace for that of `headrace.cuda`."""
        if error is None:
            return
        from headrace.cuda.errors import DeviceError as Failed

        if isinstance(error, Failed):
            raise HeadraceError(str(error)) from error
