"""A source of a user's own that shares its batches among ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import headrace as hr
from headrace import ext

NUM_ITEMS, BATCH = 40, 16


class Draws(ext.BatchSource):
    """Draws the items of a batch that are this rank's, every world_size-th one."""

    num_batches = 3
    batch_size = BATCH

    def __init__(self, settings):
        self.rank, self.world_size = settings.rank, settings.world_size

    def seek(self, epoch, state):
        self.epoch, self.index = epoch, 0 if state is None else state["batch"]

    def draw(self):
        if self.index == self.num_batches:
            raise StopIteration
        whole = torch.arange(NUM_ITEMS)[self.index * BATCH : (self.index + 1) * BATCH]
        mine = torch.arange(self.rank, len(whole), self.world_size)
        self.index += 1
        return hr.MiniBatch.of_seeds(
            whole[mine],
            epoch=self.epoch,
            index=self.index - 1,
            item_index=whole[mine],
            seed_slot=mine,
            num_global_seeds=len(whole),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Shares(ext.SourceStage):
    name = "shares"
    shares_by_rank = True
    seed: int = 5

    def source(self, settings):
        return Draws(settings)
