"""Memory of the host as a model: kernels read it where it is pinned, and nowhere else.

A stand-in's GPU is the CPU, whose memory is taken for that of the GPU. What a test marks is taken for memory of the
host: kernels that are given it unpinned fail, as they do on a GPU, where they would take the context with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from headrace.cuda import memory
from headrace.cuda.pinned_ranges import PinnedRanges

from cuda_host.cuda_runtime import Runtime


class HostMemory:
    """What is memory of the host, and which ranges of it are pinned."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self.runtime = Runtime(limit=1 << 40)
        self._ranges = PinnedRanges(self.runtime)
        self._kept: dict[int, set[int]] = {}

    def mark(self, *tensors: Tensor) -> None:
        """Take memory of tensors for the host's."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._storages[storage._cdata] = StorageWeakRef(storage)
            self._kept.pop(storage._cdata, None)

    def has(self, tensor: Tensor) -> bool:
        """Whether a tensor is in memory of the host."""
        known = self._storages.get(tensor.untyped_storage()._cdata)
        return known is not None and not known.expired()

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether all of the storage of a tensor is pinned where it is now."""
        storage = tensor.untyped_storage()
        return self.runtime.pinned.get(storage.data_ptr(), -1) >= storage.nbytes()

    def pin(self, tensor: Tensor):
        """Pin memory of a tensor as a GPU's would be, if it is the host's."""
        return memory.pin(tensor, self._ranges) if self.has(tensor) else memory._nothing

    def keep(self, tensor: Tensor, stream: object) -> None:
        """Note that memory is given to others only behind what a stream has been given."""
        self._kept.setdefault(tensor.untyped_storage()._cdata, set()).add(id(stream))

    def is_kept(self, tensor: Tensor, stream: object) -> bool:
        """Whether memory is kept for a stream."""
        return id(stream) in self._kept.get(tensor.untyped_storage()._cdata, ())

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """Let what torch computes of tensors of the host alone be in memory of the host, unpinned."""
        with _Inherited(self):
            yield


class _Inherited(TorchDispatchMode):
    def __init__(self, host: HostMemory) -> None:
        super().__init__()
        self._host = host

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        del types
        result = function(*args, **(kwargs or {}))
        given = [one for one in args if isinstance(one, Tensor)]
        if given and all(map(self._host.has, given)) and isinstance(result, Tensor):
            self._host.mark(result)
        return result


def host_copy(tensor: Tensor) -> Tensor:
    """Return a tensor in memory of its own, to be marked."""
    return torch.empty_like(tensor).copy_(tensor)
