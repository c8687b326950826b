"""Picks that one sweep over all edges counts and a second one writes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from headrace.cuda.hop import Segments


class TwoSweepPicker(ABC):
    """Base of pickers whose kernel counts picks where it is given room for counts, and else writes positions."""

    def counts(self, segments: Segments) -> Tensor:
        """Return how many edges will be picked of each segment, int64[num_dst]."""
        counts = torch.empty_like(segments.degrees)
        self.sweep(segments, counts, None, None)
        return counts

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> Tensor | None:
        """Write the positions of picks."""
        self.sweep(segments, None, indptr, positions)
        return None

    @abstractmethod
    def sweep(self, segments: Segments, counts: Tensor | None, indptr: Tensor | None, positions: Tensor | None) -> None:
        """Launch the kernel."""
