"""What sequential aggregation costs a rank: rounds, rows that came again, bytes, and rows of others that it holds."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from torch import Tensor


@dataclass
class Counts:
    """Counters of a rank, since the beginning or the last `reset`.

    Parameters
    ----------
    rounds
        Exchanges with one peer, or in mode "one-shot" with all peers: of rows forward, and of gradients backward.
    refetches
        Rounds that received rows of a peer again, for the backward pass.
    sent_bytes
        Bytes sent to other ranks.
    live_rows
        Rows of other ranks that are in memory now. Gradients of such rows do not count.
    most_live_rows
        The largest number of live rows so far.
    """

    rounds: int = 0
    refetches: int = 0
    sent_bytes: int = 0
    live_rows: int = 0
    most_live_rows: int = 0

    def reset(self) -> None:
        """Set the counters to 0; rows that are in memory stay counted."""
        self.rounds = self.refetches = self.sent_bytes = 0
        self.most_live_rows = self.live_rows

    def watch(self, rows: Tensor) -> None:
        """Count rows of another rank from now until their memory is freed."""
        number = len(rows)
        self.live_rows += number
        self.most_live_rows = max(self.most_live_rows, self.live_rows)
        # Of the storage, as views of the rows and what autograd saves keep that alone.
        weakref.finalize(rows.untyped_storage(), self._freed, number).atexit = False

    def _freed(self, number: int) -> None:
        self.live_rows -= number
