"""Conversions to PyG and DGL, ahead of the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipeline.data import CPU, GraphView, MiniBatch, Place, edge_types_of
from headrace.pipeline.interop.conversions import batch_to_dgl, batch_to_pyg, require_dgl, require_pyg
from headrace.pipeline.plan import CONVERTED, MINIBATCH, PADDED, Counts, PlainStage, PlanError, Stage, verb
from headrace.pipeline.stages.item_sampler import ItemSampler


@dataclass(frozen=True, eq=False, repr=False)
class Conversion(PlainStage):
    """Base of the stages after which a batch is not a MiniBatch: only prefetches and copies may follow.

    The batches are the same in another form, so a checkpoint can be loaded with or without the stage.
    """

    changes_batches: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({MINIBATCH, PADDED})
    reads_at: ClassVar[Place | None] = CPU
    gives: ClassVar[str | None] = CONVERTED
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks"})

    def check(self, before: tuple[Stage, ...]) -> None:
        if any(stage.ranks.shares_layers for stage in before):
            raise PlanError(
                f"{self.name}: ranks make the batches together, and their layers exchange rows in the model, which "
                f"needs the MiniBatch; leave out {self.name}() and run the model by hr.cooperative, or set "
                "cooperative=False"
            )


def sampled_hops(before: tuple[Stage, ...]) -> list[Stage]:
    """Return for each hop the stage that makes its block, as far as there is a choice about it.

    A stage without such a choice puts one block of its own, of a subgraph, in the place of those before it.
    """
    samplers: list[Stage] = []
    for stage in before:
        if "blocks" in stage.writes and stage.gives != PADDED:  # whose blocks are those of the sampler
            has_choice = hasattr(stage, "expand") and getattr(stage, "keep", "block") == "block"
            samplers = [*samplers, stage] if has_choice else []
    return [stage for stage in samplers for _ in range(max(1, stage.num_hops))]


@verb("to_pyg")
@dataclass(frozen=True, eq=False, repr=False)
class ToPyg(Conversion):
    """Turn every batch into a ``torch_geometric.data.Data``; `MiniBatch.to_pyg` describes its contents.

    Only ``prefetch`` and ``copy_to`` may follow. Background threads convert, so the training loop receives a Data as
    from PyG's own loaders::

        loader = (
            hr.ItemSampler(train_ids, batch_size=1024, shuffle=True)
            .sample_neighbor(graph, fanouts=[15, 10], expand="new")
            .fetch_feature(store, node=["x"], labels="y")
            .to_pyg()
            .loader()
        )
        for data in loader:
            out = model(data.x, data.edge_index)[: data.batch_size]

    Batches stay the same, so a checkpoint can be loaded with or without this stage.

    Raises
    ------
    PlanError
        When the loader is made: if ranks make batches together, or if hops overlap and have no edge ids, which identify
        repeated edges.
    ModuleNotFoundError
        When the loader is made, if torch_geometric is not installed.
    """

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        require_pyg(self.name)
        hops = [stage for stage in sampled_hops(before) if getattr(stage, "expand", None) == "all"]
        if len(hops) > 1 and any(stage.gives == PADDED for stage in before):
            raise PlanError(
                f"{self.name}: expected hops that do not overlap behind pad(), as their union has no fixed size, got "
                f'{len(hops)} that do; sample with expand="new"'
            )
        if len(hops) > 1 and any(getattr(stage, "edge_ids", True) is False for stage in hops):
            raise PlanError(
                f"{self.name}: {len(hops)} hops share edges, which are known by their ids, but carry none; sample with "
                'edge_ids=True where the sampler has them, or with expand="new"'
            )

    def run(self, batch: MiniBatch) -> tuple[Any, Counts]:
        data = batch_to_pyg(batch)
        return data, {"converted_nodes": int(data.num_nodes), "converted_edges": int(data.num_edges)}


@verb("to_dgl")
@dataclass(frozen=True, eq=False, repr=False)
class ToDgl(Conversion):
    """Turn every batch into a list of DGL's blocks; `MiniBatch.to_dgl` describes their contents.

    Only ``prefetch`` and ``copy_to`` may follow. Background threads convert, so the training loop receives blocks as
    from DGL's own loaders::

        for blocks in plan.fetch_feature(store, node=["x"], labels="y").to_dgl().loader():
            out = model(blocks, blocks[0].srcdata["x"])
            loss = criterion(out, blocks[-1].dstdata["y"])

    Seeds that are pairs yield the result of ``batch.to_dgl(pairs=True)``, the tuple of DGL's loaders of edges::

        for input_nodes, pair_graph, neg_pair_graph, blocks in plan.to_dgl().loader():  # without negatives three
            h = model(blocks, blocks[0].srcdata["x"])
            loss = criterion(predictor(pair_graph, h), predictor(neg_pair_graph, h))

    Batches stay the same, so a checkpoint can be loaded with or without this stage.

    Raises
    ------
    PlanError
        When the loader is made: if ranks make batches together, if hops share one block that is not the whole subgraph
        of its nodes, or for pairs without an edge type in a graph with several edge types.
    ModuleNotFoundError
        When the loader is made, if DGL is not installed.
    """

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        hops = sampled_hops(before)
        if len(hops) > 1 and any(getattr(stage, "expand", None) == "new" for stage in hops):
            raise PlanError(f'{self.name}: {len(hops)} hops share one block; sample with expand="all", or use to_pyg()')
        _check_pairs(before)
        require_dgl(self.name)

    def run(self, batch: MiniBatch) -> tuple[Any, Counts]:
        num_edges = sum(block.num_edges for block in batch.blocks)
        converted = batch_to_dgl(batch, pairs=batch.seeds.ndim == 2)
        return converted, {"converted_nodes": batch.n_id.numel(), "converted_edges": num_edges}


def _check_pairs(before: tuple[Stage, ...]) -> None:
    """Refuse seeds that are no pairs, and those of which nobody knows the edge type."""
    source = before[0]
    if not isinstance(source, ItemSampler) or not source.items.are_pairs:
        return
    with_negatives = any("seeds" in stage.writes for stage in before[1:])
    if source.items.nodes_per_item > 2 and not with_negatives:
        raise PlanError(
            f"to_dgl: expected seeds that are nodes or pairs, got {source.items.nodes_per_item} nodes that belong "
            "together, which are no edge; leave out to_dgl(), and call batch.to_dgl() beside batch.seed_index"
        )
    graphs = [getattr(stage, "graph", None) for stage in before]
    types = next((edge_types_of(one) for one in graphs if isinstance(one, GraphView) and one.is_typed), None)
    if types is not None and types.num_types > 1 and source.items.types is None and source.items.edge_types is None:
        raise PlanError(
            f"to_dgl: expected pairs with an edge type, of {list(types.names)}, got some without; give them by type, "
            "hr.ItemSampler({('user', 'rates', 'movie'): pairs}), or leave out to_dgl(), and call batch.to_dgl()"
        )
