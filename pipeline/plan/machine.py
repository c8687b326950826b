"""The machine as a value, so that every rewrite can be tested for any machine."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from headrace.ops._arrays import MAX_THREADS
from headrace.ops.errors import InputError
from headrace.ops.gpu import current_gpu
from headrace.ops.gpu_memory import free_gpu_memory
from headrace.ops.memory_limit import own_room, shared_room
from headrace.ops.memory_promises import promised
from headrace.pipeline.data import Place, whole_number
from headrace.pipeline.data.arrays import MOST_BYTES
from headrace.pipeline.data.place import MOST_DEVICES
from headrace.pipeline.distributed.job import rank_of_process, ranks_here

if TYPE_CHECKING:
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition


#: More ranks than any job has: a slip of the keyboard must not plan for a thousand million of them.
MOST_RANKS = 1 << 20
#: More threads than any GPU runs at once.
MOST_BUS_THREADS = 1 << 24
#: Numbers of a machine, with the least and the most that each can be.
_LIMITS = {
    "cores": (1, MAX_THREADS),
    "gpus": (0, MOST_DEVICES),
    "world_size": (1, MOST_RANKS),
    "rank": (0, MOST_RANKS),
    "memory": (0, MOST_BYTES),
    "promised": (0, MOST_BYTES),
    "current_gpu": (0, MOST_DEVICES),
    "bus_threads": (0, MOST_BUS_THREADS),
}


@dataclass(frozen=True)
class Machine:
    """The facts about the hardware that passes use.

    Parameters
    ----------
    cores
        CPU cores this process may use.
    gpus
        CUDA devices that can run kernels: all devices of torch, if CuPy is installed.
    rank, world_size
        The rank of this process among those that share every batch, and their number.
    memory
        Bytes of CPU memory that this process may still allocate, without the room that its caches have not filled yet,
        also as a text such as "64GB"; 0 if unknown.
    gpu_memory
        Free bytes of each device, also as texts, or one text for all; empty if unknown. It may differ between ranks.
        Therefore passes use it only for sizes, never to decide on a stage in which ranks wait for each other.
    promised, gpu_promised
        Bytes of CPU memory, and of each device, assigned to caches of this process, filled or not. All caches share
        half of the memory; a new one gets half of the rest of it.
    current_gpu
        The number of the device that ``"cuda"`` means: torch's current one, or ``LOCAL_RANK`` where that is 0.
    gpu_channel
        Whether ranks exchange tensors from GPU to GPU, as by NCCL; the loader knows it by its channel.
    bus_threads
        Threads of a GPU that read rows of CPU memory at once, in all loaders of the process from then on; 0 (default):
        the fewest that keep the bus busy, by a measurement of a few milliseconds at the first read.
    partition
        The rank that owns each node, or each edge; None if not decided yet.
    """

    cores: int = 1
    gpus: int = 0
    rank: int = 0
    world_size: int = 1
    memory: int = 0
    gpu_memory: tuple[int, ...] = ()
    promised: int = field(default=0, repr=False)
    gpu_promised: tuple[int, ...] = field(default=(), repr=False)
    current_gpu: int = field(default=0, repr=False)
    bus_threads: int = field(default=0, repr=False)
    gpu_channel: bool = field(default=False, repr=False)
    partition: Partition | EdgePartition | None = field(default=None, repr=False)

    if TYPE_CHECKING:

        def __init__(
            self,
            cores: int = 1,
            gpus: int = 0,
            rank: int = 0,
            world_size: int = 1,
            memory: int | str = 0,
            gpu_memory: str | tuple[int | str, ...] = (),
            promised: int = 0,
            gpu_promised: tuple[int, ...] = (),
            current_gpu: int = 0,
            bus_threads: int = 0,
            gpu_channel: bool = False,
            partition: Partition | EdgePartition | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.memory, str):
            object.__setattr__(self, "memory", _size(self.memory, "Machine: memory"))
        for name, (least, most) in _LIMITS.items():
            check_size(getattr(self, name), f"Machine: {name}", least, most)
        object.__setattr__(self, "gpu_memory", _sizes(self.gpu_memory, self.gpus))
        if not isinstance(self.gpu_channel, bool):
            raise InputError(f"Machine: expected gpu_channel to be True or False, got {self.gpu_channel!r}")
        for name in ("gpu_memory", "gpu_promised"):
            sizes = getattr(self, name)
            if not isinstance(sizes, tuple):
                raise InputError(f"Machine: expected {name} to be a tuple of bytes, got {type(sizes).__name__}")
            check_size(len(sizes), f"Machine: the length of {name}", 0, MOST_DEVICES)
            for size in sizes:
                check_size(size, f"Machine: each of {name}", 0, MOST_BYTES)
        if 0 < self.gpus <= self.current_gpu:
            raise InputError(f"Machine: expected current_gpu below gpus = {self.gpus}, got {self.current_gpu}")
        if self.rank >= self.world_size:
            raise InputError(f"Machine: expected a rank below world_size = {self.world_size}, got {self.rank}")

    def __str__(self) -> str:
        """Return the facts, in which the memory of several devices is short: ``(8 x 79.2 GiB)``."""
        if len(self.gpu_memory) < 2:
            return repr(self)
        sizes = [f"{size / (1 << 30):.4g} GiB" for size in self.gpu_memory]
        counted = [f"{count} x {size}" if (count := sizes.count(size)) > 1 else size for size in dict.fromkeys(sizes)]
        return repr(replace(self, gpu_memory=())).replace("gpu_memory=()", f"gpu_memory=({', '.join(counted)})")

    def exchanges_at(self, place: Place | None) -> bool:
        """Return whether ranks exchange tensors at a place as they are, without a detour through CPU memory."""
        return self.gpu_channel and self.gpus > 0 and place is not None and place.kind == "cuda"

    def memory_of_gpu(self, index: int | None) -> int:
        """Return the bytes of memory of a GPU, by default the current one; 0 if unknown."""
        number = self._number(index)
        return self.gpu_memory[number] if number < min(self.gpus, len(self.gpu_memory)) else 0

    def promised_of_gpu(self, index: int | None) -> int:
        """Return the bytes of a GPU, by default the current one, that are assigned to caches."""
        number = self._number(index)
        return self.gpu_promised[number] if number < min(self.gpus, len(self.gpu_promised)) else 0

    def _number(self, index: int | None) -> int:
        return self.current_gpu if index is None else whole_number(index, "Machine: the number of a GPU", 0, InputError)

    def share(self, parts: int) -> int:
        """Return one of `parts` equal parts of the CPU memory, less the memory assigned to caches; at least 0."""
        return max(self.memory - self.promised, 0) // whole_number(parts, "Machine: parts", 1, InputError)

    def share_of_gpu(self, index: int | None, parts: int) -> int:
        """Return one of `parts` equal parts of the memory of a GPU; see `share`."""
        return max(self.memory_of_gpu(index) - self.promised_of_gpu(index), 0) // whole_number(
            parts, "Machine: parts", 1, InputError
        )

    @staticmethod
    def detect(world_size: int | None = None) -> Machine:
        """Return the machine of this process. It does not initialise CUDA, so forked processes can still use CUDA.

        Free memory is that of the system, or of the container if that is less. It is divided among the ranks on this
        machine: ``LOCAL_WORLD_SIZE`` of them if torchrun has set it, otherwise all `world_size`, by default those of
        torch.distributed. Memory that is assigned to caches of this process is not free. Cores are not divided. Rank
        and their number are those of torch.distributed.
        """
        if world_size is not None:
            world_size = whole_number(world_size, "Machine.detect: world_size", 1, InputError)
        affinity = getattr(os, "sched_getaffinity", None)  # absent on macOS and Windows
        cores = min(len(affinity(0)) if affinity is not None else os.cpu_count() or 1, MAX_THREADS)
        gpus = torch.cuda.device_count() if importlib.util.find_spec("cupy") is not None else 0
        on_gpus = [promised(number) for number in range(gpus)]
        free = _gpu_memory(gpus)
        rank, num_ranks = rank_of_process(None, None)
        return Machine(
            cores=cores,
            gpus=gpus,
            rank=rank,
            world_size=num_ranks,
            memory=memory_room(ranks_here(world_size)),
            gpu_memory=tuple(max(one - there.unfilled, 0) for one, there in zip(free, on_gpus, strict=False)),
            promised=promised().num_bytes,
            gpu_promised=tuple(there.num_bytes for there in on_gpus),
            current_gpu=current_gpu() if gpus else 0,
        )


def check_size(value: Any, what: str, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`; an error names the limit that it exceeds."""
    number = whole_number(value, what, least, InputError)
    return number if number <= most else whole_number(value, what, least, InputError, most)


def _sizes(given: Any, gpus: int) -> Any:
    """Return sizes with those that are texts as bytes; a text alone is the size of each GPU."""
    if isinstance(given, str):
        given = (given,) * gpus
    if not isinstance(given, tuple):
        return given
    return tuple(_size(one, "Machine: gpu_memory") if isinstance(one, str) else one for one in given)


def _size(text: str, what: str) -> int:
    from headrace.pipeline.data.memory_size import LEAST_OF_A_MACHINE, as_memory  # machines are rarely written so

    return as_memory(text, what, LEAST_OF_A_MACHINE)


def memory_room(ranks: int) -> int:
    """Return the bytes of CPU memory that one of `ranks` processes may still allocate: at least 1; 0 if unknown."""
    given, shared, own = promised(), shared_room(), own_room()
    # Each rank has its own limit of addresses.
    rooms = [] if shared is None else [shared // ranks - given.unfilled]
    rooms += [] if own is None else [own - given.unallocated]
    return max(min(rooms), 1) if rooms else 0


def _gpu_memory(gpus: int) -> tuple[int, ...]:
    """Return the free bytes of each GPU, by the driver, without the memory of other processes and torch's allocator.

    Ranks that share a GPU are unknown here, so its memory is not divided: such ranks pass their own machine.
    """
    free = free_gpu_memory() if gpus else ()
    if len(free) == gpus:
        return free
    # A driver without NVML. With several GPUs CUDA reports it only at the cost of a context on each.
    is_up = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return (torch.cuda.mem_get_info()[0],) if gpus == 1 and is_up else ()
