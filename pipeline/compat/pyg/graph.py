"""The graph of a PyG object: what its loaders sample from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, remote_backend_utils
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.index import ptr2index
from torch_geometric.sampler.base import DataType
from torch_geometric.utils import is_sparse

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.compat.pyg.adjacency import MATRICES, edges_of, matrix_of, warn_of_other_edges
from headrace.pipeline.compat.pyg.attributes import column
from headrace.pipeline.compat.pyg.kept_graphs import AskedGraph
from headrace.pipeline.data.build_graph import check_has_nodes, graph_of_ends, joined_ends
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.times import EARLIEST
from headrace.pipeline.data.type_attributes import ALWAYS, join_attributes

EdgeType = tuple[str, str, str]


def kind_of(data: Any) -> DataType:
    """Return what came: a ``Data``, a ``HeteroData``, or a (FeatureStore, GraphStore).

    Raises
    ------
    InputError
        If it is none of them.
    """
    try:
        return DataType.from_data(data)
    except ValueError:
        raise InputError(
            f"headrace.pyg: expected a Data, a HeteroData or a tuple (FeatureStore, GraphStore), got "
            f"{type(data).__name__}"
        ) from None


def check_is_data(data: Any, loader: str) -> None:
    """Refuse data of several types, and stores.

    Raises
    ------
    InputError
        Naming the loader.
    """
    if kind_of(data) != DataType.homogeneous:
        raise InputError(
            f"{loader}: expected a Data, got a {type(data).__name__}; data.to_homogeneous() makes one of several types"
        )


def graph_of(data: Any, weight_attr: str | None = None, time_attr: str | None = None) -> Graph:
    """Return the graph of a ``Data``, a ``HeteroData`` or a (FeatureStore, GraphStore).

    Edges keep their ids: those of ``edge_index``, whatever its order, and of several types one type after the other,
    as nodes do.

    Parameters
    ----------
    data
        The object of PyG.
    weight_attr
        The edge attribute that sampling goes by. Edges of types without it count alike.
    time_attr
        The times of nodes or edges that bound sampling. What is of a type without them has always been there.

    Raises
    ------
    InputError
        If the object has no edges in a form that can be read, or lacks an attribute.
    """
    kind = kind_of(data)
    if kind == DataType.homogeneous:
        return _graph_of_data(data, weight_attr, time_attr)
    if kind == DataType.heterogeneous:
        return _graph_of_hetero_data(data, weight_attr, time_attr)
    if weight_attr is not None:
        raise InputError("headrace.pyg: expected no weight_attr for a (FeatureStore, GraphStore), as PyG, got one")
    feature_store, graph_store = data
    return _graph_of_stores(feature_store, graph_store, time_attr)


def _graph_of_data(data: Data, weight_attr: str | None, time_attr: str | None) -> Graph:
    num_nodes = int(data.num_nodes or 0)
    store = data._store  # noqa: SLF001 - PyG's own way to an attribute by its name
    of_edges: dict[str, Tensor] = {}
    of_nodes: dict[str, Tensor] = {}
    if weight_attr is not None:
        if weight_attr not in store:
            raise _missing("weight_attr", "an edge attribute", weight_attr, _edge_attrs(store))
        counts = {"edges": data.num_edges}
        of_edges[weight_attr] = column(store[weight_attr], f"data.{weight_attr}", "weight_attr", counts)
    if time_attr is not None:
        if time_attr not in store:
            there = [*data.node_attrs(), *_edge_attrs(store)]
            raise _missing("time_attr", "an attribute of nodes or edges", time_attr, there)
        counts = {"nodes": num_nodes, "edges": data.num_edges}
        times = column(store[time_attr], f"data.{time_attr}", "time_attr", counts)
        (of_nodes if data.is_node_attr(time_attr) else of_edges)[time_attr] = times
    warn_of_other_edges(store, "data")
    if store.get("edge_index") is None and matrix_of(store) is None:
        warn_user(
            "headrace.pyg: expected data.edge_index or data.adj_t, got neither, so batches hold their seeds alone, "
            "for any num_neighbors; assign one of them, edges of shape [2, 0] where there are none",
        )

    def structure() -> Graph:
        nothing = torch.empty(0, dtype=torch.int64, device="cpu")
        source, destination = edges_of(store) or (nothing, nothing)
        return Graph.from_coo(source, destination, num_nodes=num_nodes)

    edges = AskedGraph(data, [num_nodes, *_edges_in([store])], structure)
    return edges.with_attributes((weight_attr, time_attr), [store], lambda: (of_edges, of_nodes))


def _edges_in(stores: Iterable[Any]) -> list[Any]:
    """Return what says the edges of stores of PyG."""
    return [one for store in stores for one in (store._key, *map(store.get, ("edge_index", *MATRICES)))]  # noqa: SLF001


@dataclass(frozen=True)
class _Relation:
    """The edges of one type, in ids that count within the types of their ends, with some attributes."""

    name: EdgeType
    source: Tensor
    destination: Tensor
    attributes: Mapping[str, Tensor] = field(default_factory=dict)


def _graph_of_hetero_data(data: HeteroData, weight_attr: str | None, time_attr: str | None) -> Graph:
    sizes = _sizes_of(data)
    if weight_attr is not None and not any(weight_attr in store for store in data.edge_stores):
        there = {name for store in data.edge_stores for name in _edge_attrs(store)}
        raise _missing("weight_attr", "an edge attribute", weight_attr, there)
    relations = []
    for name, store in data.edge_items():
        warn_of_other_edges(store, f"data[{name}]")
        edges = edges_of(store)
        if edges is None:
            raise InputError(
                f"headrace.pyg: expected edge_index or adj_t of edge type {name}, got neither; set "
                f"data[{name}].edge_index"
            )
        source, destination = edges
        attributes = {
            one: column(store[one], f"data[{name}].{one}", argument, {"edges": len(source)})
            for one, argument in ((weight_attr, "weight_attr"), (time_attr, "time_attr"))
            if one and one in store
        }
        relations.append(_Relation(name, source, destination, attributes))
    times = {
        name: column(data[name][time_attr], f"data[{name!r}].{time_attr}", "time_attr", {"nodes": size})
        for name, size in sizes.items()
        if time_attr is not None and time_attr in data[name]
    }
    asked = weight_attr, time_attr
    return _joined(data, _edges_in(data.edge_stores), data.stores, sizes, lambda: relations, times, asked)


def _edge_attrs(store: Any) -> list[str]:
    """Return the names of attributes of edges; what PyG says of them fails of sparse matrices."""
    return [
        name
        for name, value in store.items()
        if name != "edge_index" and not is_sparse(value) and store.is_edge_attr(name)
    ]


def _sizes_of(data: HeteroData) -> dict[str, int]:
    """Return the number of nodes of each type."""
    sizes = {}
    for name in data.node_types:
        size = data[name].num_nodes
        if size is None:
            raise InputError(
                f"headrace.pyg: expected a number of nodes of type {name!r}, got none; set data[{name!r}].num_nodes"
            )
        sizes[name] = int(size)
    missing = {end for source, _, destination in data.edge_types for end in (source, destination)} - sizes.keys()
    if missing:
        raise InputError(f"headrace.pyg: edges lead to node types that data does not have: {sorted(missing)}")
    return sizes


def _joined(
    owner: Any,
    inputs: Sequence[Any],
    stores: Iterable[Any],
    sizes: Mapping[str, int],
    relations: Callable[[], Sequence[_Relation]],
    times: Mapping[str, Tensor],
    asked: tuple[str | None, str | None],
) -> Graph:
    """Return one graph of all types.

    Parameters
    ----------
    owner, inputs
        What keeps the graph, and what its edges are made of; see `AskedGraph`.
    stores
        What has attributes.
    sizes
        The number of nodes of each type.
    relations
        Returns the edges of all types.
    times
        Those of nodes, by type.
    asked
        The names of weights and times.
    """
    weight_attr, time_attr = asked

    def structure() -> Graph:
        types = relations()
        offsets, end = {}, 0
        for name, size in sizes.items():
            offsets[name], end = end, end + size
        for one in types:
            for ids, node_type in ((one.source, one.name[0]), (one.destination, one.name[2])):
                if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < sizes[node_type]:
                    raise InputError(
                        f"headrace.pyg: edges {one.name} have ids of {node_type!r} from {int(ids.min())} to "
                        f"{int(ids.max())}, expected ids below {sizes[node_type]}"
                    )
        ends = ((one.source, one.destination, offsets[one.name[0]], offsets[one.name[2]]) for one in types)
        check_has_nodes(end)
        edge_types = {one.name: len(one.source) for one in types}
        return graph_of_ends(Graph, joined_ends(ends), end, node_types=sizes, edge_types=edge_types)

    def attributes() -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        by_edges = {one.name: one.attributes for one in relations()}
        by_nodes = {name: {time_attr: times[name]} if name in times else {} for name in sizes}
        edge_sizes = [len(one.source) for one in relations()]
        of_edges = {} if weight_attr is None else _of_types(by_edges, edge_sizes, weight_attr, 1, "edge")
        of_nodes = {}
        if time_attr is not None:
            of_edges |= _of_types(by_edges, edge_sizes, time_attr, ALWAYS, "edge")
            of_nodes = _of_types(by_nodes, list(sizes.values()), time_attr, ALWAYS, "node")
            if time_attr not in of_edges and not of_nodes:
                raise _missing("time_attr", "an attribute of nodes or edges", time_attr, [])
        return of_edges, of_nodes

    edges = AskedGraph(owner, [*sizes.items(), *inputs], structure, list(times.values()))
    return edges.with_attributes(asked, stores, attributes)


def _of_types(
    of_types: Mapping[Any, Mapping[Any, Tensor]], sizes: Sequence[int], name: str, fill: float, what: str
) -> dict[str, Tensor]:
    """Return an attribute of all types, `fill` for those that have none; nothing where no type has it."""
    if not any(name in attributes for attributes in of_types.values()):
        return {}
    there = [attributes[name].dtype for attributes in of_types.values() if name in attributes]
    if fill == ALWAYS or len(set(there)) == 1:
        return join_attributes(of_types, sizes, {name: fill}, what, "headrace.pyg")
    same = {one: {name: given[name].double()} if name in given else {} for one, given in of_types.items()}
    return join_attributes(same, sizes, {name: fill}, what, "headrace.pyg")


def earliest(dtype: torch.dtype) -> float:
    """Return the time of what has none: that of what has always been there."""
    return ALWAYS if dtype.is_floating_point else EARLIEST


def _graph_of_stores(feature_store: Any, graph_store: Any, time_attr: str | None) -> Graph:
    attributes = edge_attributes(graph_store)
    if not attributes:
        raise InputError("headrace.pyg: expected a GraphStore with edges, got one without")
    kept = {name: graph_store.get_edge_index(one) for name, one in attributes.items()}
    inputs = [part for name, one in attributes.items() for part in (name, one.layout.value, *kept[name])]
    edges = cache(lambda: {name: _coo(one, kept[name]) for name, one in attributes.items()})
    tensors = feature_store.get_all_tensor_attrs()
    given = {}
    for one in tensors:
        if time_attr is not None and one.attr_name == time_attr:
            whole = copy.copy(one)
            whole.index = None
            given[one.group_name] = feature_store.get_tensor(whole)
    if time_attr is not None and not given:
        raise _missing("time_attr", "a tensor", time_attr, {one.attr_name for one in tensors})
    times = {name: torch.as_tensor(one, device="cpu") for name, one in given.items()}
    stores = [{time_attr: one} for one in given.values()]
    if None in attributes:
        num_nodes = num_nodes_of(attributes[None], kept[None])
        # As PyG has it: "time" is that of nodes, all else that of edges.
        known = {} if time_attr is None else {time_attr: next(iter(times.values()))}
        of_types = ({}, known) if time_attr == "time" else (known, {})
        asked = AskedGraph(
            graph_store, [num_nodes, *inputs], lambda: Graph.from_coo(*edges()[None], num_nodes=num_nodes)
        )
        return asked.with_attributes((None, time_attr), stores, lambda: of_types)

    def relations() -> list[_Relation]:
        return [
            _Relation(name, *ends, {str(time_attr): times[name]} if name in times else {})
            for name, ends in edges().items()
            if name is not None
        ]

    sizes = {
        name: int(remote_backend_utils.num_nodes(feature_store, graph_store, name))
        for name in node_types_of_stores(feature_store, graph_store)
    }
    return _joined(graph_store, inputs, stores, sizes, relations, times, (None, time_attr))


def node_types_of_stores(feature_store: Any, graph_store: Any) -> list[str]:
    """Return the node types: the groups of tensors, then the ends of edges of a type."""
    groups = [one.group_name for one in feature_store.get_all_tensor_attrs() if isinstance(one.group_name, str)]
    ends = [end for name in edge_attributes(graph_store) if name is not None for end in (name[0], name[2])]
    return list(dict.fromkeys((*groups, *ends)))


def edge_attributes(graph_store: Any) -> dict[EdgeType | None, Any]:
    """Return for each edge type, None where there are none, how its edges are kept: in what needs the least work."""
    best: dict[EdgeType | None, Any] = {}
    order = (EdgeLayout.CSC, EdgeLayout.COO, EdgeLayout.CSR)
    for one in graph_store.get_all_edge_attrs():
        known = best.get(one.edge_type)
        if known is None or order.index(one.layout) < order.index(known.layout):
            best[one.edge_type] = one
    return best


def num_nodes_of(attribute: Any, ends: tuple[Tensor, Tensor]) -> int:
    """Return how many nodes a graph of a GraphStore says it has, or else those that its edges name.

    Parameters
    ----------
    attribute
        How the edges are kept.
    ends
        The edges as they are kept.
    """
    if attribute.size is not None:
        return int(max(attribute.size))
    starts = {EdgeLayout.CSR: 0, EdgeLayout.CSC: 1}.get(attribute.layout)
    names = [int(end.max()) + 1 for place, end in enumerate(ends) if place != starts and end.numel()]
    rows = [] if starts is None else [len(ends[starts]) - 1]
    return max([*names, *rows], default=0)


def _coo(attribute: Any, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    # PyG's own conversion puts the edges of a node in no fixed order; here it is that of the user's edges.
    source, destination = ends
    source = ptr2index(source) if attribute.layout == EdgeLayout.CSR else source
    destination = ptr2index(destination) if attribute.layout == EdgeLayout.CSC else destination
    return source.cpu(), destination.cpu()


def _missing(argument: str, what: str, name: str, there: Iterable[str]) -> InputError:
    return InputError(
        f"headrace.pyg: expected {argument} to name {what} of data, got {name!r}; there are {sorted(there)}"
    )
