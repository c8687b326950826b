"""Batches of several types of nodes and edges (peers.md, part A, section 5, 1 to 9, 12, 17, 21 and 22)."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.utils import trim_to_layer

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler

WRITES = ("author", "writes", "paper")


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
@pytest.mark.parametrize("input_type", ["paper", "author"])
def test_peers_01_mapping_identity_of_every_type(hetero, subgraph_type, input_type):
    loader = NeighborLoader(
        hetero, [3, 2], input_nodes=input_type, batch_size=16, shuffle=True, subgraph_type=subgraph_type, seed=1
    )
    seen = set()
    for batch in loader:
        assert batch.node_types == hetero.node_types
        assert batch.edge_types == hetero.edge_types
        for name in hetero.edge_types:
            source, destination = batch[name].edge_index
            ends = torch.stack([batch[name[0]].n_id[source], batch[name[2]].n_id[destination]])
            assert torch.equal(ends, hetero[name].edge_index[:, batch[name].e_id])
            seen.update([name] if len(source) else [])
            if "edge_attr" in hetero[name]:
                assert torch.equal(batch[name].edge_attr, hetero[name].edge_attr[batch[name].e_id])
        for name in hetero.node_types:
            assert len(batch[name].n_id.unique()) == len(batch[name].n_id) == batch[name].num_nodes
            if "x" in hetero[name]:
                assert torch.equal(batch[name].x, hetero[name].x[batch[name].n_id])
        assert batch.title == "a graph"
    assert seen == set(hetero.edge_types)


def test_peers_02_seeds_of_a_type(hetero):
    for input_nodes, wanted in (
        ("author", torch.arange(40)),
        (("paper", torch.tensor([9, 4, 30])), torch.tensor([9, 4, 30])),
        (("paper", hetero["paper"].train_mask), torch.arange(0, 60, 2)),
        (("author", None), torch.arange(40)),
    ):
        loader = NeighborLoader(hetero, [2, 2], input_nodes=input_nodes, batch_size=12)
        name = input_nodes if isinstance(input_nodes, str) else input_nodes[0]
        seeds = []
        for batch in loader:
            store = batch[name]
            seeds.append(store.n_id[: store.batch_size])
            assert store.num_sampled_nodes[0] == store.batch_size == len(store.input_id)
            others = [other for other in hetero.node_types if other != name]
            assert all("batch_size" not in batch[other] and "input_id" not in batch[other] for other in others)
            assert all(batch[other].num_sampled_nodes[0] == 0 for other in others)
        assert torch.equal(torch.cat(seeds), wanted)


def test_peers_04_counts_of_hops_by_type():
    """The 14 nodes of the test without types, alternately of two types."""
    made = HeteroData()
    made["a"].num_nodes = made["b"].num_nodes = 7
    edges = {("b", "to", "a"): [[0, 1, 4, 5], [0, 1, 2, 3]], ("a", "to", "b"): [[2, 3, 3, 4, 5, 5], [0, 0, 1, 1, 4, 5]]}
    for name, edge_index in edges.items():
        made[name].edge_index = torch.tensor(edge_index)
    (batch,) = NeighborLoader(made, [1, 2, 4], input_nodes=("a", torch.tensor([0, 1])), batch_size=2)
    assert batch["a"].num_sampled_nodes == [2, 0, 3, 0]
    assert batch["b"].num_sampled_nodes == [0, 2, 0, 2]
    assert batch["b", "to", "a"].num_sampled_edges == [2, 0, 2]
    assert batch["a", "to", "b"].num_sampled_edges == [0, 4, 0]


def test_peers_07_fanouts_by_relation(hetero):
    every = {name: [2, 2] for name in hetero.edge_types}
    by_relation = {**every, WRITES: [0, 0]}
    for batch in NeighborLoader(hetero, by_relation, input_nodes="paper", batch_size=20):
        assert batch[WRITES].edge_index.shape[1] == 0
        assert batch["venue", "prints", "paper"].num_edges > 0
    with pytest.raises(ValueError, match="Number of hops must be the same"):
        NeighborLoader(hetero, {**every, WRITES: [1]}, input_nodes="paper")
    with pytest.raises(ValueError, match="exist in the graph"):
        NeighborLoader(hetero, {**every, ("a", "to", "b"): [2, 2]}, input_nodes="paper")
    with pytest.raises(ValueError, match="Missing number of neighbors"):
        NeighborLoader(hetero, {WRITES: [2, 2]}, input_nodes="paper")


class Model(torch.nn.Module):
    def __init__(self, hetero):
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList(
            HeteroConv({name: SAGEConv((-1, -1), 8) for name in hetero.edge_types}) for _ in range(2)
        )

    def forward(self, xs, edges, batch=None):
        for layer, conv in enumerate(self.convs):
            if batch is not None:
                xs, edges, _ = trim_to_layer(
                    layer, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, xs, edges
                )
            found = conv(xs, edges)
            xs = {name: found[name].relu() if name in found else xs[name] for name in xs}
        return xs


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_peers_08_full_fanouts_give_the_whole_graphs_output(hetero, subgraph_type):
    hetero["venue"].x = torch.randn(5, 4)
    for name in hetero.node_types:
        hetero[name].x = hetero[name].x / 100
    model = Model(hetero).eval()
    with torch.no_grad():
        whole = model(hetero.x_dict, hetero.edge_index_dict)["paper"]
        loader = NeighborLoader(hetero, [-1, -1], input_nodes="paper", batch_size=25, subgraph_type=subgraph_type)
        for batch in loader:
            seeds = batch["paper"].n_id[: batch["paper"].batch_size]
            out = model(batch.x_dict, batch.edge_index_dict)["paper"][: len(seeds)]
            assert torch.allclose(out, whole[seeds], atol=1e-5)
            if subgraph_type == "directional":
                trimmed = model(batch.x_dict, batch.edge_index_dict, batch)["paper"][: len(seeds)]
                assert torch.allclose(trimmed, out, atol=1e-5)


def test_peers_12_weights_of_some_relations(hetero):
    hetero[WRITES].edge_weight = torch.where(torch.arange(150) % 2 == 0, 0.0, 1.0)
    batches = list(NeighborLoader(hetero, [3, 3], input_nodes="paper", batch_size=20, weight_attr="edge_weight"))
    assert all((batch[WRITES].e_id % 2 == 1).all() for batch in batches)
    cited = torch.cat([batch["paper", "cites", "paper"].e_id for batch in batches])
    assert len(cited.unique()) > 50
    with pytest.raises(hr.InputError, match="weight_attr"):
        NeighborLoader(hetero, [3], input_nodes="paper", weight_attr="none")


def test_bidirectional_as_pyg_does_it(hetero):
    """Of types with a reverse both have the same edges; ids and attributes are left out."""
    reverse = ("paper", "rev_writes", "author")
    with pytest.warns(UserWarning, match="does not seem to have a reverse"):
        (batch,) = NeighborLoader(hetero, [2, 2], ("paper", [1, 2, 3]), batch_size=3, subgraph_type="bidirectional")
    assert torch.equal(batch[WRITES].edge_index, batch[reverse].edge_index.flip(0))
    assert "e_id" not in batch[WRITES]
    assert "edge_attr" not in batch[WRITES]
    ends = batch["author"].n_id[batch[WRITES].edge_index[0]], batch["paper"].n_id[batch[WRITES].edge_index[1]]
    assert set(zip(*map(torch.Tensor.tolist, ends), strict=True)) <= set(
        map(tuple, hetero[WRITES].edge_index.t().tolist())
    )


def test_a_seed_that_repeats_has_rows_of_its_own(hetero):
    (batch,) = NeighborLoader(hetero, [-1, -1], input_nodes=("paper", torch.tensor([7, 3, 7])), batch_size=3)
    assert batch["paper"].n_id[:3].tolist() == [7, 3, 7]
    for name in hetero.edge_types:
        source, destination = batch[name].edge_index
        ends = torch.stack([batch[name[0]].n_id[source], batch[name[2]].n_id[destination]])
        assert torch.equal(ends, hetero[name].edge_index[:, batch[name].e_id])
        if name[2] == "paper":
            assert torch.equal(source[destination == 0], source[destination == 2])
        assert sum(batch[name].num_sampled_edges) == len(source)


@pytest.mark.parametrize("relation", [WRITES, ("paper", "cites", "paper")])
def test_peers_17_links_of_a_type(hetero, relation):
    label = torch.arange(hetero[relation].num_edges) % 5
    loader = LinkNeighborLoader(
        hetero, [2, 2], edge_label_index=relation, edge_label=label, batch_size=30, shuffle=True, seed=1
    )
    for batch in loader:
        store = batch[relation]
        row, col = store.edge_label_index
        pairs = torch.stack([batch[relation[0]].n_id[row], batch[relation[2]].n_id[col]])
        assert torch.equal(pairs, hetero[relation].edge_index[:, store.input_id])
        assert torch.equal(store.edge_label, label[store.input_id])
        assert "batch_size" not in batch["paper"]
    links = hetero[relation].edge_index[:, :7]
    (batch,) = LinkNeighborLoader(hetero, [2], edge_label_index=(relation, links), batch_size=7)
    assert batch[relation].input_id.tolist() == list(range(7))


def test_pygs_own_loaders_with_our_sampler(hetero):
    sampler = Sampler(hetero, [3, 2], seed=2)
    for batch in NodeLoader(hetero, sampler, input_nodes="author", batch_size=8):
        assert torch.equal(batch["author"].x, hetero["author"].x[batch["author"].n_id])
        source, destination = batch[WRITES].edge_index
        ends = torch.stack([batch["author"].n_id[source], batch["paper"].n_id[destination]])
        assert torch.equal(ends, hetero[WRITES].edge_index[:, batch[WRITES].e_id])
    for batch in LinkLoader(hetero, sampler, edge_label_index=WRITES, batch_size=50):
        row, col = batch[WRITES].edge_label_index
        pairs = torch.stack([batch["author"].n_id[row], batch["paper"].n_id[col]])
        assert torch.equal(pairs, hetero[WRITES].edge_index[:, batch[WRITES].input_id])


def test_a_single_batch(hetero):
    loader = NeighborLoader(hetero, [2], input_nodes=("paper", torch.tensor([3, 8, 5])))
    assert loader([2, 0])["paper"].n_id[:2].tolist() == [5, 3]


def test_peers_22_stores_with_types(hetero, typed_stores):
    features, graph = typed_stores
    for name in hetero.edge_types:
        if "edge_attr" in hetero[name]:
            features.put_tensor(hetero[name].edge_attr, group_name=name, attr_name="edge_attr", index=None)
    options = {"num_neighbors": [3, 2], "input_nodes": "paper", "batch_size": 20, "seed": 3}
    ours, theirs = NeighborLoader((features, graph), **options), NeighborLoader(hetero, **options)
    for left, right in zip(ours, theirs, strict=True):
        assert left["paper"].batch_size == right["paper"].batch_size
        for name in hetero.node_types:
            assert torch.equal(left[name].n_id, right[name].n_id)
        for name in hetero.edge_types:
            assert torch.equal(left[name].e_id, right[name].e_id)
            assert torch.equal(left[name].edge_index, right[name].edge_index)
        assert torch.equal(left["author"].x, right["author"].x)
        assert torch.equal(left[WRITES].edge_attr, right[WRITES].edge_attr)


def test_hetero_data_that_cannot_be_read(hetero):
    del hetero["venue"].num_nodes
    with pytest.raises(hr.InputError, match="a number of nodes"), pytest.warns(UserWarning, match="num_nodes"):
        NeighborLoader(hetero, [2], input_nodes="paper")
    hetero["venue"].num_nodes = 5
    hetero[WRITES].edge_index[0, 0] = 40
    with pytest.raises(hr.InputError, match="expected ids below 40"):
        NeighborLoader(hetero, [2], input_nodes="paper")


def test_times_of_types_that_were_written_are_refused(hetero):
    """The graph has copies of them; PyG reads them for each batch."""
    for name in hetero.node_types:
        hetero[name].time = torch.arange(hetero[name].num_nodes)
    loader = NeighborLoader(hetero, [2], "paper", time_attr="time", batch_size=20)
    assert list(loader)
    hetero["author"].time.numpy()[3] = 1000
    with pytest.raises(hr.InputError, match=r"expected times 'time' to stay as they were.*make a new graph"):
        list(loader)
    assert list(NeighborLoader(hetero, [2], "paper", time_attr="time", batch_size=20))
