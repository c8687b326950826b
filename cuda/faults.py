"""What kernels find wrong with their input: looked at once, with the sizes that the host has to know anyway."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.streams import wait_here

#: In the place of an item where there is no fault.
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
    """Room for the first faulty item of each kind, on a device.

    Parameters
    ----------
    kinds
        Names of the kinds, in the order of their numbers in the kernel; those before count before those behind.
    device
        Where kernels write.
    """

    def __init__(self, kinds: tuple[str, ...], device: torch.device) -> None:
        self._kinds = kinds
        self.items = torch.full((len(kinds),), NONE, dtype=torch.int64, device=device)

    def check(self, *sizes: Tensor) -> list[int]:
        """Wait for the device, and return sizes of one entry or more each, int64, as numbers, one after the other.

        Raises
        ------
        Fault
            If there is one.
        """
        wait_here()
        found: list[int] = torch.cat([self.items, *map(torch.Tensor.flatten, sizes)]).tolist()
        for kind, item in zip(self._kinds, found, strict=False):
            if item != NONE:
                raise Fault(kind, item)
        return found[len(self._kinds) :]
