"""What loaders with PyG's names refuse, with what they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

import headrace as hr
from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
    Sampler,
    ShaDowKHopSampler,
)

CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
Refusal = tuple[Callable[..., object], str]


def changed(data: Data, **attributes: object) -> Data:
    for name, value in attributes.items():
        data[name] = value
    return data


def nodes(**options: object) -> Callable[[Data], object]:
    return lambda data: NeighborLoader(data, [2], **options)


def nodes_of_paper(**options: object) -> Callable[[HeteroData], object]:
    return lambda hetero: NeighborLoader(hetero, [2], **{"input_nodes": "paper", **options})


def links(**options: object) -> Callable[[Data], object]:
    return lambda data: LinkNeighborLoader(data, [2], **options)


def timed(call: Callable[[Data], object]) -> Callable[[Data], object]:
    return lambda data: call(changed(data, time=torch.arange(data.num_nodes)))


def ones(*shape: int) -> Tensor:
    return torch.ones(*shape)


OF_DATA: dict[str, Refusal] = {
    **{
        f"weights named {name}": (
            lambda data, name=name: nodes(weight_attr=name)(changed(data, number=3, label=torch.tensor(3.0))),
            f"expected weight_attr to name an edge attribute of data, got '{name}'",
        )
        for name in ("nope", "number", "label")
    },
    "weights of nodes": (nodes(weight_attr="x"), "weight_attr"),
    "names of weights": (
        nodes(weight_attr="w"),
        r"an edge attribute of data, got 'w'; there are \['edge_attr', 'edge_weight'\]",
    ),
    "destinations in a column": (
        links(neg_sampling=NegativeSampling("triplet", 1, dst_weight=ones(120, 1))),
        r"dst_weight for each of 120 nodes, got shape \[120, 1\]",
    ),
    "sources in a column": (
        links(neg_sampling=NegativeSampling("binary", 1, ones(120, 1), ones(120, 1))),
        r"src_weight for each of 120 nodes, got shape \[120, 1\]",
    ),
    "few weights of destinations": (
        links(neg_sampling=NegativeSampling("triplet", 1, dst_weight=ones(7))),
        "dst_weight for each of 120 nodes",
    ),
    "names of times": (
        nodes(time_attr="when"),
        "an attribute of nodes or edges of data, got 'when'; there are",
    ),
    "times without seeds'": (
        lambda data: nodes(time_attr="when")(changed(data, when=torch.arange(700))),
        "expected the times at which seeds are asked for, got none",
    ),
    "times of an induced subgraph": (
        timed(nodes(time_attr="time", subgraph_type="induced")),
        "induced",
    ),
    "few times of seeds": (
        timed(nodes(time_attr="time", input_time=torch.arange(7))),
        "a time for each",
    ),
    "times of seeds alone": (nodes(input_time=torch.arange(120)), "time_attr"),
    "strictly before without times": (
        nodes(strictly_before=True),
        "expected time_attr beside strictly_before=True",
    ),
    "strictly before beside a sampler": (
        lambda data: NeighborLoader(data, None, neighbor_sampler=Sampler(data, [2]), strictly_before=True),
        "expected strictly_before=False beside neighbor_sampler",
    ),
    "strictly before of links beside a sampler": (
        lambda data: LinkNeighborLoader(
            data, None, data.edge_index, neighbor_sampler=Sampler(data, [2]), strictly_before=True
        ),
        "expected strictly_before=False beside neighbor_sampler",
    ),
    "no batch size": (nodes(batch_size=None), "batch_size"),
    "a seed behind all nodes": (nodes(input_nodes=torch.tensor([500])), "not a node of the graph"),
    "a negative seed": (nodes(input_nodes=torch.tensor([-1])), "of at least 0, got"),
    "subgraph_type": (nodes(subgraph_type="foo"), "'bidirectional', 'induced', got 'foo'"),
    "a fanout below -1": (lambda data: NeighborLoader(data, [-2]), "fanout"),
    "fanouts by type": (
        lambda data: NeighborLoader(data, {("a", "to", "b"): [1]}),
        "one number per hop",
    ),
    **{
        f"neighbours {value}": (
            lambda data, value=value: NeighborLoader(data, value),
            f"list one number per hop.*got {value}",
        )
        for value in (5, None, 2.5)
    },
    "edges in rows": (
        lambda data: nodes()(changed(data, edge_index=data.edge_index.t())),
        r"int\[2, num_edges\], got shape \[\d+, 2\]; write edge_index\.t\(\)",
    ),
    "no data": (lambda data: NeighborLoader([1, 2], [3]), "expected a Data"),
    "direction": (
        lambda data: Sampler(data, [2], sample_direction="backward"),
        r'expected sample_direction="forward".*edge_index.flip',
    ),
    "excluded": (links(exclude_seed_edges="self"), "exclude_seed_edges to be"),
    "few labels": (links(edge_label=ones(10)), "a label for each of 700 links"),
    "no links": (
        lambda data: LinkNeighborLoader(Data(x=torch.eye(4)), [2]),
        "edge_label_index or .*, got neither",
    ),
    "depth": (
        lambda data: ShaDowKHopSampler(data, -1, 2),
        "depth to be an integer of at least 0",
    ),
    "roots": (
        lambda data: ShaDowKHopSampler(data, 1, 2, node_idx=torch.ones(7, dtype=torch.bool)),
        "each of 120 nodes",
    ),
    "SAINT of nothing": (
        lambda data: GraphSAINTNodeSampler(data, 0),
        "batch_size to be an integer of at least 1",
    ),
    "SAINT without steps": (
        lambda data: GraphSAINTNodeSampler(data, 4, num_steps=0),
        "num_steps to be an integer of at least 1",
    ),
    "SAINT coverage": (
        lambda data: GraphSAINTNodeSampler(data, 4, sample_coverage=-1),
        "sample_coverage to be an integer of at",
    ),
    "SAINT walks": (
        lambda data: GraphSAINTRandomWalkSampler(data, 4, 0.5),
        "walk_length to be an integer of at least 1",
    ),
    "SAINT beside a norm": (
        lambda data: GraphSAINTNodeSampler(changed(data, node_norm=ones(120)), 10),
        "node_norm",
    ),
    "SAINT of a number": (lambda data: GraphSAINTNodeSampler(5, 4), "expected a Data, .* got int"),
    "clusters without edges": (
        lambda data: ClusterData(Data(x=data.x), 4),
        "expected data.edge_index, got data without one",
    ),
    "no clusters": (lambda data: ClusterData(data, 0), "num_parts to be an integer of at least 1"),
    "sparse_format": (lambda data: ClusterData(data, 4, sparse_format="coo"), "sparse_format"),
    **{
        f"clusters in {name}": (
            lambda data, name=name: ClusterData(data, 2, **{name: 5}),
            f"ClusterData: expected {name} to be a path, got 5",
        )
        for name in ("save_dir", "filename")
    },
    "clusters of data": (
        ClusterLoader,
        "ClusterLoader: expected a ClusterData, got Data",
    ),
}

TYPED: dict[str, Refusal] = {
    "ego nets": (
        lambda hetero: ShaDowKHopSampler(hetero, 1, 2),
        "ShaDowKHopSampler: expected a Data, got a HeteroData",
    ),
    "clusters": (lambda hetero: ClusterData(hetero, 4), "to_homogeneous"),
    "names of weights": (
        nodes_of_paper(weight_attr="w"),
        r"an edge attribute of data, got 'w'; there are \['edge_attr'",
    ),
    "a seed that is no node": (
        nodes_of_paper(input_nodes=("venue", torch.tensor([5]))),
        "expected ids of type 'venue'",
    ),
    "excluded of another type": (
        links(edge_label_index=WRITES, exclude_seed_edges={CITES: CITES}),
        "the edge type of the links",
    ),
    "excluded of no type": (
        links(edge_label_index=WRITES, exclude_seed_edges={"nope": CITES}),
        "got 'nope'",
    ),
}

TYPES = r"\['paper', 'author', 'venue'\]"
SEEDS: dict[str, tuple[dict[str, object], str]] = {
    "in a matrix": ({"input_nodes": torch.arange(20).view(10, 2)}, r"one dimension, got shape \[10, 2\]"),
    "one": ({"input_nodes": torch.tensor(3)}, r"one dimension, got shape \[\]"),
    "a number": ({"input_nodes": 3}, r"one dimension, got shape \[\]"),
    "a short mask": (
        {"input_nodes": torch.ones(50, dtype=torch.bool)},
        r"each of 120 nodes, got one of shape \[50\]",
    ),
    "a mask in a column": (
        {"input_nodes": torch.ones(120, 1, dtype=torch.bool)},
        r"each of 120 nodes, got one of shape \[120, 1\]",
    ),
    "a mask of NumPy": ({"input_nodes": np.ones(120, dtype=bool)}, "a mask to be a tensor, got booleans"),
    "a mask of integers": (
        {"input_nodes": (torch.arange(120) < 8).int()},
        r"got 0 and 1 for each of 120 nodes; write mask\.bool\(\)",
    ),
    "a type": ({"input_nodes": "paper"}, "integer ids or a mask of nodes, got 'paper'"),
    "ragged": ({"input_nodes": [[1, 2], [3]]}, "integer ids or a mask of nodes, got"),
    "half": ({"input_nodes": [1.5]}, r"integer ids or a mask of nodes, got \(1.5\)"),
    "few input_id": (
        {"input_nodes": torch.arange(10), "input_id": torch.arange(4)},
        "input_id with an id for each of 10 seeds",
    ),
    "a list of input_id": (
        {"input_nodes": torch.arange(10), "input_id": [*range(10)]},
        "input_id to be a tensor, got list",
    ),
    "few input_time": (
        {"input_time": torch.arange(9), "time_attr": "time"},
        "input_time with a time for each of 120 seeds",
    ),
    "input_id beside a mask": (
        {"input_nodes": torch.arange(120) < 8, "input_id": torch.arange(120)},
        "for each of 8 seeds, got shape",
    ),
}

LINKS: dict[str, tuple[dict[str, object], str]] = {
    "many labels": ({"edge_label": ones(20)}, r"edge_label with a label for each of 10 links, got shape \[20\]"),
    "few labels": ({"edge_label": ones(7)}, r"edge_label with a label for each of 10 links, got shape \[7\]"),
    "one label": ({"edge_label": torch.tensor(1)}, r"edge_label with a label for each of 10 links, got shape \[\]"),
    "a list of labels": ({"edge_label": [1] * 10}, "edge_label to be a tensor, got list"),
    "few input_id": ({"input_id": torch.arange(4)}, "input_id with an id for each of 10 links"),
    "many times": (
        {"edge_label_time": torch.arange(11), "time_attr": "time"},
        "edge_label_time with a time for each of 10",
    ),
    "times without their own": ({"time_attr": "time"}, "edge_label_time and time_attr"),
    "in rows": (
        {"edge_label_index": torch.zeros(10, 2, dtype=torch.int64)},
        r"int\[2, num_links\], got torch.int64 of shape",
    ),
    "in three dimensions": (
        {"edge_label_index": torch.zeros(2, 10, 1, dtype=torch.int64)},
        r"int\[2, num_links\], got",
    ),
    "one": (
        {"edge_label_index": torch.zeros(2, dtype=torch.int64)},
        r"int\[2, num_links\], got torch.int64 of shape \[2\]",
    ),
    "booleans": (
        {"edge_label_index": torch.zeros(2, 10, dtype=torch.bool)},
        r"int\[2, num_links\], got torch.bool",
    ),
    "a list": ({"edge_label_index": [[0, 1], [2, 3]]}, "edge_label_index to be a tensor .*, got list"),
}


@pytest.mark.parametrize("name", OF_DATA)
def test_refused(data, name):
    call, words = OF_DATA[name]
    with pytest.raises(hr.InputError, match=words):
        call(data)


@pytest.mark.parametrize("name", TYPED)
def test_refused_of_types(hetero, name):
    call, words = TYPED[name]
    with pytest.raises(hr.InputError, match=words):
        call(hetero)


@pytest.mark.parametrize("name", SEEDS)
def test_seeds(data, name):
    options, words = SEEDS[name]
    data.time = torch.arange(120)
    with pytest.raises(hr.InputError, match=words):
        NeighborLoader(data, [2], **options)


@pytest.mark.parametrize("name", LINKS)
def test_links(data, name):
    options, words = LINKS[name]
    data.time = torch.arange(120)
    with pytest.raises(hr.InputError, match=words):
        LinkNeighborLoader(data, [2], **{"edge_label_index": data.edge_index[:, :10], **options})
