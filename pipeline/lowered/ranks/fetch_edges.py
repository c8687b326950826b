"""Features of edges at the owners of their destinations: ranks ask these for rows, wherever a batch found the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from headrace.ops import group_by_owner
from headrace.ops.errors import PlanError
from headrace.pipeline.data import FeatureName, MiniBatch, type_number
from headrace.pipeline.data.feature_names import edge_blocks, edge_ids_of, types_of
from headrace.pipeline.data.relation_block import places_of_type
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import take_rows, without_own
from headrace.pipeline.lowered._fetch_stage import FetchStage, IdsHere, decoded, rows_on
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan import Counts, RankTraits, Runner, RunSettings, Stage
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class FetchEdges(FetchStage):
    """Fetch edge features from the ranks that own the destinations of the edges: a round of ids, and one of rows each.

    The pass ``fetch_at_owners`` (FastSample, arXiv 2311.17847, has nodes alone) makes it from ``fetch_feature``.

    Parameters
    ----------
    wanted
        Edge features in shards that were cut with the same graph.
    nodes
        The owners of the nodes.
    """

    name: ClassVar[str] = "fetch_edges"
    lowered: ClassVar[bool] = True
    ranks: ClassVar[RankTraits] = RankTraits(collective=True)

    wanted: Wanted
    nodes: Partition

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads | {"n_id"}

    def check(self, before: tuple[Stage, ...]) -> None:
        if any(stage.ranks.reverses_edges for stage in before):
            raise PlanError(
                f"fetch_feature: expected edge features {list(self.wanted.edge)} whole behind make_bidirectional, got "
                "shards, whose rows are with the destinations, while edges that lead back have the sources for these; "
                f"keep them whole on every rank: data.partition(partition, folder, whole={list(self.wanted.edge)})"
            )

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        wanted = self.wanted
        read_by = dict(zip(wanted.edge, zip(wanted.sources(), wanted.decodings(), strict=True), strict=True))

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts = {"rows": 0, "bytes": 0, "rounds": 0, "collectives": 0, "sent_bytes": 0, "bytes_from_rank": 0}
            rows: dict[FeatureName, Sequence[Tensor]] = {}
            for names in _of_one_type(wanted.edge):
                asked = _ask(batch, names[0], self.nodes, comm, counts)
                for name in names:
                    source, decoding = read_by[name]
                    came = _rows(source, asked, comm, counts, settings.num_threads)
                    rows[name] = torch.split(decoded(came, decoding, settings.num_threads), asked.of_blocks)
            return wanted.filled(batch, [rows[name] for name in wanted.edge]), counts

        return run


class _Asked(NamedTuple):
    """Which rows this rank wants, and which the others want of it.

    Parameters
    ----------
    own, of_others: int64[num_own] and int64[sum(send_counts)]
        Edges whose rows this rank has: those that it wants itself, and those that others do, rank by rank.
    here
        Copies of these in CPU memory, for all features.
    send_counts, receive_counts
        Rows for each rank, and rows that come from each: none of this one.
    places: int64[num_wanted]
        Where the row of each edge of the batch is among its own and those that come.
    of_blocks
        The number of edges of each block.
    """

    own: Tensor
    of_others: Tensor
    here: IdsHere
    send_counts: list[int]
    receive_counts: list[int]
    places: Tensor
    of_blocks: list[int]


def _of_one_type(names: Sequence[FeatureName]) -> list[list[FeatureName]]:
    """Return names in groups of which all have rows for the same edges."""
    groups: dict[object, list[FeatureName]] = {}
    for name in names:
        groups.setdefault(None if isinstance(name, str) else name[0], []).append(name)
    return list(groups.values())


def _ask(batch: MiniBatch, name: FeatureName, nodes: Partition, comm: Comm, counts: dict[str, int]) -> _Asked:
    """Tell the owners which rows this rank wants, and learn which the others do."""
    none = batch.n_id.new_empty(0)
    ids = edge_ids_of(batch, name)
    ends = [batch.n_id[one] for one in _destinations_of(batch, name)]
    owners = nodes.owner(torch.cat([none, *ends]))
    grouped = group_by_owner(torch.cat([none, *ids]), owners, comm.world_size, first=comm.rank)
    receive_counts, num_own = without_own(grouped.counts, comm.rank)
    send_counts = comm.all_to_all_counts(receive_counts)
    of_others = comm.all_to_all(grouped.ids[num_own:], receive_counts, send_counts)
    counts["rounds"] += 1
    counts["collectives"] += 2
    counts["sent_bytes"] += 8 * sum(receive_counts)
    of_blocks = [len(one) for one in ids]
    own = grouped.ids[:num_own]
    return _Asked(own, of_others, IdsHere(), send_counts, receive_counts, grouped.places, of_blocks)


def _rows(source: FeatureSource, asked: _Asked, comm: Comm, counts: dict[str, int], num_threads: int) -> Tensor:
    """Return the rows of a feature in the order of the batch: its own, and those that come."""
    own, sent = (
        rows_on(read_rows(source, asked.here.of(ids), counts, num_threads=num_threads), ids.device)
        for ids in (asked.own, asked.of_others)
    )
    came = comm.all_to_all(sent, asked.send_counts, asked.receive_counts)
    counts["rounds"] += 1
    counts["collectives"] += 1
    counts["sent_bytes"] += sent.nbytes
    counts["bytes_from_rank"] += came.nbytes
    return take_rows(torch.cat([own, came]), asked.places)


def _destinations_of(batch: MiniBatch, name: FeatureName) -> list[Tensor]:
    """Return the local ids of the destinations of the edges whose rows are wanted, block by block."""
    ends = [block.edge_index[1] for block in edge_blocks(batch)]
    if isinstance(name, str):
        return ends
    types = types_of(batch, name)
    number = type_number(types.edge_types, name[0])
    return [one[places_of_type(block, number, types)] for one, block in zip(ends, edge_blocks(batch), strict=True)]
