"""Edges between the seeds of a batch, which its hops are not to pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops.errors import GraphError, InputError, ItemsError
from headrace.ops.sampling.find_edges import EdgePositions, find_edges
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.type_offsets import TypeName
from headrace.pipeline.data.typed_ids import type_number
from headrace.pipeline.plan.settings import RunSettings


@dataclass(frozen=True)
class SeedEdges:
    """Which edges a batch's positive pairs stand for.

    Parameters
    ----------
    reverse
        Whether the edges back are meant as well; or of each edge type that seeds may have the one that leads back.
    """

    reverse: bool | tuple[tuple[TypeName, TypeName], ...] = False

    def check(self, graph: GraphView) -> None:
        """Refuse edge types that a graph does not have.

        Raises
        ------
        InputError
            For a name that is none of its edge types, or of several.
        """
        if not isinstance(self.reverse, tuple):
            return
        try:
            for name in (name for pair in self.reverse for name in pair):
                type_number(edge_types_of(graph), name)
        except GraphError as error:
            raise InputError(
                f"exclude_seed_edges: expected reverse to name edge types, got {name!r}: {error}"
            ) from error

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

    def find(self, graph: GraphView, pairs: Tensor, num_threads: int) -> EdgePositions:
        """Return the edges of a graph between pairs, int64[num_pairs, 2], by its rows; by typed rows if it has types.

        Of a shard those that it holds.
        """
        # Seeds may be on a GPU already; edges are looked up in CPU memory.
        sources, destinations = graph.to_graph_ids(pairs.cpu().flatten()).view_as(pairs).unbind(1)
        back = [(sources, destinations), (destinations, sources)]
        if not graph.is_typed:
            ends = back if self.reverse else back[:1]
            src, dst = (torch.cat(columns) for columns in zip(*ends, strict=True))
            return find_edges(graph.indptr, graph.indices, src, dst, num_threads=num_threads)
        rows, found = graph.typed_rows, []
        for relation, is_back in self._relations(graph):
            src, dst = back[is_back]
            places, numbers = rows.rows_of(dst, relation)
            found.append((src[places], numbers))
        src, dst = (torch.cat(columns) for columns in zip(*found, strict=True))
        return find_edges(rows.row_ptr, graph.indices, src, dst, num_threads=num_threads)

    def _relations(self, graph: GraphView) -> list[tuple[int, bool]]:
        """Return the relations to look in, each with whether it leads back."""
        types = edge_types_of(graph)
        if isinstance(self.reverse, tuple):
            pairs = [(type_number(types, there), type_number(types, back)) for there, back in self.reverse]
            return [pair for there, back in pairs for pair in ((there, False), (back, True))]
        directions = (False, True) if self.reverse else (False,)
        return [(relation, is_back) for is_back in directions for relation in range(types.num_types)]


def seed_edges(reverse: bool | Mapping[TypeName, TypeName]) -> SeedEdges:
    """Return it for a parameter of a stage."""
    return SeedEdges(tuple(reverse.items()) if isinstance(reverse, Mapping) else reverse)


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
        source = settings.source.source(settings)
        source.check_whole_seeds()

    def find(batch: MiniBatch) -> EdgePositions:
        pairs = positive_pairs(batch) if source is None else source.whole_seeds(batch.epoch, batch.index)
        exclude.check_ends(graph, check_pairs(pairs, "exclude_seed_edges"))
        found = exclude.find(graph, pairs, settings.num_threads)
        return EdgePositions(*(array.to(batch.n_id.device) for array in found))  # hops may be on a GPU

    return find


def _none(batch: MiniBatch) -> None:
    del batch


def positive_pairs(batch: MiniBatch) -> Tensor:
    """Return the pairs of a batch without negatives, int64[num_positives, 2]."""
    return batch.seeds if batch.num_positives is None else batch.seeds[: batch.num_positives, :2]


def check_pairs(seeds: Tensor, stage: str) -> Tensor:
    """Refuse seeds that are not pairs."""
    if seeds.ndim != 2 or seeds.shape[1] != 2:
        raise ItemsError(
            f"{stage}: expected seeds that are pairs, int64[num_pairs, 2], got {list(seeds.shape)}; give the source "
            "pairs, ItemSampler(pairs)"
        )
    return seeds
