"""Random plans over every stage that users can chain, for contracts that hold of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

import headrace as hr

from plans import NUM_NODES, double, graph, items, pairs, store, store_on_disk, unchanged, with_seed_times, with_times

Chaining = Callable[[hr.Plan, hr.Graph], hr.Plan]


@dataclass(frozen=True)
class Sampler:
    """A way to sample.

    Parameters
    ----------
    chain
        Adds it to a plan.
    by_row
        Whether it needs no more of a graph than the rows of single nodes, so that the graph may lie in shards.
    together
        Whether ranks can make its batches together.
    edge_ids
        Whether its blocks have the ids of their edges.
    keeps_seeds
        Whether its source may have labels, and come in pairs, and its seeds are those of the source.
    of_pairs
        Whether its source must come in pairs.
    on_ranks
        Whether ranks can share its batches, each with seeds for itself.
    """

    chain: Chaining
    by_row: bool = False
    together: bool = False
    edge_ids: bool = True
    keeps_seeds: bool = True
    on_ranks: bool = True
    of_pairs: bool = False


SAMPLERS = {
    "none": Sampler(lambda plan, _: plan, edge_ids=False),
    "neighbor": Sampler(lambda plan, one: plan.sample_neighbor(one, [4, 3]), by_row=True, together=True),
    "neighbor_new": Sampler(lambda plan, one: plan.sample_neighbor(one, [4, 3], expand="new"), by_row=True),
    "replace": Sampler(lambda plan, one: plan.sample_neighbor(one, [3, 2], replace=True), by_row=True, together=True),
    "weighted": Sampler(lambda plan, one: plan.sample_neighbor(one, [4], weight="weight"), by_row=True, together=True),
    "labor": Sampler(
        lambda plan, one: plan.sample_layer_neighbor(one, [4, -1], edge_ids=False),
        by_row=True,
        together=True,
        edge_ids=False,
    ),
    "labor_of_dependent_batches": Sampler(
        lambda plan, one: plan.sample_layer_neighbor(one, [4, 3], batch_dependency=2), by_row=True, together=True
    ),
    "labor_star": Sampler(
        lambda plan, one: plan.sample_layer_neighbor(one, [4, 2], importance="*", batch_dependency=3), together=True
    ),
    "ladies": Sampler(lambda plan, one: plan.sample_ladies(one, [20, 30], weight="weight"), together=True),
    "disjoint": Sampler(
        lambda plan, one: plan.sample_layer_neighbor(one, [4, 3], disjoint=True), by_row=True, together=True
    ),
    "temporal": Sampler(
        lambda plan, one: with_seed_times(plan).sample_neighbor(
            with_times(one), [4, 3], time="time", weight="weight", window=30
        ),
        by_row=True,
        together=True,
    ),
    "temporal_new": Sampler(
        lambda plan, one: with_seed_times(plan).sample_neighbor(
            with_times(one), [4, 3], time="time", strategy="last", expand="new"
        ),
        by_row=True,
    ),
    "temporal_strictly": Sampler(
        lambda plan, one: with_seed_times(plan).sample_neighbor(
            with_times(one), [4, 3], time="time", strictly_before=True
        ),
        by_row=True,
        together=True,
    ),
    "in_subgraph": Sampler(lambda plan, one: plan.sample_in_subgraph(one, num_hops=2), by_row=True, together=True),
    "bidirectional": Sampler(lambda plan, one: plan.sample_neighbor(one, [4, 3], expand="new").make_bidirectional()),
    "induced": Sampler(
        lambda plan, one: plan.sample_neighbor(one, [4, 3], expand="new").induce_subgraph(one),
        together=True,
        on_ranks=False,
    ),
    "shadow": Sampler(lambda plan, one: plan.sample_shadow(one, 2, 3), by_row=True, together=True),
    "pinsage": Sampler(
        lambda plan, one: plan.sample_pinsage(one, 3, num_walks=4, walk_length=2, num_layers=2),
        together=True,
        edge_ids=False,
    ),
    "link_neighbor": Sampler(
        lambda plan, one: (
            plan.sample_uniform_negative(one, 1.5).exclude_seed_edges(reverse=True).sample_neighbor(one, [4, 3])
        ),
        by_row=True,
        together=True,
        of_pairs=True,
    ),
    "link_trees": Sampler(
        lambda plan, one: (
            plan.sample_uniform_negative(one, 1)
            .exclude_seed_edges(reverse=True, per="seed")
            .sample_layer_neighbor(one, [4, 3], disjoint=True)
        ),
        by_row=True,
        together=True,
        of_pairs=True,
    ),
    "link_ladies": Sampler(
        lambda plan, one: plan.exclude_seed_edges().sample_uniform_negative(one, 2, "triplet").sample_ladies(one, [20]),
        together=True,
        of_pairs=True,
    ),
    "saint_node": Sampler(lambda plan, one: plan.sample_saint(one, "node", budget=40), keeps_seeds=False),
    "saint_edge": Sampler(lambda plan, one: plan.sample_saint(one, "edge", budget=25), keeps_seeds=False),
    "saint_walk": Sampler(
        lambda plan, one: plan.sample_saint(one, "walk", walk_length=2, num_samples=10), keeps_seeds=False
    ),
}


class Counting:
    """Seeds of batches as a torchdata node yields them."""

    def __init__(self) -> None:
        self._next = 0

    def reset(self, state: dict[str, int] | None = None) -> None:
        self._next = 0 if state is None else state["next"]

    def __next__(self) -> torch.Tensor:
        if self._next == 3:
            raise StopIteration
        self._next += 1
        return torch.arange(self._next, 30, 7)

    def state_dict(self) -> dict[str, int]:
        return {"next": self._next}


SOURCES: dict[str, Callable[[], hr.Plan]] = {
    "nodes": lambda: items(batch_size=40),
    "in_order": lambda: items(batch_size=33, shuffle=False, drop_last=True),
    "repeated": lambda: hr.ItemSampler(torch.arange(90) % 13, batch_size=40, seed=3),
    "labelled": lambda: hr.ItemSampler((torch.arange(50), torch.arange(50) * 2), batch_size=30, shuffle=True, seed=3),
    "pairs": lambda: pairs(batch_size=13),
    "node_source": lambda: hr.ext.NodeSource(Counting(), seed=3),
    "clusters": lambda: hr.ClusterSampler(hr.Partition.hash(NUM_NODES, 7), 3, boundary=1, seed=3),
    "budget": lambda: hr.ItemSampler(90, cost=torch.arange(90) % 7, budget=100, shuffle=True, seed=3),
    "global": lambda: hr.GlobalBatch(graph(), seed=3),
}


@dataclass(frozen=True)
class RandomPlan:
    """A plan that can be built over whole or over divided data.

    Parameters
    ----------
    source, sampler
        Names in `SOURCES` and `SAMPLERS`.
    node, labels, edge
        Whether it fetches node features, labels and edge features.
    on_disk
        Whether passes take the features for rows on disk.
    tail
        Names of verbs behind the fetches.
    """

    source: str
    sampler: str
    node: bool
    labels: bool
    edge: bool
    on_disk: bool
    tail: tuple[str, ...]

    def build(
        self, over: hr.Graph | None = None, features: hr.FeatureStore | None = None, source: hr.Plan | None = None
    ) -> hr.Plan:
        """The plan over a graph and features, by default the whole ones; and from another source, if there is one."""
        plan = SOURCES[self.source]() if source is None else source
        plan = SAMPLERS[self.sampler].chain(plan, graph() if over is None else over)
        names = {"node": ["x"] if self.node else [], "edge": ["e"] if self.edge else []}
        if self.node or self.edge or self.labels:
            whole = store_on_disk() if self.on_disk else store()
            plan = plan.fetch_feature(
                whole if features is None else features, **names, labels="y" if self.labels else None
            )
        for verb in self.tail:
            plan = _TAIL[verb](plan)
        return plan


_TAIL: dict[str, Callable[[hr.Plan], hr.Plan]] = {
    "transform": lambda plan: plan.transform(unchanged),
    "transform_x": lambda plan: plan.transform(double),
    "prefetch": lambda plan: plan.prefetch(workers=2, depth=2),
    "prefetch_lazily": lambda plan: plan.prefetch(workers=1, eager=False),
    "prefetch_nothing": lambda plan: plan.prefetch(workers=0),
    "copy_to": lambda plan: plan.copy_to("cpu"),
    "pad": lambda plan: plan.pad(),
    "to_pyg": lambda plan: plan.to_pyg(),
}


@st.composite
def random_plans(
    draw: st.DrawFn,
    *,
    ranks: bool = False,
    together: bool = False,
    by_row: bool = False,
    sampler: str | None = None,
    node: bool | None = None,
) -> RandomPlan:
    """Plans over every stage, or over those for several ranks, for ranks that cooperate, or for graphs in shards.

    With the sampler and the fetch of node features that are given, or with any.
    """
    samplers = [
        name
        for name, one in SAMPLERS.items()
        if (not together or one.together)
        and (not by_row or one.by_row)
        and (not ranks or (one.keeps_seeds and (one.on_ranks or together)))
    ]
    name = draw(st.sampled_from(samplers)) if sampler is None else sampler
    chosen = SAMPLERS[name]
    sources = ["nodes", "in_order", "repeated", *(["labelled", "pairs"] if chosen.keeps_seeds else [])]
    if chosen.of_pairs:
        sources = ["pairs"]
    elif name != "saint_walk":  # which needs batches of one size
        sources += ["budget"] if ranks else ["budget", "node_source"]
    # Within a boundary a hop takes the edges among all nodes of a batch, so it needs more than rows of single nodes.
    if name == "in_subgraph" and (together or not ranks) and not by_row:
        sources += ["clusters", "global"]
    source = draw(st.sampled_from(sources))
    fetches = draw(st.booleans()) if node is None else node
    labels = source not in ("labelled", "pairs") and draw(st.booleans())
    edge = chosen.edge_ids and draw(st.booleans())
    choices = ["transform", "prefetch", "prefetch_lazily", "prefetch_nothing", "copy_to"]
    if not ranks and not together and not by_row and name != "none" and source != "node_source":
        choices.append("pad")
    tail = draw(st.lists(st.sampled_from([*choices, *(["transform_x"] if fetches else [])]), max_size=2, unique=True))
    converts = not together and chosen.edge_ids and name != "none" and "pad" not in tail
    if converts and draw(st.booleans()):
        tail.append("to_pyg")
    return RandomPlan(source, name, fetches, labels, edge, draw(st.booleans()), tuple(tail))


def digest(batch: object) -> str:
    """A fingerprint of every bit of a minibatch, or of what it was converted to."""
    if isinstance(batch, hr.MiniBatch):
        return batch.digest()
    state = hashlib.sha256()
    for name, value in sorted(batch.to_dict().items()):
        rows = torch.as_tensor(value)
        state.update(f"{name} {rows.dtype} {tuple(rows.shape)} ".encode())
        state.update(rows.contiguous().numpy().tobytes())
    return state.hexdigest()
