"""What runs kernels: a GPU, or in tests a stand-in that runs the same sources on the CPU."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Literal, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

Made = TypeVar("Made")

#: How kernels reach memory: it is that of their device, or they read it in place, pinned or of a peer.
Reach: TypeAlias = Literal["there", "in place"]


class Backend(Protocol):
    """Runs kernels."""

    def launch(
        self,
        file: str,
        name: str,
        num_items: int,
        block_size: int,
        words: Sequence[int],
        arguments: Sequence[object],
    ) -> None:
        """Run a kernel on the current stream of the current device.

        Parameters
        ----------
        file
            Its file in ``kernels/``.
        name
            Its name there, with template arguments.
        num_items
            How many threads have work; there may be more or fewer of them.
        block_size
            Threads of a block.
        words
            What the kernel takes: addresses and numbers, of eight bytes each by `word_of`.
        arguments
            What these were made of: tensors, which must live until the kernel has run. Behind them may be some that the
        kernel reaches by addresses.
        """


_DOUBLE, _INTEGER = struct.Struct("=d"), struct.Struct("=Q")


def word_of(argument: Tensor | float) -> int:
    """Return eight bytes as an integer: an address, the lower 64 bits of an integer, or all of another number."""
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    if not isinstance(argument, float):
        return int(argument) & (1 << 64) - 1
    bits: int = _INTEGER.unpack(_DOUBLE.pack(argument))[0]
    return bits


class Streams(Protocol):
    """Streams of what stands in for a GPU."""

    def side_stream(self) -> AbstractContextManager[None]:
        """Let launches of this thread go to a stream of its own."""

    def record(self) -> tuple[Callable[[], None], Callable[[], bool]]:
        """Return two functions about all that the current stream was given.

        The first lets the stream that calls it wait for that; the second returns whether it is done.
        """

    def use(self, tensor: Tensor) -> None:
        """Keep memory of a tensor, which another stream made, until the current one is done with it."""

    def synchronize(self) -> None:
        """Let the host wait for all that the current stream was given."""

    def catch_up(self) -> None:
        """Let all that the current stream was given be done, of which the host does not know."""

    def capture(self, work: Callable[[], Made]) -> tuple[Made, Callable[[], None]]:
        """Return what work returns, which has not run, and a function that runs it."""


class StandIn(Backend, Protocol):
    """Stands in for a GPU."""

    streams: Streams

    free_memory: int

    def active(self) -> AbstractContextManager[None]:
        """Hold what else stands in for something, as long as this does."""

    def is_on_host(self, tensor: Tensor) -> bool:
        """Whether a tensor is to be taken for one of the host; all others are in memory of the GPU."""

    def reaches(self, tensor: Tensor) -> bool:
        """Whether kernels read a tensor in place: it is not of the host, or pinned."""

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a copy of a tensor of the host in memory of the GPU."""

    def pin(self, tensor: Tensor) -> Callable[[], None]:
        """Pin memory of a tensor where it is, and return what unpins it."""

    def keep(self, tensor: Tensor) -> None:
        """Keep pinned memory that the current stream reads, though its tensors may be gone before that."""


_stand_in: StandIn | None = None


@contextmanager
def stand_in(backend: StandIn) -> Iterator[None]:
    """Let a backend stand in for a GPU, in all threads: work on tensors in CPU memory goes to it."""
    global _stand_in  # noqa: PLW0603 - the one switch
    before, _stand_in = _stand_in, backend
    active = getattr(backend, "active", nullcontext)
    try:
        with active():
            yield
    finally:
        _stand_in = before


def is_gpu(device: torch.device) -> bool:
    """Whether kernels of this folder run where tensors of the device are."""
    return device.type == "cuda" or (device.type == "cpu" and _stand_in is not None)


def free_memory(device: torch.device) -> int:
    """Return the free bytes of a device."""
    return torch.cuda.mem_get_info(device)[0] if _stand_in is None else _stand_in.free_memory


def pin(tensor: Tensor) -> Callable[[], None]:
    """Pin the memory of a tensor where it is, and return what unpins it; see `headrace.cuda.memory.pin`."""
    if _stand_in is not None:
        return _stand_in.pin(tensor)
    from headrace.cuda.memory import pin

    return pin(tensor)


def stand_in_of(device: torch.device) -> StandIn | None:
    """Return what stands in for a GPU on a device, if anything does."""
    return _stand_in if device.type == "cpu" else None


def streams_of_stand_in() -> Streams | None:
    """Return the streams of what stands in for a GPU, if anything does."""
    return None if _stand_in is None else _stand_in.streams


def is_usable(device: torch.device) -> bool:
    """Whether kernels can run on a device: without CuPy torch's own operations have to do."""
    return _has_gpu_backend(device) if device.type == "cuda" else is_gpu(device)


@cache
def _has_gpu_backend(device: torch.device) -> bool:
    """Whether there is what runs kernels on a GPU; asked once, as an import that fails takes long each time."""
    from headrace.cuda.errors import DeviceError

    try:
        backend_of(device)
    except DeviceError:
        return False
    return True


def backend_of(device: torch.device) -> Backend:
    """Return what runs kernels on a device.

    Raises
    ------
    DeviceError
        If there is nothing, or what is needed is not installed.
    """
    if _stand_in is not None and device.type == "cpu":
        return _stand_in
    return _gpu(device)


@cache
def _gpu(device: torch.device) -> Backend:
    from headrace.cuda.gpu import gpu

    return gpu(device)


def is_on(tensor: Tensor, device: torch.device) -> bool:
    """Whether a tensor is in memory of a device itself."""
    return tensor.device == device and not (_stand_in is not None and _stand_in.is_on_host(tensor))


def copied(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor in memory of a device: itself, or a copy that the current stream makes.

    Memory that torch has pinned is not given to others before the copy is made.
    """
    if is_on(tensor, device):
        return tensor
    return tensor.to(device, non_blocking=True) if _stand_in is None else _stand_in.copy(tensor)


def is_reachable(tensor: Tensor, device: torch.device) -> bool:
    """Whether kernels on a device can read a tensor in place."""
    return reach_of(tensor, device) is not None


def reach_of(tensor: Tensor, device: torch.device) -> Reach | None:
    """Return how kernels on a device reach a tensor: where they run, in place elsewhere, or not at all."""
    if tensor.device == device and (_stand_in is None or not _stand_in.is_on_host(tensor)):
        return "there"
    if tensor.nbytes == 0:
        return "in place"
    if tensor.is_cpu and _stand_in is not None:
        return "in place" if _stand_in.reaches(tensor) else None
    if device.type != "cuda":
        return None
    from headrace.cuda.memory import is_pinned, reach_peer

    if tensor.is_cuda:
        with torch.cuda.device(device):
            return "in place" if reach_peer(device.index, tensor.device.index) else None
    return "in place" if is_pinned(tensor) else None
