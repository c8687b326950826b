"""Links with their negatives: what a plan says of them, and PyG's metadata of what it samples."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.sampler.base import NegativeSampling, SubgraphType

from headrace.pipeline.compat.pyg.graph import EdgeType
from headrace.pipeline.data import Graph, argument
from headrace.pipeline.data.arrays import as_number
from headrace.pipeline.lowered._excluded import seed_edges
from headrace.pipeline.plan import InputError, Plan


def check_negatives(sampling: Any, ratio: Any) -> None:
    """Refuse what PyG makes no ``NegativeSampling`` of.

    Raises
    ------
    InputError
        Naming the argument.
    """
    number = 0.0 if ratio is None else as_number(ratio)
    if number is None or not 0 <= number < math.inf:
        raise InputError(
            f"LinkNeighborLoader: expected neg_sampling_ratio to be a number of at least 0, got {ratio!r}; pass the "
            "negatives for each link"
        )
    try:
        NegativeSampling.cast(sampling)
    except Exception as cause:  # PyG's own are of many kinds
        raise InputError(
            'LinkNeighborLoader: expected neg_sampling to be "binary", "triplet" or a NegativeSampling of PyG, got '
            f"{sampling!r}: {cause}"
        ) from cause


def with_negatives(
    plan: Plan, graph: Graph, sampling: Any, edge_type: EdgeType | None, time_attr: str | None = None
) -> Plan:
    """Return a plan of pairs that adds negatives to them, as PyG's ``NegativeSampling`` says; None adds none.

    Where nodes have times under the name `time_attr`, no negative is later than its link.

    Raises
    ------
    InputError
        For weights of another number than the nodes of their end.
    """
    if sampling is None:
        return plan
    time = time_attr if time_attr in graph.node_attrs else None
    given = {"src_weight": sampling.src_weight, "dst_weight": sampling.dst_weight}
    if sampling.is_triplet():
        del given["src_weight"]
        weight = None if sampling.dst_weight is None else _node_weight(graph, "dst", sampling.dst_weight, edge_type)
        drawn = plan.sample_uniform_negative(
            graph, math.ceil(sampling.amount), mode="triplet", node_weight=weight, time=time
        )
    else:
        weights: dict[str, Any] = {}
        if sampling.src_weight is not None or sampling.dst_weight is not None:
            weights["source_weight"] = _node_weight(graph, "src", sampling.src_weight, edge_type)
            weights["node_weight"] = _node_weight(graph, "dst", sampling.dst_weight, edge_type)
        drawn = plan.sample_uniform_negative(
            graph, sampling.amount, mode="binary", corrupt="both", time=time, **weights
        )
    for name, array in given.items():  # the stage has copies, by all nodes
        if array is not None:
            drawn.stages[-1].keep_seen(argument("LinkNeighborLoader", name, array))
    return drawn


def without_seed_edges(plan: Plan, exclude: Any, per: Literal["batch", "seed"] = "batch") -> Plan:
    """Return a plan of pairs whose sampler leaves out their edges.

    Parameters
    ----------
    plan
        The plan up to the pairs.
    exclude
        False for none; True for the edges themselves; "reverse" for those and the ones back; or a dictionary
        ``{edge_type: reverse_type}``.
    per
        Whether those of all links of a batch are left out, or in each tree those of its own.

    Raises
    ------
    InputError
        For another value, and "seed" where nothing is left out.
    """
    if exclude is False:
        if per != "batch":
            raise InputError(
                f"LinkNeighborLoader: expected exclude_seed_edges beside exclude_per={per!r}, got False; pass True or "
                '"reverse"'
            )
        return plan
    if exclude is True or isinstance(exclude, dict):
        return plan.exclude_seed_edges(reverse=exclude if isinstance(exclude, dict) else False, per=per)
    if exclude == "reverse":
        return plan.exclude_seed_edges(reverse=True, per=per)
    raise InputError(
        'LinkNeighborLoader: expected exclude_seed_edges to be True, False, "reverse" or {edge_type: reverse_type}, '
        f"got {exclude!r}"
    )


def check_exclusion(exclude: Any, kind: Any, graph: Graph, edge_type: EdgeType | None) -> None:
    """Refuse an exclusion that would not hold of the batches.

    Parameters
    ----------
    exclude
        As for `without_seed_edges`.
    kind
        The ``SubgraphType`` or its name.
    graph
        The graph that is sampled.
    edge_type
        Of the links, where there are types.

    Raises
    ------
    InputError
        For links of a type that it does not name, and edges back that stay and are turned around.
    """
    if exclude is True and SubgraphType(kind) == SubgraphType.bidirectional:
        raise InputError(
            'LinkNeighborLoader: expected exclude_seed_edges="reverse" with subgraph_type="bidirectional", got True; '
            "an edge back that is turned around would be the link that is left out"
        )
    if not isinstance(exclude, dict) or edge_type is None:
        return
    edges = seed_edges(exclude)
    edges.check(graph)
    if not edges.names(graph, edge_type):
        raise InputError(
            f"LinkNeighborLoader: expected the edge type of the links, {edge_type}, among the keys of "
            f"exclude_seed_edges, got {list(exclude)}"
        )


def link_metadata(links: Any, rows: Tensor, sampling: Any, times: Tensor | None) -> tuple[Any, ...]:
    """Return what PyG's link loaders take as the metadata of a ``SamplerOutput``.

    Parameters
    ----------
    links
        The positive links of the batch, an ``EdgeSamplerInput``.
    rows: int64[num_links, 2], or int64[num_links, 2 + amount]
        Rows of the ends of the links and of their negatives, or of triplets.
    sampling
        The ``NegativeSampling``, or None.
    times: [num_links]
        When each link is asked for, negatives included; None where times do not count.
    """
    if sampling is not None and sampling.is_triplet():
        source, positive, *negatives = rows.unbind(1)
        negative = torch.stack(negatives, 1) if len(negatives) > 1 else negatives[0]
        return links.input_id, source, positive, negative, times
    label = links.label
    if sampling is not None:
        # The loader of PyG has moved labels that begin at 0 up by one.
        label = torch.ones(len(links.row), device="cpu") if label is None else label
        label = torch.cat([label, label.new_zeros(len(rows) - len(label), *label.shape[1:])])
    return links.input_id, rows.t().contiguous(), label, times


def _node_weight(graph: Graph, end: Literal["src", "dst"], weight: Tensor | None, edge_type: EdgeType | None) -> Tensor:
    """Return how likely each node of the graph is drawn at one end; all alike where nobody says it."""
    flat = torch.ones(graph.num_nodes, dtype=torch.float64, device="cpu")
    if weight is None:
        return flat
    name = None if edge_type is None else edge_type[0 if end == "src" else -1]
    typed = name is not None and graph.node_types is not None
    places = graph.node_types.id_range(name) if typed else range(graph.num_nodes)  # type: ignore[union-attr,arg-type]
    if weight.shape != (len(places),):
        shape = len(weight) if weight.ndim == 1 else f"shape {list(weight.shape)}"
        raise InputError(f"LinkNeighborLoader: expected {end}_weight for each of {len(places)} nodes, got {shape}")
    flat[places.start : places.stop] = weight.double().cpu()
    return flat
