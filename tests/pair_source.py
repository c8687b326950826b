"""A source of batches of a user's own, which does not know its largest seed."""

from __future__ import annotations

import torch

import headrace as hr


class Pairs(hr.ext.BatchSource):
    num_batches = 2

    def seek(self, epoch, state):
        self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]

    def draw(self):
        if self.drawn == self.num_batches:
            raise StopIteration
        self.drawn += 1
        return hr.MiniBatch.of_seeds(
            torch.tensor([self.drawn, 10 * self.drawn]), epoch=self.epoch, index=self.drawn - 1
        )


class PairSource(hr.ext.SourceStage):
    """Says nothing of its largest seed, 20."""

    name, seed = "pair_source", 7

    def source(self, settings):
        return Pairs()
