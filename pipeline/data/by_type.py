"""Places of nodes, edges and seeds by their types; a GPU tells the host at once how many there are of each."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class ByType:
    """Places of ids, those of the first type first.

    It does not wait for a GPU before it is asked for a type.

    Parameters
    ----------
    types: int64[num_ids]
        The number of each id's type.
    num_types
        How many types there are.
    """

    def __init__(self, types: Tensor, num_types: int) -> None:
        in_order, self.order = types.to(torch.int16).sort(stable=True)
        numbers = torch.arange(num_types + 1, dtype=torch.int16, device=types.device)
        #: int64[num_types + 1], the bounds where the ids are.
        self.ends = torch.searchsorted(in_order, numbers)
        #: The same in memory of the host, once it has been read.
        self.known: list[int] | None = None

    @property
    def bounds(self) -> list[int]:
        """Where places of each type begin, and behind them their end; the host waits for them once."""
        if self.known is None:
            ByType.read([self])
        assert self.known is not None
        return self.known

    def places(self, number: int) -> Tensor:
        """Return the places of ids of a type, int64[n], ascending."""
        return self.order[self.bounds[number] : self.bounds[number + 1]]

    def count(self, number: int) -> int:
        """Return how many ids are of a type."""
        return self.bounds[number + 1] - self.bounds[number]

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """What they are in."""
        return self.order, self.ends

    @staticmethod
    def read(several: Iterable[ByType]) -> None:
        """Learn the bounds of several, which are on one device: the host waits once."""
        unknown = [one for one in several if one.known is None]
        if not unknown:
            return
        whole = unknown[0].ends if len(unknown) == 1 else torch.cat([one.ends for one in unknown])
        read: list[int] = whole.tolist()
        for one in unknown:
            one.known, read = read[: len(one.ends)], read[len(one.ends) :]
