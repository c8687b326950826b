"""Exchange of ids: every node of a layer goes to the rank that owns it, until the batch has its own ids again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from headrace.ops import gather_rows, unique_and_inverse
from headrace.pipeline.data import Block, MiniBatch, trusted
from headrace.pipeline.distributed.exchange import exchange_ids
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.plan.checks import check_partition_fits, graphs_of
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, PlainStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided, RankTraits


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeIds(MapStage):
    """Replace the nodes that this rank found by those that it owns among what all ranks found.

    The step between two hops of cooperative minibatching (arXiv 2310.12403): no node is sampled twice. The pass
    ``cooperative`` puts it behind every stage that finds nodes.

    Parameters
    ----------
    router
        The rank from which this one gets each node: its owner, one part for each rank, or this one for a copy.
    renumber
        Whether the batch takes on the order in which rows will come, so that none has to be moved then: local ids of
        the last block, or of the seeds, are changed. If not, `exchange_rows` restores the order that the batch has.
    """

    name: ClassVar[str] = "exchange_ids"
    lowered: ClassVar[bool] = True

    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "num_sampled_nodes"})

    router: RankRouter
    renumber: bool = field(default=True, kw_only=True)

    @property
    def writes(self) -> frozenset[str]:
        renumbered = {"blocks", "seed_index", "slot"} if self.renumber else set()
        return frozenset({"n_id", "num_sampled_nodes", "exchanges"} | renumbered)

    @property
    def ranks(self) -> RankTraits:
        return RankTraits(collective=True, shares_layers=self.renumber, keeps_rows=not self.renumber)

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("the partition", self.router.partition),)

    def check(self, before: tuple[Stage, ...]) -> None:
        for sampler, graph in graphs_of(before):
            check_partition_fits(self.router.partition, sampler, graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            renumbered: dict[str, Any] = {}
            renumber = partial(_renumber, batch, renumbered)
            nodes, copies = batch.n_id, None
            if batch.slot is not None and not self.renumber:
                nodes, copies = unique_and_inverse(nodes)  # rows of a node are the same in all trees
            exchange = exchange_ids(
                nodes,
                self.router,
                comm,
                slot=batch.slot if self.renumber else None,
                meanwhile=renumber if self.renumber else None,
            )
            if copies is not None and exchange.places is not None:
                exchange = replace(exchange, places=exchange.places[copies])
            num_nodes = list(batch.num_sampled_nodes)
            times = 1
            if "blocks" in renumbered:
                block, *others = renumbered["blocks"]
                if batch.types is not None:
                    block = trusted(replace(block, types=batch.types.of(exchange.wanted)), like=block)
                times = _num_layers(batch.blocks)
                renumbered["blocks"] = (*[block] * times, *others[times - 1 :])
            num_nodes[-times] += exchange.owned.shape[0] - batch.n_id.shape[0]
            replaced = batch.replace(
                **renumbered,
                n_id=exchange.owned,
                slot=exchange.owned_slot if self.renumber else batch.slot,
                exchanges=(*[exchange] * times, *batch.exchanges),
                comm=rows_comm,
                num_sampled_nodes=tuple(num_nodes),
            )
            counts = {"rounds": 1, "collectives": 2, "sent_bytes": 8 * sum(exchange.receive_counts)}
            copied = self.router.num_copies(exchange.wanted[: exchange.num_own])
            return replaced, {**counts, "copied_rows": copied} if copied else counts

        return run


def _renumber(batch: MiniBatch, renumbered: dict[str, Any], places: Tensor) -> None:
    """Add the field of the batch that has local ids of its nodes, which moved to `places`."""
    if not batch.blocks:
        renumbered["seed_index"] = places[batch.seed_index]
        return
    first, *others = batch.blocks
    indices = gather_rows(places.to(first.indices.dtype), first.indices, trusted=True)  # each source has a place
    renumbered["blocks"] = (trusted(replace(first, indices=indices), like=first), *others)


def _num_layers(blocks: tuple[Block, ...]) -> int:
    """Return how many layers the first block has, each of which gets its exchange."""
    times = 1
    while times < len(blocks) and blocks[times] is blocks[0]:
        times += 1
    return times


@dataclass(frozen=True, eq=False, repr=False)
class ReturnIds(PlainStage):
    """Put the nodes whose rows this rank needs in the place of those that it owns.

    Parameters
    ----------
    keep
        Whether the batch keeps the exchange, by which a model exchanges rows too; if not, the batch is again what it
        was before its ids were exchanged.
    """

    name: ClassVar[str] = "return_ids"
    lowered: ClassVar[bool] = True
    ranks: ClassVar[RankTraits] = RankTraits(keeps_rows=True)
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "exchanges"})

    keep: bool = field(default=True, kw_only=True)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"} | ({"slot"} if self.keep else set()))

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        exchange = batch.exchanges[0]
        n_id = exchange.wanted if exchange.places is None else exchange.wanted[exchange.places]
        if self.keep:
            slot = exchange.wanted_slot
            if slot is not None and exchange.places is not None:
                slot = slot[exchange.places]
            return batch.replace(n_id=n_id, slot=slot), {}
        *inner, last = batch.num_sampled_nodes
        given_back = batch.replace(
            n_id=n_id,
            exchanges=batch.exchanges[1:],
            comm=batch.comm if len(batch.exchanges) > 1 else None,
            num_sampled_nodes=(*inner, last + len(n_id) - len(exchange.owned)),
        )
        return given_back, {}
