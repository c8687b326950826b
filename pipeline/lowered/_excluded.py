"""Edges between the seeds of a batch, which its hops are not to pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops import EdgePositions, InputError, find_edges
from headrace.ops.gpu import device_of
from headrace.pipeline.data import GraphView, MiniBatch, TypeName, edge_types_of, node_types_of, type_number
from headrace.pipeline.data.graph_machinery import arrays_on
from headrace.pipeline.lowered._fetch_stage import rows_on
from headrace.pipeline.lowered._negatives import pair_of_trees
from headrace.pipeline.lowered._seed_edge_ids import SeedEdgeIds
from headrace.pipeline.plan.checks import batches_of
from headrace.pipeline.plan.settings import RunSettings


@dataclass(frozen=True)
class SeedEdges:
    """Which edges a batch's positive pairs stand for.

    Parameters
    ----------
    reverse
        Whether the edges back are meant as well; or of each edge type that seeds may have the one that leads back.
    by_tree
        Whether those of a pair are meant in its own tree, and in those of its negatives, alone.
    ids
        Of all items the edges that are meant; None for all between the pairs.
    """

    reverse: bool | tuple[tuple[TypeName, TypeName], ...] = False
    by_tree: bool = False
    ids: SeedEdgeIds | None = None

    def check(self, graph: GraphView) -> None:
        """Refuse edge types that a graph does not have.

        Raises
        ------
        InputError
            For a name that is none of its edge types, or of several; for a type that does not lead back.
        """
        if not isinstance(self.reverse, tuple):
            return
        types = edge_types_of(graph)
        full: dict[TypeName, TypeName] = {}
        try:
            for name in (name for pair in self.reverse for name in pair):
                full[name] = types.names[type_number(types, name)]
        except InputError as error:
            raise InputError(
                f"exclude_seed_edges: expected reverse to name edge types, got {name!r}: {error}"
            ) from error
        for there, back in ((full[one], full[other]) for one, other in self.reverse):
            if isinstance(there, tuple) and isinstance(back, tuple) and (back[0], back[2]) != (there[2], there[0]):
                raise InputError(
                    f"exclude_seed_edges: expected reverse to name for {there} a type from {there[2]!r} to "
                    f"{there[0]!r}, got {back}, whose edges are no edges back"
                )

    def names(self, graph: GraphView, edge_type: TypeName) -> bool:
        """Return whether the seeds of an edge type are meant: those of a type that no key names would not be."""
        if not isinstance(self.reverse, tuple):
            return True
        types = edge_types_of(graph)
        return type_number(types, edge_type) in {type_number(types, there) for there, _ in self.reverse}

    def check_ends(self, graph: GraphView, pairs: Tensor) -> None:
        """Refuse pairs, int64[num_pairs, 2], that can be of no edge type among the keys: nothing of them is meant.

        Raises
        ------
        InputError
            For a pair of nodes of other types.
        """
        edge_types, node_types = edge_types_of(graph), node_types_of(graph)
        if not isinstance(self.reverse, tuple) or not len(pairs):
            return
        keys = [edge_types.names[type_number(edge_types, there)] for there, _ in self.reverse]
        if not all(isinstance(key, tuple) for key in keys):
            return  # a plain name may lead from any type to any
        pairs = check_pairs(pairs.cpu(), "exclude_seed_edges")
        if bool(((pairs < 0) | (pairs >= graph.num_nodes)).any()):
            return  # samplers refuse what is no node
        nodes = graph.to_graph_ids(pairs.flatten()).view_as(pairs)
        types = node_types.numbers_of(nodes)
        codes = torch.bincount(types[:, 0] * node_types.num_types + types[:, 1]).nonzero().squeeze(1)
        ends = [divmod(code, node_types.num_types) for code in codes.tolist()]
        found = {(node_types.names[there], node_types.names[back]) for there, back in ends}
        others = found - {(key[0], key[2]) for key in keys}
        if others:
            raise InputError(
                f"exclude_seed_edges: expected pairs of an edge type among the keys of reverse, {keys}, got some from "
                f"and to {sorted(map(str, others))}; name their edge type, too, or pass reverse=True for all"
            )

    def find(
        self,
        graph: GraphView,
        pairs: Tensor,
        num_threads: int,
        slots: Tensor | None = None,
        ids: SeedEdgeIds | None = None,
    ) -> EdgePositions:
        """Return the edges of a graph between pairs, int64[num_pairs, 2], by its rows; by typed rows if it has types.

        They are found where the pairs are. Of a shard those that it holds. `slots`, int64[num_pairs], are the trees of
        the pairs, where that matters, and `ids` the edges that they are, where others between the same nodes are not
        meant.
        """
        arrays = arrays_on(graph, device_of(pairs))
        there = graph.to_graph_ids(pairs.flatten()).view_as(pairs)
        relations = self._relations(graph)
        ends = torch.cat([there.flip(1) if is_back else there for _, is_back in relations])
        of_pairs = torch.cat([torch.full_like(pairs[:, 0], relation) for relation, _ in relations])
        return find_edges(
            arrays.indptr,
            arrays.indices,
            *ends.t().contiguous(),
            slots=None if slots is None else slots.repeat(len(relations)),
            rows=arrays.rows,
            relations=None if arrays.rows is None else of_pairs,
            wanted=None if ids is None else torch.cat([ids.of(is_back) for _, is_back in relations]),
            edge_ids=None if ids is None else arrays.edge_ids,
            num_threads=num_threads,
        )

    def _relations(self, graph: GraphView) -> list[tuple[int, bool]]:
        """Return the relations to look in, each with whether it leads back."""
        types = edge_types_of(graph)
        if isinstance(self.reverse, tuple):
            pairs = [(type_number(types, there), type_number(types, back)) for there, back in self.reverse]
            return [pair for there, back in pairs for pair in ((there, False), (back, True))]
        directions = (False, True) if self.reverse else (False,)
        return [(relation, is_back) for is_back in directions for relation in range(types.num_types)]


def seed_edges(reverse: bool | Mapping[TypeName, TypeName] | Tensor, *, by_tree: bool = False) -> SeedEdges:
    """Return it for parameters of a stage; where reverses are named by id they are looked for between the pairs."""
    if isinstance(reverse, Mapping):
        return SeedEdges(tuple(reverse.items()), by_tree)
    return SeedEdges(reverse is not False, by_tree)


def excluder(
    exclude: SeedEdges | None, graph: GraphView, settings: RunSettings
) -> Callable[[MiniBatch], EdgePositions | None]:
    """Return what finds the edges that the hops of a batch leave out; None for none.

    Where ranks share a batch they leave out the edges of all its pairs, as one process would.

    Raises
    ------
    PlanError
        If the source cannot say what pairs other ranks have.
    """
    if exclude is None:
        return _none
    source = None
    if settings.world_size > 1:
        assert settings.source is not None
        source = batches_of(settings.source, settings)
        source.check_whole_seeds()

    def find(batch: MiniBatch) -> EdgePositions:
        where = batch.n_id.device
        pairs = positive_pairs(batch) if source is None else source.whole_seeds(batch.epoch, batch.index)
        exclude.check_ends(graph, check_pairs(pairs, "exclude_seed_edges"))
        pairs = pairs if source is None else rows_on(pairs, where)
        ids = None
        if exclude.ids is not None:
            whole = None if source is None else rows_on(source.whole_items(batch.epoch, batch.index), where)
            ids = exclude.ids.take(batch.item_index[: len(pairs)] if whole is None else whole)
        if not exclude.by_tree:
            return exclude.find(graph, pairs, settings.num_threads, ids=ids)
        pair_of = pair_of_trees(len(pairs), _num_trees(batch, len(pairs), settings), where)
        of_trees = None if ids is None else ids.take(pair_of)
        slots = torch.arange(len(pair_of), device=where)
        return exclude.find(graph, pairs[pair_of], settings.num_threads, slots, of_trees)

    return find


def is_left_out(excluded: EdgePositions, positions: Tensor, slots: Tensor | None) -> Tensor:
    """Return which edges of a subgraph are not to be there.

    Parameters
    ----------
    excluded
        What the function of `excluder` returned.
    positions: int64[n]
        Where the edges are in the graph.
    slots: int64[n] or None
        The trees that they are in.

    Returns
    -------
    Tensor
        bool[n].
    """
    gone = excluded.positions.to(positions.device)
    if excluded.slots is not None:
        assert slots is not None  # hops in trees stand before it
        size = 1 + max(int(one.max()) if len(one) else 0 for one in (positions, gone))
        positions = positions + size * slots
        gone = gone + size * excluded.slots.repeat_interleave(excluded.starts.diff())
    return torch.isin(positions, gone)


def _none(batch: MiniBatch) -> None:
    del batch


def positive_pairs(batch: MiniBatch) -> Tensor:
    """Return the pairs of a batch without negatives, int64[num_positives, 2]."""
    return batch.seeds if batch.num_positives is None else batch.seeds[: batch.num_positives, :2]


def _num_trees(batch: MiniBatch, num_pairs: int, settings: RunSettings) -> int:
    """Return how many trees the whole batch has; those of triplets are the pairs' own."""
    if settings.world_size == 1:
        return len(batch.item_index)
    return max(num_pairs, batch.num_global_seeds)


def check_pairs(seeds: Tensor, stage: str) -> Tensor:
    """Refuse seeds that are not pairs."""
    if seeds.ndim != 2 or seeds.shape[1] != 2:
        raise InputError(
            f"{stage}: expected seeds that are pairs, int64[num_pairs, 2], got {list(seeds.shape)}; give the source "
            "pairs, ItemSampler(pairs)"
        )
    return seeds
