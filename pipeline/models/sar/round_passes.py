"""The edges of a graph in shards as parts, which come in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.pipeline.models.by_parts.parts import Inputs, Part, Revisit, Tables, Visit, add_to
from headrace.pipeline.models.by_parts.statistics import Share, Statistic
from headrace.pipeline.models.sar.rounds import Rounds, described
from headrace.pipeline.models.sar.shard import Shard


@dataclass(frozen=True, eq=False)
class Shards:
    """The edges of a rank in shards, the `Parts` of a `headrace.pipeline.models.by_parts.staged.Staged`.

    Parameters
    ----------
    rounds
        The shards.
    edge_ids: int64[num_edges]
    """

    rounds: Rounds
    edge_ids: Tensor

    @property
    def num_dst(self) -> int:
        """Nodes that this rank owns, or others that edges lead to."""
        return self.rounds.num_dst

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.edge_ids.device

    @property
    def only(self) -> Part | None:
        """The shard of the only rank."""
        rounds = self.rounds
        return self.part(rounds.own) if len(rounds.shards) == 1 and len(rounds.own.indices) else None

    def part(self, shard: Shard) -> Part:
        """Return a shard as a part."""
        positions = shard.positions.long()
        ids = self.edge_ids.index_select(0, positions)
        return Part(shard.owner, shard.indices, shard.destinations, positions, ids, self.num_dst)

    def passes(self, sources: Tables, destinations: Tables) -> RoundPasses:
        """Return the passes of a call; rows of destinations are this rank's own."""
        del destinations
        return RoundPasses(self, sources)


class RoundPasses:
    """The passes of one call: in each the rows of sources come shard by shard, and backward their gradients go.

    Parameters
    ----------
    shards
        The parts.
    tables: each [num_src, ...]
        Rows of this rank's nodes.
    """

    def __init__(self, shards: Shards, tables: Tables) -> None:
        self._shards, self._tables = shards, tables
        self._kept: Tables = ()
        self._sums: Tables | None = None

    def forward(
        self, known: Sequence[Tensor], level: Sequence[Statistic], visit: Visit, what: str, *, keep: bool
    ) -> None:
        """Visit all shards; see `headrace.pipeline.models.by_parts.parts.Passes`."""

        def visit_shard(shard: Shard, rows: Tables) -> None:
            if len(shard.indices):
                shares = visit(self._shards.part(shard), Inputs(rows, (), known))
                for statistic, share in zip(level, shares, strict=True):
                    statistic.add(share.value, share.ties())

        self._kept = self._shards.rounds.forward(self._tables, visit_shard, described(what, (), ()), keep=keep)

    def begin_backward(self, needed: Sequence[bool], of_destinations: Sequence[bool]) -> None:
        """Begin with no gradients."""
        del of_destinations
        self._sums = tuple(map(torch.zeros_like, self._tables)) if any(needed) else None

    def backward(
        self,
        known: Sequence[Tensor],
        level: Sequence[Statistic],
        gradients: Sequence[Tensor | None],
        expected: Sequence[int],
        visit: Revisit,
        what: str,
    ) -> list[Tensor | None]:
        """Visit all shards once more."""
        del expected
        of_known: list[Tensor | None] = [None] * len(known)

        def gradient_of(place: int, share: Share) -> Tensor:
            gradient = gradients[place]
            assert gradient is not None  # it is asked for
            return level[place].gradient_of(share.value.detach(), share.ties(), gradient)

        def visit_shard(shard: Shard, rows: Tables | None, into: Tables | None) -> None:
            assert rows is not None  # they were asked for
            if not len(shard.indices):
                return
            by_rows, _, by_known = visit(self._shards.part(shard), Inputs(rows, (), known), gradient_of)
            add_to(of_known, by_known)
            for total, part in zip(into or (), by_rows, strict=False):
                if part is not None:
                    total.add_(part)

        self._shards.rounds.backward(self._tables, visit_shard, self._sums, self._kept, described(what, (), ()))
        return of_known

    def end_backward(self) -> tuple[Sequence[Tensor], tuple[()]]:
        """Return the gradients of rows of sources."""
        return self._sums or (), ()
