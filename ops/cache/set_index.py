"""Which ids are in which slots of a cache on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from headrace.ops._arrays import Array, as_count
from headrace.ops.cache import on_gpu
from headrace.ops.errors import DeviceError
from headrace.ops.gpu import device_errors, gpu_at, on_device

#: Bytes that an index takes for each slot, at most and but for some 32.
SLOT_BYTES = 24

_IDS = (torch.int32, torch.int64)


class SetLookup(NamedTuple):
    """What one read finds, on the device.

    Attributes
    ----------
    slots : torch.Tensor
        int64[n]: the slot in which id i is found, or -1.
    fills : torch.Tensor
        int64[n]: the slot that is now that of id i, which was missing, or -1: for ids that were found, that came before
        in the read, or that go past the cache. No slot is there twice. Who looked up writes there what it has read
        elsewhere.
    """

    slots: torch.Tensor
    fills: torch.Tensor


class SetIndex:
    """Find ids in the slots of a set-associative cache on a GPU, and choose which ids get slots; it holds nothing else.

    Slots are divided into sets of up to 32 ways, and a hash of an id says which is its set. In it makes room the slot
    whose id is expected farthest in the future (Belady's rule within what is known), of those that are not expected the
    least recently used one; where that is not worse than the missing id itself, the id goes past the cache. Ids of a
    read come in their order; of more than 128 missing ones of a set the first 128 are considered.

    The host never waits, and the same slots come out under every schedule. Calls come one after the other: those of
    several threads, or on several streams, are to be put into an order by whoever makes them. GPUs alone have kernels
    for it: in CPU memory `CacheIndex` is the cache.

    Parameters
    ----------
    num_slots : int
        Number of slots.
    device : torch.device or str
        The GPU.
    num_ids : int, optional
        Where all ids are below it. If there are no more than slots, each has a slot of its own.

    Raises
    ------
    InputError
        If a number is below 0.
    DeviceError
        If the device is no GPU, or cannot be used.
    """

    def __init__(self, num_slots: int, device: torch.device | str, *, num_ids: int | None = None) -> None:
        stage = "SetIndex"
        self._num_slots = as_count(num_slots, "num_slots", stage=stage)
        fits = num_ids is not None and as_count(num_ids, "num_ids", stage=stage) <= num_slots
        try:
            self._device = gpu_at(device)
        except DeviceError as error:
            message = f"{stage}: {error}; in CPU memory ops.CacheIndex is the cache"
            raise DeviceError(message) from error
        self._num_passed = 0  # ids, where there are no slots
        self._twin = on_gpu.made(num_slots, self._device, is_mixed=not fits) if num_slots else None

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self._device

    @property
    def num_slots(self) -> int:
        """Number of slots."""
        return self._num_slots

    @property
    def ids_in_slots(self) -> torch.Tensor:
        """The id in each slot, int64[num_slots] on the device, or -1."""
        return torch.empty(0, dtype=torch.int64, device=self._device) if self._twin is None else self._twin.ids.clone()

    def look_up(self, ids: Array, expected: Sequence[Array] = (), *, keep_found: bool = True) -> SetLookup:
        """Look up the ids of one read, and give slots to some of those that are missing.

        Parameters
        ----------
        ids : torch.Tensor
            int32[n] or int64[n], on the device. Ids below 0 are never found, and get no slots.
        expected : sequence of torch.Tensor
            int32 or int64 each, on the device: the ids of the reads to come, the nearest first. Each is gone through
            for every read.
        keep_found : bool
            Whether slots that this read finds stay: then no slot is in `slots` and in `fills`, and both can be used at
            once. Otherwise Belady's rule holds for them too, and all that was found has to be read before slots are
            filled.

        Raises
        ------
        InputError
            For ids of another dtype, or somewhere else.
        """
        stage = "SetIndex.look_up"
        wanted = on_device(ids, "ids", self._device, stage=stage, dtypes=_IDS)
        coming = [
            on_device(one, f"expected[{i}]", self._device, stage=stage, dtypes=_IDS) for i, one in enumerate(expected)
        ]
        if self._twin is None:
            self._num_passed += len(wanted)
            nowhere = torch.full((len(wanted),), -1, dtype=torch.int64, device=self._device)
            return SetLookup(nowhere, nowhere)
        with device_errors():
            return SetLookup(*self._twin.look_up(wanted, coming, keep_found=keep_found))

    def clear(self) -> None:
        """Forget all ids, as where rows were not written to their slots; counts stay. The host does not wait."""
        if self._twin is not None:
            self._twin.clear()

    def counts(self) -> dict[str, int]:
        """Return how many ids were found, missed, made room, and went past the cache. The host waits for that.

        An id that comes twice in a read, and is missing, is missed twice.
        """
        if self._twin is None:
            return {"hits": 0, "misses": self._num_passed, "evictions": 0, "bypasses": self._num_passed}
        looked_up, hits, fills, evictions = self._twin.counts()
        misses = looked_up - hits
        return {"hits": hits, "misses": misses, "evictions": evictions, "bypasses": misses - fills}

    def known_counts(self) -> dict[str, int]:
        """Return how many ids were found and missed by reads of which the host knows by now; it does not wait.

        These are all reads up to one of the last.
        """
        if self._twin is None:
            return {"hits": 0, "misses": self._num_passed}
        looked_up, hits = self._twin.known_counts()
        return {"hits": hits, "misses": looked_up - hits}
