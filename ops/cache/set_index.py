"""Which ids are in which slots of a cache on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from headrace.ops._arrays import Array, as_count
from headrace.ops.cache import on_gpu
from headrace.ops.errors import HeadraceError
from headrace.ops.gpu import device_errors, gpu_at, on_device

#: Bytes that an index takes for each slot, at most and but for some 32.
SLOT_BYTES = 24

_IDS = (torch.int32, torch.int64)


class SetLookup(NamedTuple):
    """The result of looking up one read, on the device.

    Attributes
    ----------
    slots : torch.Tensor
        int64[n]: the slot in which id i is found, or -1.
    fills : torch.Tensor
        int64[n]: the new slot of the missing id i; -1 for ids that were found, that occurred before in the read, or
        that bypass the cache. No slot occurs twice. The caller writes the rows that it reads from the source to these
        slots.
    """

    slots: torch.Tensor
    fills: torch.Tensor


class SetIndex:
    """Find ids in the slots of a set-associative cache on a GPU, and choose the ids that get slots; it holds no rows.

    Slots are divided into sets of up to 32 ways; the hash of an id is its set. A missing id evicts the id of its set
    whose next use is farthest (Belady's rule within the announced reads). Ids without announced use are evicted first,
    the least recently used one before others. If the missing id itself would be evicted first, it bypasses the cache.
    Ids of a read are processed in order; of more than 128 missing ids of a set only the first 128 are considered.

    The host never waits, and the slots are the same under every schedule. Calls must not overlap: the caller must order
    calls of several threads or on several streams. Only GPUs have kernels for it; in CPU memory use `CacheIndex`.

    Parameters
    ----------
    num_slots : int
        Number of slots.
    device : torch.device or str
        The GPU.
    num_ids : int, optional
        The upper bound of ids, if known. With at most as many ids as slots, each has its own slot.

    Raises
    ------
    InputError
        If a number is below 0.
    HeadraceError
        If the device is not a GPU, or cannot be used.
    """

    def __init__(self, num_slots: int, device: torch.device | str, *, num_ids: int | None = None) -> None:
        stage = "SetIndex"
        self._num_slots = as_count(num_slots, "num_slots", stage=stage)
        fits = num_ids is not None and as_count(num_ids, "num_ids", stage=stage) <= num_slots
        try:
            self._device = gpu_at(device)
        except HeadraceError as error:
            message = f"{stage}: {error}; in CPU memory ops.CacheIndex is the cache"
            raise HeadraceError(message) from error
        self._num_passed = 0  # ids, where there are no slots
        self._twin = on_gpu.made(num_slots, self._device, is_mixed=not fits) if num_slots else None

    @property
    def device(self) -> torch.device:
        """The device."""
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
        """Look up the ids of one read, and give slots to some of the missing ones.

        Parameters
        ----------
        ids : torch.Tensor
            int32[n] or int64[n], on the device. Ids below 0 are never found, and get no slots.
        expected : sequence of torch.Tensor
            int32 or int64 each, on the device: the ids of the coming reads, the next one first. Every read scans all of
            them.
        keep_found : bool
            Whether slots found by this read stay: then no slot is in both `slots` and `fills`, and both can be used at
            once. Otherwise Belady's rule applies to them, too, and all found rows must be read before slots are filled.

        Raises
        ------
        InputError
            For ids of a wrong dtype or on another device.
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
        """Forget all ids, for example if rows were not written to their slots; counts stay. The host does not wait."""
        if self._twin is not None:
            self._twin.clear()

    def counts(self) -> dict[str, int]:
        """Return the numbers of ids that were found, missed, evicted, and bypassed the cache. The host waits for them.

        An id twice in a read, if missing, counts as two misses.
        """
        if self._twin is None:
            return {"hits": 0, "misses": self._num_passed, "evictions": 0, "bypasses": self._num_passed}
        looked_up, hits, fills, evictions = self._twin.counts()
        misses = looked_up - hits
        return {"hits": hits, "misses": misses, "evictions": evictions, "bypasses": misses - fills}

    def known_counts(self) -> dict[str, int]:
        """Return the numbers of found and missed ids of the reads reported so far; the host does not wait.

        The last few reads may be missing.
        """
        if self._twin is None:
            return {"hits": 0, "misses": self._num_passed}
        looked_up, hits = self._twin.known_counts()
        return {"hits": hits, "misses": looked_up - hits}
