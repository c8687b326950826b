"""A minibatch with padding: its arrays have sizes that batches share, and its counts those of real entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from headrace.ops.sampling.pad import Padded, real_rows
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.padding import Sizes


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBatch(MiniBatch):
    """A batch behind ``plan.pad()``, whose docstring states what padding holds.

    `num_seeds`, `num_sampled_nodes`, `num_sampled_edges`, `num_global_seeds` and `num_positives` count real entries.

    Parameters
    ----------
    sizes
        The sizes with padding.
    num_real_seeds
        The number of real entries of `seeds`, which are the first.
    """

    sizes: Sizes = field(kw_only=True)
    num_real_seeds: int = field(kw_only=True)

    @classmethod
    def of(cls, batch: MiniBatch, sizes: Sizes, **changes: Any) -> PaddedBatch:
        """Return a batch with its arrays replaced by padded ones."""
        padded = object.__new__(cls)
        padded.__dict__.update(batch.__dict__, sizes=sizes, num_real_seeds=batch.num_seeds)
        return cast(PaddedBatch, padded.replace(**changes))

    @property
    def num_seeds(self) -> int:
        """Return the number of seeds (or pairs) of this rank's share, without padding."""
        return self.num_real_seeds

    @property
    def seed_mask(self) -> Tensor:
        """Return which entries of `seeds` are real, bool[len(seeds)]."""
        return torch.arange(len(self.seeds), device=self.seeds.device) < self.num_real_seeds

    @property
    def node_mask(self) -> Tensor:
        """Return which entries of `n_id` are real, bool[len(n_id)]."""
        return real_rows(Padded(self.num_sampled_nodes, self.sizes.num_nodes), self.n_id.device)
