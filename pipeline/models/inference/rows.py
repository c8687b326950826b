"""Rows of nodes between layers, in one source or one for each node type, and the batches that fetch them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.checks import as_list
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.data.narrow_dtypes import put_rows
from headrace.pipeline.data.types import TypeName, type_number
from headrace.pipeline.run.loader import Loader
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.wanted import Wanted

#: The name under which a batch has the rows that a layer takes.
ROWS = "h"

#: A node type; None for all nodes of a graph without types.
Kind: TypeAlias = TypeName | None


@dataclass(frozen=True)
class Rows:
    """What a layer takes.

    Parameters
    ----------
    sources
        Rows of the nodes of each type, or of all nodes under None.
    by_type
        Whether layers get a dictionary by type; otherwise one tensor, a row for each source of the block.
    """

    sources: Mapping[Kind, FeatureSource]
    by_type: bool

    def features(self) -> dict[FeatureName, FeatureSource]:
        """Return the sources under the names that a plan fetches them by."""
        return {ROWS if kind is None else (kind, ROWS): source for kind, source in self.sources.items()}

    def of(self, batch: MiniBatch) -> Tensor | dict[TypeName, Tensor]:
        """Return the rows of the sources of a batch, as its layer takes them."""
        if None in self.sources:
            return batch.node[ROWS]
        rows = {kind: batch.node[kind, ROWS] for kind in self.sources if kind is not None}
        return rows if self.by_type else joined(rows, batch)


def joined(rows: Mapping[TypeName, Tensor], batch: MiniBatch) -> Tensor:
    """Return rows by type as one tensor, a row for each of the batch's nodes; of all types they are alike."""
    assert batch.types is not None
    some = next(iter(rows.values()))
    h = some.new_empty(len(batch.n_id), *some.shape[1:])
    for kind, of_kind in rows.items():
        put_rows(h, batch.types.places(kind), of_kind)
    return h


def input_rows(graph: Graph, store: FeatureStore, node: str | Mapping[str, str]) -> Rows:
    """Return the features that are the input of the first layer.

    Raises
    ------
    InputError
        If the store lacks one, or it is not as long as the graph.
        If there is no such node type.
        If features are named by type, and the graph has none.
    """
    if isinstance(node, Mapping):
        if not graph.is_typed:
            raise InputError(f"inference: expected the name of a node feature for {graph!r}, got names by type {node}")
        if not node:
            raise InputError("inference: expected the names of node features by type, got none; node={'paper': 'x'}")
        names: dict[Kind, FeatureName] = {kind: (kind, name) for kind, name in node.items()}
    elif graph.is_typed and node not in store.node:
        kinds = [kind for kind in node_types_of(graph).names if (kind, node) in store.node]
        if not kinds:
            raise InputError(
                f"inference: there is no node feature {node!r}, neither of all nodes nor of one of the types "
                f"{list(node_types_of(graph).names)}; those that exist are {sorted(store.node, key=str)}"
            )
        names = {kind: (kind, node) for kind in kinds}
    else:
        names = {None: node}
    store.check(node=list(names.values()), num_nodes=graph.num_nodes, types=_types(graph), stage="inference")
    return Rows({kind: store.node[name] for kind, name in names.items()}, by_type=None not in names)


def edge_features(graph: Graph, store: FeatureStore, edge: Any) -> tuple[FeatureName, ...]:
    """Return the names of the edge features that layers are called with; those of a type with its whole name.

    Raises
    ------
    InputError
        If the store lacks one, or it is not as long as the graph.
        If there is no such edge type.
        If features are named by type, and the graph has none, or if layers could not tell apart what two names give.
    """
    names: tuple[FeatureName, ...]
    if isinstance(edge, Mapping):
        if not graph.is_typed:
            raise InputError(f"inference: expected names of edge features for {graph!r}, got names by type {edge}")
        lists = {kind: (some,) if isinstance(some, str) else tuple(some) for kind, some in edge.items()}
        names = tuple((kind, name) for kind, some in lists.items() for name in some)
    else:
        names = (edge,) if isinstance(edge, str) else tuple(as_list(edge, "inference: edge", "names of edge features"))
    store.check(edge=names, num_edges=graph.num_edges, types=_types(graph), stage="inference")
    _check_one_argument_each(graph, names)
    return names


def _check_one_argument_each(graph: Graph, names: tuple[FeatureName, ...]) -> None:
    """Refuse names of which one would take the place of another among a layer's arguments."""
    known: dict[tuple[str, int | None], FeatureName] = {}
    of_all = {name for name in names if isinstance(name, str)}
    for name in names:
        if isinstance(name, str):
            key: tuple[str, int | None] = name, None
        else:
            key = name[1], type_number(edge_types_of(graph), name[0])
            if name[1] in of_all:
                raise InputError(
                    f"inference: expected edge features {name[1]!r} of all edges or of edge types, got both, "
                    f"{name[1]!r} and {name!r}, which are one argument of a layer; name one of them, or give one "
                    "another name in the store"
                )
        if key in known:
            raise InputError(f"inference: expected each edge feature once, got {known[key]!r} and {name!r}; name one")
        known[key] = name


def edge_arguments(batch: MiniBatch, names: tuple[FeatureName, ...]) -> list[Any]:
    """Return the features of a batch's edges in the order of their names; those of types in dictionaries."""
    arguments: dict[str, Any] = {}
    for name in names:
        rows = batch.edge[name][0]
        if isinstance(name, str):
            arguments[name] = rows
            continue
        assert batch.types is not None
        edge_types = batch.types.edge_types
        arguments.setdefault(name[1], {})[edge_types.names[type_number(edge_types, name[0])]] = rows
    return list(arguments.values())


def all_nodes(graph: Graph) -> dict[Kind, ItemSet]:
    """Return all nodes of each type that has some, or of the graph under None."""
    if not graph.is_typed:
        return {None: ItemSet.of(graph.num_nodes)}
    types = node_types_of(graph)
    ranges = {kind: types.id_range(kind) for kind in types.names}
    return {kind: ItemSet.of(ids) for kind, ids in ranges.items() if len(ids)}


def named_nodes(graph: Graph, nodes: Any) -> dict[Kind, ItemSet]:
    """Return the nodes that rows are asked for, by type if the graph has types; plain ones will do of a single type.

    Raises
    ------
    InputError
        For pairs, for labels, and where nodes are to be named by type.
        For what are no nodes of the graph.
    """
    if nodes is None:
        return all_nodes(graph)
    if not graph.is_typed:
        return {None: _only_ids(ItemSet.of(nodes, allow_none=True))}
    if graph.node_types is None and not isinstance(nodes, Mapping):
        (kind,) = node_types_of(graph).names
        nodes = {kind: nodes}
    if not isinstance(nodes, Mapping) or not nodes:
        raise InputError(
            f"inference: expected nodes by type for {graph!r}, got {type(nodes).__name__}; pass {{'paper': ids}}, ids "
            "as they count within the type"
        )
    types = node_types_of(graph), edge_types_of(graph)
    return {kind: _only_ids(ItemSet.of({kind: ids}, allow_none=True)).in_space(*types) for kind, ids in nodes.items()}


def _only_ids(items: ItemSet) -> ItemSet:
    if items.are_pairs or items.labels is not None:
        raise InputError(f"inference: expected ids or a mask of nodes, got {'pairs' if items.are_pairs else 'labels'}")
    return items


def _types(graph: Graph) -> Any:
    return (node_types_of(graph), edge_types_of(graph)) if graph.is_typed else None


@dataclass(frozen=True)
class Batches:
    """How batches are made, which is the same for every layer.

    Parameters
    ----------
    graph
        Whose in-edges are taken.
    store
        Has the features of edges.
    edge
        Their names.
    batch_size
        Destinations in a batch.
    device
        Where layers run.
    num_threads
        Of the loader.
    """

    graph: Graph
    store: FeatureStore
    edge: tuple[FeatureName, ...]
    batch_size: int
    device: torch.device
    num_threads: int | None

    def loader(self, items: Any, rows: Rows) -> Loader:
        """Return the loader of the batches of these nodes, in their order, with the `rows` of their sources."""
        features = rows.features()
        inputs = FeatureStore(node=features, edge={name: self.store.edge[name] for name in self.edge})
        nodes = ItemSampler(items, batch_size=self.batch_size, seed=0)  # nothing is drawn
        plan = nodes.sample_in_subgraph(self.graph)
        wanted = Wanted(inputs, node=tuple(features), edge=self.edge)
        codes = wanted.only(lambda source: source.quantization is not None)
        for some, dtype in ((codes, torch.float32), (wanted.without(codes), None)):
            if some:
                plan = plan.fetch_feature(inputs, node=some.node, edge=some.edge, dtype=dtype)
        if self.device.type != "cpu":
            plan = plan.copy_to(str(self.device))
        # Whole in this process: under torch.distributed a loader would take a rank's share.
        return plan.loader(num_threads=self.num_threads, rank=0, world_size=1)

    def one(self, nodes: list[int], rows: Rows) -> MiniBatch:
        """Return the batch of a few nodes."""
        with replace(self, batch_size=len(nodes)).loader(nodes, rows) as loader:
            return next(iter(loader))
