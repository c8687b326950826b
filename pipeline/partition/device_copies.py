"""Tables beside the ids that are looked up in them."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops import InputError
from headrace.pipeline.data.arrays import describe


class DeviceCopies:
    """Copies of tables on devices, each made when it is first asked for; they do not travel to other processes."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}

    def beside(self, ids: Tensor, table: Tensor) -> Tensor:
        """Return a table where ids are, int64[n] or int32[n]."""
        if not isinstance(ids, Tensor) or ids.dtype not in (torch.int32, torch.int64):
            raise InputError(f"Partition: expected ids of nodes, int64[n] or int32[n], got {describe(ids)}")
        if table.device == ids.device:
            return table
        at = id(table), ids.device
        if at not in self._copies:
            self._copies[at] = table, table.to(ids.device)  # with the table, so that no other one gets its id
        return self._copies[at][1]

    def __reduce__(self) -> tuple[type[DeviceCopies], tuple[()]]:
        return DeviceCopies, ()
