"""Warnings of plans that are legal and hardly meant: seeds that find edges that a model should predict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import PlanWarning
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import Graph, Items, ItemSet, edge_types_of, node_types_of, type_number
from headrace.pipeline.data.graph_machinery import ITEMS_BESIDE, destinations_of, in_edges, kept
from headrace.pipeline.data.split_shares import PARTS
from headrace.pipeline.data.times import times_of
from headrace.pipeline.data.typed_items import LinkTypes
from headrace.pipeline.lowered import SeedEdges
from headrace.pipeline.plan import Plan, SourceStage, Stage, source_of
from headrace.pipeline.stages.sampler import Sampler

#: What names of times are like: an attribute of another name may be a weight, a rating or a class.
_OF_TIMES = re.compile(r"time|(^|_)(date|year|month|day|hour|ts?)(_|$)", re.IGNORECASE)

#: How many seeds are looked at, spread over all of them; and of how many at least something must be true.
_LOOKED_AT, _LEAST = 256, 8


def warn_of_doubts(plan: Plan) -> None:
    """Warn of a sampler that samples the future of its seeds, other types, or edges to predict.

    Warns
    -----
    PlanWarning
        Where headrace was called.
    """
    source = source_of(plan)
    for position, stage in enumerate(plan.stages):
        if isinstance(stage, Sampler):
            for doubt in _doubts(stage, source, plan.stages[:position]):
                warn_user(doubt, PlanWarning)


def _doubts(sampler: Any, source: SourceStage, before: Sequence[Stage]) -> Iterator[str]:
    seeds = _Seeds.of(source, sampler)
    if seeds is None:
        return
    if seeds.time is None:
        yield from seeds.that_find_the_future()
    else:
        yield from seeds.that_find_nothing()
    if not source.gives_pairs:
        return
    if seeds.time is None:
        yield from seeds.that_train_beside_held_out_links()
    if not source.seed_types:
        yield from seeds.of_no_edge_type()
    exclude: Any = next((stage for stage in before if stage.excludes is not None), None)
    if exclude is not None and exclude.reverse is False:
        yield from seeds.whose_edges_back_stay(exclude)
    elif exclude is not None and exclude.excludes == "ends" and isinstance(exclude.reverse, Mapping):
        yield from seeds.without_such_edges_back(exclude)
    elif exclude is None and any("num_positives" in stage.writes for stage in before):
        yield from seeds.that_find_their_own_edges()


class _Seeds:
    """Some of the items of a source before a sampler.

    Parameters
    ----------
    sampler
        With its graph, and perhaps `time` and `strictly_before`.
    ids: int64[num_seeds, 1] or int64[num_seeds, 2]
        Ids of its nodes, as users have them.
    times: [num_seeds], optional
        Their times.
    are_labelled
        Whether they have labels.
    """

    def __init__(self, sampler: Any, ids: Tensor, times: Tensor | None, *, are_labelled: bool = False) -> None:
        self.sampler = sampler
        self.name: str = sampler.name
        self.graph: Graph = sampler.graph
        self.time: str | None = getattr(sampler, "time", None)
        self.ids = ids
        self.times = times
        self.are_labelled = are_labelled

    @classmethod
    def of(cls, source: SourceStage, sampler: Any) -> _Seeds | None:
        """Return seeds, or None if they or the edges of the graph are not all known."""
        items, graph = getattr(source, "items", None), sampler.graph
        if not isinstance(graph, Graph) or not isinstance(items, ItemSet) or not len(items) or items.nodes_per_item > 2:
            return None
        chosen, ids, _ = _some_of(items, graph)
        times = source.seed_times[torch.from_numpy(chosen)] if isinstance(source.seed_times, Tensor) else None
        return cls(sampler, ids, times, are_labelled=items.labels is not None)

    def that_train_beside_held_out_links(self) -> Iterator[str]:
        """Warn where seeds are the training pairs of a data set whose graph has the edges to predict."""
        beside: Mapping[str, Items] = kept(self.graph).tables.get(ITEMS_BESIDE, {})
        parts = {name: ItemSet.of(beside[name], allow_none=True) for name in PARTS if name in beside}
        parts = {name: items for name, items in parts.items() if len(items) and items.nodes_per_item == 2}
        if self.are_labelled or "train" not in parts:
            return
        _, train, _ = _some_of(parts.pop("train"), self.graph)
        if not torch.equal(train, self.ids):
            return
        there = [name for name, items in parts.items() if self._has_most_of(items)]
        if there:
            yield (
                f"{self.name}: the graph has the edges of the items {' and '.join(map(repr, there))} of its data set, "
                "so that a model trains on links that it is to predict; convert with held_out='drop' (--held-out "
                "drop), which leaves them out of the graph"
            )

    def _has_most_of(self, pairs: ItemSet) -> bool:
        """Return whether the graph has the edges of most pairs, of their types where they have types."""
        _, ids, types = _some_of(pairs, self.graph)
        if types is None:
            return 2 * int(self._found(ids).sum()) > len(ids)
        known = edge_types_of(self.graph)
        found = [
            self._found(own, of_type=type_number(known, name))
            for number, name in enumerate(types.names)
            if len(own := ids[types.numbers == number])
        ]
        return 2 * int(torch.cat(found).sum()) > len(ids)

    def that_find_the_future(self) -> Iterator[str]:
        """Warn where the graph has times, and a seed an edge that is later than it."""
        attributes = {**self.graph.edge_attrs_csc, **self.graph.node_attrs}
        attributes.pop(getattr(self.sampler, "weight", None) or "", None)
        for name in filter(_OF_TIMES.search, attributes):
            of_edges, of_nodes = self.graph.edge_attrs_csc.get(name), self.graph.node_attrs.get(name)
            if any(later for later, _ in self._in_edges(of_edges, of_nodes, self.times, torch.gt)):
                remedy = f"time={name!r}" if hasattr(self.sampler, "time") else f"sample_neighbor(..., time={name!r})"
                yield (
                    f"{self.name}: seeds have times, but this sampler does not go by times, so it samples edges "
                    f"that are later than their seeds; pass {remedy}, or give the source items without times"
                )

    def that_find_nothing(self) -> Iterator[str]:
        """Warn where all edges of all seeds are too late for them, as if times had another unit."""
        before = torch.lt if self.sampler.strictly_before else torch.le
        assert self.time is not None  # as of all samplers that this is asked for
        times = times_of(self.graph, self.time)
        own = None if self.times is None else times.rounded(self.times)
        num_with_edges = 0
        for early, has_edges in self._in_edges(times.edges, times.nodes, own, before):
            if early:
                return
            num_with_edges += has_edges
        if num_with_edges >= _LEAST:
            yield (
                f"{self.name}: of {num_with_edges} seeds with edges none finds an edge that is early enough; give "
                "the seeds times of the same kind and unit as those of the graph, and such at which something is known"
            )

    def _in_edges(
        self,
        of_edges: Tensor | None,
        of_nodes: Tensor | None,
        times: Tensor | None,
        compare: Callable[[Tensor, Tensor], Tensor],
    ) -> Iterator[tuple[bool, bool]]:
        """Yield whether a seed has an edge whose time, or that of its source, compares so; and whether it has any."""
        known = [one for one in (of_edges, of_nodes) if one is not None]
        if times is None or any(one.ndim != 1 or one.is_floating_point() != times.is_floating_point() for one in known):
            return
        rows = self.graph.to_graph_ids(self.ids.flatten()).view_as(self.ids)
        for nodes, time in zip(rows.tolist(), times, strict=True):
            edges = [in_edges(self.graph, node) for node in nodes]
            found = any(
                (of_edges is not None and bool(compare(of_edges[one], time).any()))
                or (of_nodes is not None and bool(compare(of_nodes[self.graph.indices[one].long()], time).any()))
                for one in edges
            )
            yield found, any(one.stop > one.start for one in edges)

    def of_no_edge_type(self) -> Iterator[str]:
        """Warn of pairs by ids of all nodes that no edge type joins."""
        node_types, triples = node_types_of(self.graph), edge_types_of(self.graph).names
        if not self.graph.is_typed or not all(isinstance(name, tuple) for name in triples):
            return
        fitting = [
            name
            for name in triples
            if all(
                int(ids.max()) < len(node_types.id_range(end))
                for ids, end in zip(self.ids.t(), (name[0], name[2]), strict=True)
            )
        ]
        if not fitting:
            return  # no ids within types; perhaps the graph is without the edges that are to be predicted
        joined = {ends for name in triples for ends in ((name[0], name[2]), (name[2], name[0]))}
        numbers = node_types.numbers_of(self.graph.to_graph_ids(self.ids.flatten())).view_as(self.ids)
        for src, dst in sorted(set(map(tuple, numbers.tolist()))):
            if (node_types.names[src], node_types.names[dst]) not in joined:
                yield (
                    f"{self.name}: some pairs are of {node_types.names[src]!r} and {node_types.names[dst]!r}, which "
                    "no edge type joins; pairs without a type are ids of all nodes: where ids are within two node "
                    f"types, give them by edge type, ItemSampler({{{fitting[0]}: pairs}})"
                )
                return

    def whose_edges_back_stay(self, exclude: Any) -> Iterator[str]:
        """Warn where the edges of pairs are left out, and all edges back are not; by time those of their own time."""
        if self._sees_only_the_past():
            return
        differ = self.ids[:, 0] != self.ids[:, 1]
        back = self._found(self.ids.flip(1), time=self.time)[differ & self._found(self.ids)]
        if len(back) >= _LEAST and bool(back.all()):
            remedy = "reverse=True" if exclude.excludes == "ends" else "the ids of these edges, reverse="
            yield (
                f"{exclude.name}: the graph has the edges of these pairs in both directions, and the edges back stay, "
                f"by which a model can tell the pairs; pass {remedy}"
            )

    def without_such_edges_back(self, exclude: Any) -> Iterator[str]:
        """Warn where the type that is named for the edges back has few of them."""
        types = edge_types_of(self.graph)
        for there, back in exclude.reverse.items():
            own = self._found(self.ids, of_type=type_number(types, there))
            num_back = int(self._found(self.ids.flip(1), of_type=type_number(types, back))[own].sum())
            if int(own.sum()) >= _LEAST and 2 * num_back < int(own.sum()):
                yield (
                    f"{exclude.name}: of {int(own.sum())} pairs of {there!r} only {num_back} have an edge back of type "
                    f"{back!r}; name the type of their reverses, or pass reverse=True"
                )

    def that_find_their_own_edges(self) -> Iterator[str]:
        """Warn of pairs to predict whose own edges are sampled, if most of them have one."""
        if self._sees_only_the_past():
            return
        if 2 * int(self._found(self.ids, time=self.time).sum()) > len(self.ids):
            yield (
                f"{self.name}: the pairs are edges of the graph, so that a model finds in its input what it should "
                f"predict; {'pass strictly_before=True, or ' if self.time else ''}chain "
                "exclude_seed_edges(reverse=True) ahead of the sampler (reverse=False for directed graphs)"
            )

    def _sees_only_the_past(self) -> bool:
        return self.time is not None and bool(self.sampler.strictly_before)

    def _found(self, pairs: Tensor, *, time: str | None = None, of_type: int | None = None) -> Tensor:
        """Return which pairs have an edge, bool[num_pairs]; with the name of times one at the time of the pair."""
        positions = SeedEdges().find(self.graph, pairs, 1).positions
        if of_type is not None:
            order = self.graph.edge_permutation
            ids = positions if order is None else order[positions].long()
            positions = positions[edge_types_of(self.graph).numbers_of(ids) == of_type]
        edges = [self.graph.indices[positions], destinations_of(self.graph, positions)]
        wanted = list(self.graph.to_graph_ids(pairs.flatten()).view_as(pairs).t())
        if time is not None:
            times = times_of(self.graph, time)
            if times.edges is None or self.times is None:
                return torch.zeros(len(pairs), dtype=torch.bool, device="cpu")
            edges.append(times.edges[positions])
            wanted.append(times.rounded(self.times))
        there = set(zip(*(column.tolist() for column in edges), strict=True))
        found = [one in there for one in zip(*(column.tolist() for column in wanted), strict=True)]
        return torch.tensor(found, dtype=torch.bool, device="cpu")


def _some_of(items: ItemSet, graph: Graph) -> tuple[NDArray[np.int64], Tensor, LinkTypes | None]:
    """Return the positions of some items, spread over all, their ids, [n, 1] or [n, 2], and the types of pairs."""
    chosen = np.arange(0, len(items), -(-len(items) // _LOOKED_AT))
    items = items.in_space(node_types_of(graph), edge_types_of(graph)) if items.types else items
    ids, _ = items.take(chosen)
    return chosen, ids.view(len(ids), -1), items.link_types(chosen)
