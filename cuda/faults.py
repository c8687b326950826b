"""What kernels find wrong with their input, and sizes that the device alone knows: the host reads both at once."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.streams import wait_here

#: In the place of an item where there is no fault, and of a size that is not known.
NONE = torch.iinfo(torch.int64).max


class Fault(Exception):  # noqa: N818 - what the doors of `ops` make errors of
    """An item of the input is not what it must be.

    Attributes
    ----------
    kind
        What is wrong.
    item
        The first item that it is wrong of.
    """

    def __init__(self, kind: str, item: int) -> None:
        super().__init__(f"{kind}, item {item}")
        self.kind = kind
        self.item = item


class Faults:
    """Room for the first faulty item of each kind, and for sizes, on a device.

    Parameters
    ----------
    kinds
        Names of the kinds, in the order of their numbers in the kernel; those before count before those behind.
    device
        Where kernels write.
    num_sizes
        How many sizes kernels write to `sizes`.
    """

    def __init__(self, kinds: tuple[str, ...], device: torch.device, num_sizes: int = 0) -> None:
        self._kinds = kinds
        self._num_all = len(kinds) + num_sizes
        self._all = torch.full((self._num_all,), NONE, dtype=torch.int64, device=device)
        #: int64[num_kinds], what kernels report to: the first thing in memory.
        self.items = self._all[: len(kinds)]
        #: int64[num_sizes].
        self.sizes = self._all[len(kinds) :]

    def check(self, *sizes: Tensor) -> list[int]:
        """Wait for the device, and return given sizes, of one entry or more each, int64, or those in `sizes`.

        Raises
        ------
        Fault
            If there is one.
        """
        wait_here()
        whole = torch.cat([self._all, *map(torch.Tensor.flatten, sizes)]) if sizes else self._all
        found: list[int] = whole.tolist()
        for kind, item in zip(self._kinds, found, strict=False):
            if item != NONE:
                raise Fault(kind, item)
        return found[self._num_all if sizes else len(self._kinds) :]
