"""Fetching features: rows of a store for the nodes and edges of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, GraphView, edge_types_of, is_name, node_types_of
from headrace.pipeline.data.feature_names import LabelNames, seeds_of_others
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan import PlanError, Runner, RunSettings, SourceStage, Stage, graphs_of, verb
from headrace.pipeline.plan.checks import check_shards_of_edges, check_shards_of_types, graphs_of_edges
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.wanted import Wanted


@verb("fetch_feature")
@dataclass(frozen=True, eq=False, repr=False)
class FetchFeature(FetchStage):
    """Read feature rows for the nodes (``batch.node``, ``batch.x``), edges (``batch.edge``) and seeds (``batch.y``).

    Parameters
    ----------
    store
        Where the features are.
    node
        Names of node features to read for every node of the batch, in the order of ``batch.n_id``. In a graph with
        types, names by node type, ``node={"paper": ["x"], "author": ["x"]}``: ``batch.node["paper", "x"]`` has a row
        for each paper of the batch, in the order of ``batch.n_id``.
    edge
        Names of edge features to read for every sampled edge, one tensor per block, with a row for each edge of the
        block. The rows of the feature itself are in input edge order. In a graph with types, names by edge type, with a
        row for each edge of ``block.relation(edge_type)``.
    labels
        Name of the node feature to read for the seeds only, into ``batch.y``. It is refused if the items have labels.
        Labels that are fetched by ``node=["y"]`` are in ``batch.node["y"]``, for all nodes, and ``batch.y`` is None.
        If seeds are nodes of one type, ``labels={"paper": "y"}``. For seeds of several types, ``labels={"paper": "y",
        "author": "z"}``: ``batch.y`` is then a dictionary, and ``batch.y["paper"]`` has a row for each seed that is a
        paper, in the order of ``batch.seeds``.
    dtype
        The dtype of all rows but labels: float16, bfloat16, float32 or float64. Features may be stored in fewer bytes,
        as float16 or bfloat16, or as codes with a scale (`hr.QuantizedFeature`). Rows are decoded as the batch is made:
        files, caches, tiers and exchanges between ranks hold the stored bytes. By default rows are as stored.

    Raises
    ------
    InputError
        For a name that the store does not have (the message lists the names of the store), or no name at all; for a
        dtype that cannot hold a feature, and for codes without a dtype.
    PlanError
        If batches already have labels, and ``labels`` names a feature.
    """

    store: FeatureStore
    node: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    edge: tuple[FeatureName, ...] = field(default=(), kw_only=True)
    labels: LabelNames | None = field(default=None, kw_only=True)  # a dictionary of one entry is a name
    dtype: torch.dtype | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.store, FeatureStore):
            raise InputError(
                "fetch_feature: expected the first argument to be an hr.FeatureStore, got "
                f"{type(self.store).__name__}; "
                "hr.FeatureStore(node={'x': x}, edge={'w': w}) makes one of tensors and arrays"
            )
        object.__setattr__(self, "node", _names("node", self.node))
        object.__setattr__(self, "edge", _names("edge", self.edge))
        object.__setattr__(self, "labels", _label(self.labels))
        object.__setattr__(
            self, "wanted", Wanted(self.store, node=self.node, edge=self.edge, labels=self.labels, dtype=self.dtype)
        )  # no field: it says the same
        if not self.wanted:
            raise InputError("fetch_feature: expected at least one feature, got none; pass node=['x'] or labels='y'")
        self.wanted.sources()  # refuses names that there are not
        if self.dtype is not None and not isinstance(self.dtype, torch.dtype):
            raise InputError(
                f"fetch_feature: expected dtype to be a dtype of torch, got {self.dtype!r}; pass dtype=torch.float32"
            )
        if self.dtype is not None and not self.node and not self.edge:
            raise InputError(
                "fetch_feature: expected node or edge features for dtype=, got labels alone, which are never decoded; "
                "leave it out"
            )
        self.wanted.check_dtype()

    def decisive(self) -> dict[str, Any]:
        return self.wanted.decisive()

    def check(self, before: tuple[Stage, ...]) -> None:
        if self.edge and any(getattr(stage, "edge_ids", True) is False for stage in before):
            raise PlanError("fetch_feature: edge features need edge ids; pass edge_ids=True to the sampler")
        labels = self.wanted.of_seeds
        graphs = [graph for _, graph in graphs_of(before)]
        plain = tuple(name for name in labels if isinstance(name, str))
        longest = max((self.store.node[name].num_rows for name in plain), default=0)
        typed = [name for name in (*self.node, *self.edge, *labels) if not isinstance(name, str)]
        if typed and not any(graph.is_typed for graph in graphs):
            raise PlanError(
                f"fetch_feature: expected a sampler of a graph with types before, for {typed[0]!r}, got none"
            )
        for graph in graphs:
            self.store.check(
                node=(*self.node, *(name for name in labels if not isinstance(name, str))),
                num_nodes=graph.num_nodes,
                types=(node_types_of(graph), edge_types_of(graph)),
            )
            check_shards_of_types(self.store, self.node, node_types_of(graph))
            # Labels may end after the last seed, but labels of a larger graph belong to other nodes.
            self.store.check(node=plain if longest > graph.num_nodes else (), num_nodes=graph.num_nodes)
        for graph in graphs_of_edges(before):
            types = (node_types_of(graph), edge_types_of(graph))
            self.store.check(edge=self.edge, num_nodes=graph.num_nodes, num_edges=graph.num_edges, types=types)
            check_shards_of_edges(self.store, self.edge, edge_types_of(graph))
        source = before[0]
        fetched = any(stage.wants is not None and stage.wants.labels is not None for stage in before)
        if labels and (fetched or (isinstance(source, SourceStage) and source.gives_labels)):
            raise self.wanted.labels_twice()
        others = [stage for stage in before[1:] if "seeds" in stage.writes]
        pairs = isinstance(source, SourceStage) and source.gives_pairs
        if labels and pairs and all("num_positives" in stage.writes for stage in others):
            raise PlanError("fetch_feature: labels are rows of seed nodes, but the seeds are pairs: sample (pairs, y)")
        if isinstance(self.labels, tuple | Mapping) and isinstance(source, SourceStage) and not others:
            self._check_seeds_have_labels(source, graphs)
        if others:  # any node of the graph may be a seed then
            for graph in graphs:
                self.store.check(node=plain, num_nodes=graph.num_nodes)
        elif isinstance(source, SourceStage) and source.largest_id is not None:
            reached = source.largest_id + 1
            reading = plain if graphs else (*self.node, *plain)
            self.store.check(node=reading, num_nodes=reached, all_nodes=False)

    def _check_seeds_have_labels(self, source: SourceStage, graphs: list[GraphView]) -> None:
        """Refuse seeds of other types, as far as all are known."""
        assert self.labels is not None
        seeds = source.all_seeds()
        types = [name[0] for name in self.wanted.of_seeds]
        if any(name not in types for name in source.seed_types):
            raise seeds_of_others(self.labels)
        for known in (node_types_of(graph) for graph in graphs if graph.is_typed):
            if seeds is None:
                continue
            ranges = [known.id_range(name) for name in types]
            of_one = torch.stack([(seeds >= nodes.start) & (seeds < nodes.stop) for nodes in ranges])
            if not bool(of_one.any(0).all()):
                raise seeds_of_others(self.labels)

    def runner(self, settings: RunSettings) -> Runner:
        return self.fetching_here(settings)

    def wanting(self, wanted: Wanted) -> FetchFeature:
        dtype = wanted.dtype if wanted.fetches else None
        return replace(self, store=wanted.store, node=wanted.node, edge=wanted.edge, labels=wanted.labels, dtype=dtype)

    def rest(self, taken: Wanted) -> tuple[FetchFeature, ...]:
        """Return the stage for the features that other stages do not fetch, or nothing if they fetch all."""
        left = self.wanted.without(taken)
        return (self.wanting(left),) if left else ()


def _label(labels: Any) -> LabelNames | None:
    if isinstance(labels, Mapping) and len(labels) == 1:
        labels = next(iter(labels.items()))
    if isinstance(labels, Mapping) and labels and all(map(is_name, labels.items())):
        return dict(labels)
    if labels is not None and not is_name(labels):
        came = f"{len(labels)} of them" if isinstance(labels, Mapping) else type(labels).__name__
        raise InputError(
            f"fetch_feature: expected labels to be the name of one node feature, or of one for each type, got {came}"
        )
    return labels  # type: ignore[no-any-return] # it is a name


def _names(kind: str, names: Any) -> tuple[FeatureName, ...]:
    if not isinstance(names, Iterable) or isinstance(names, Tensor):
        raise InputError(
            f"fetch_feature: expected {kind} to be a list of feature names, got {type(names).__name__}; pass "
            f'{kind}=["x"], names that are in the store'
        )
    if isinstance(names, str):
        return (names,)
    listed: tuple[FeatureName, ...]
    if isinstance(names, Mapping):
        if any(isinstance(some, Mapping) for some in names.values()):
            raise InputError(
                f"fetch_feature: expected {kind} to list feature names for each type, got dictionaries in one; "
                f'pass {kind}={{"paper": ["x"]}}'
            )
        listed = tuple((of_type, str(name)) for of_type, some in names.items() for name in _names(kind, some))
    else:
        listed = tuple(names)
    if not all(map(is_name, listed)):
        raise InputError(f"fetch_feature: expected {kind} to be a list of feature names, got {type(names).__name__}")
    twice = next((name for place, name in enumerate(listed) if name in listed[:place]), None)
    if twice is not None:
        raise InputError(f"fetch_feature: expected {kind} to name each feature once, got {twice!r} twice; name it once")
    return listed
