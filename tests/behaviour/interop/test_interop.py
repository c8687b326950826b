"""What users of PyG rely on: the attributes of batches, and models that give the same numbers as on the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

pytest.importorskip("torch_geometric")
from torch_geometric.nn import GCNConv, GraphConv, SAGEConv
from torch_geometric.utils import trim_to_layer

SAMPLERS = st.sampled_from(["sample_neighbor", "sample_layer_neighbor"])
EXPAND = st.sampled_from(["all", "new"])


@st.composite
def graphs(draw, max_nodes=30):
    num_nodes = draw(st.integers(2, max_nodes))
    num_edges = draw(st.integers(0, 4 * num_nodes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    src, dst = random.integers(0, num_nodes, (2, num_edges))
    return torch.from_numpy(src), torch.from_numpy(dst), num_nodes


def first_batch(plan):
    with plan.loader() as loader:
        return next(iter(loader))


def node_store(num_nodes, num_edges=0):
    generator = torch.Generator().manual_seed(0)
    return hr.FeatureStore(
        node={"x": torch.randn(num_nodes, 4, generator=generator), "y": torch.arange(num_nodes)},
        edge={"w": torch.rand(num_edges, generator=generator)},
    )


@settings(max_examples=60)
@given(graphs(), SAMPLERS, EXPAND, st.lists(st.integers(-1, 4), min_size=1, max_size=3), st.integers(0, 100))
def test_the_mapping_back_is_the_identity(edges, verb, expand, fanouts, seed):
    src, dst, num_nodes = edges
    store = node_store(num_nodes, src.numel())
    items = hr.ItemSampler(num_nodes, batch_size=3, shuffle=True, seed=seed)
    sampled = getattr(items, verb)(hr.Graph.from_coo(src, dst, num_nodes=num_nodes), fanouts=fanouts, expand=expand)
    batch = first_batch(sampled.fetch_feature(store, node=["x"], edge=["w"], labels="y"))
    data = batch.to_pyg()
    data.validate()

    # Nodes and edges lead back to the graph's own, and carry their own features.
    ends = data.n_id[data.edge_index]
    assert torch.equal(ends, torch.stack([src[data.e_id], dst[data.e_id]]))
    assert torch.equal(data.x, store.node["x"].read(data.n_id).rows)
    assert torch.equal(data.w, store.edge["w"].read(data.e_id).rows)
    # No node twice, no edge twice.
    assert data.n_id.unique().numel() == data.n_id.numel()
    assert data.e_id.unique().numel() == data.e_id.numel()
    # Seeds first.
    assert data.batch_size == batch.num_seeds
    assert torch.equal(data.n_id[: data.batch_size], batch.seeds)
    assert torch.equal(data.y, batch.seeds)
    assert torch.equal(data.input_id, batch.item_index)
    # Edges are grouped by hop; those of a hop lead from nodes of that hop or nearer to nodes nearer than it.
    assert len(data.num_sampled_nodes) == len(fanouts) + 1
    assert len(data.num_sampled_edges) == len(fanouts)
    assert sum(data.num_sampled_nodes) == data.num_nodes
    assert sum(data.num_sampled_edges) == data.num_edges
    reached = np.cumsum(data.num_sampled_nodes)
    for hop, part in enumerate(data.edge_index.split(data.num_sampled_edges, dim=1)):
        assert (part[0] < reached[hop + 1]).all()
        assert (part[1] < reached[hop]).all()
    # Every node but a seed is there because an edge leaves it: no isolated nodes.
    assert set(range(data.batch_size, data.num_nodes)) <= set(data.edge_index[0].tolist())


def test_six_cycle_in_breadth_first_order():
    around = torch.arange(6)
    src, dst = torch.cat([(around - 1) % 6, (around + 1) % 6]), torch.cat([around, around])
    graph = hr.Graph.from_coo(src, dst)
    for expand in ("all", "new"):
        plan = hr.ItemSampler([2, 3]).sample_neighbor(graph, fanouts=[-1, -1], expand=expand)
        data = first_batch(plan).to_pyg()
        assert data.n_id.tolist() == [2, 3, 1, 4, 0, 5]
        assert data.num_sampled_nodes == [2, 2, 2]
        assert data.num_sampled_edges == [4, 4]
        # Edges into 2 and 3, then into 1 and 4; edge i leads to i from below, edge 6 + i from above.
        assert data.e_id.tolist() == [2, 8, 3, 9, 1, 7, 4, 10]


def test_counts_of_a_tree_made_by_hand():
    # 2 seeds, 2 + 3 + 4 nodes behind them, and three nodes that nothing leads to.
    src = [2, 3, 4, 5, 5, 6, 7, 8, 9, 10]
    dst = [0, 1, 2, 2, 3, 3, 4, 5, 5, 6]
    graph = hr.Graph.from_coo(src, dst, num_nodes=14)
    for expand in ("all", "new"):
        data = first_batch(hr.ItemSampler([0, 1]).sample_neighbor(graph, fanouts=[1, 2, 4], expand=expand)).to_pyg()
        assert data.num_sampled_nodes == [2, 2, 3, 4]
        assert data.num_sampled_edges == [2, 4, 4]
        assert data.n_id.tolist() == list(range(11))


def test_graph_without_edges_returns_only_seeds():
    graph = hr.Graph.from_coo([], [], num_nodes=4)
    data = first_batch(hr.ItemSampler([3, 1]).sample_neighbor(graph, fanouts=[2, 2])).to_pyg()
    assert data.n_id.tolist() == [3, 1]
    assert data.num_sampled_nodes == [2, 0, 0]
    assert data.num_sampled_edges == [0, 0]
    assert data.edge_index.shape == (2, 0)
    assert data.edge_index.dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_id_dtypes_give_the_same_batch(dtype):
    src, dst = torch.arange(20, dtype=dtype) % 7, torch.arange(20, dtype=dtype) % 5
    graph = hr.Graph.from_coo(src, dst, num_nodes=7)
    same = hr.Graph.from_coo(src.long(), dst.long(), num_nodes=7)
    batches = [first_batch(hr.ItemSampler(7).sample_neighbor(g, fanouts=[2, 2])) for g in (graph, same)]
    assert batches[0].digest() == batches[1].digest()


def test_a_seed_with_two_labels_is_refused():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
    ids = torch.tensor([2, 0, 1, 0])
    for labels in (torch.tensor([0, 1, 2, 3]), torch.tensor([[0.0, 1.0]] * 3 + [[0.0, 2.0]])):
        batch = first_batch(hr.ItemSampler((ids, labels)).sample_neighbor(graph, [-1]))
        with pytest.raises(hr.InputError, match="seed 0 comes twice with different labels"):
            batch.to_pyg()
        assert "y" not in batch.replace(y=None).to_pyg()
    unknown = torch.tensor([1.0, torch.nan, 2.0, torch.nan])
    data = first_batch(hr.ItemSampler((ids, unknown)).sample_neighbor(graph, [-1])).to_pyg()
    assert torch.equal(data.y.nan_to_num(-1), torch.tensor([1.0, -1.0, 2.0]))


def test_pairs_become_edge_label_index():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
    pairs = torch.tensor([[2, 0], [1, 2]])
    data = first_batch(hr.ItemSampler((pairs, torch.tensor([1.0, 0.0]))).sample_neighbor(graph, [-1])).to_pyg()
    assert torch.equal(data.n_id[data.edge_label_index], pairs.t())
    assert data.edge_label.tolist() == [1.0, 0.0]
    assert "y" not in data


def test_sampled_with_replacement_edges_repeat_within_a_hop():
    graph = hr.Graph.from_coo([1, 2], [0, 0])
    data = first_batch(hr.ItemSampler([0]).sample_neighbor(graph, [5], replace=True)).to_pyg()
    assert data.num_sampled_edges == [5]
    assert data.edge_index.shape == (2, 5)


def test_overlapping_hops_without_edge_ids_are_refused():
    graph = hr.Graph.from_coo([1, 2], [0, 0])
    plan = hr.ItemSampler([0])
    batch = first_batch(plan.sample_neighbor(graph, [1, 1], edge_ids=False))
    with pytest.raises(hr.InputError, match='expand="new"'):
        batch.to_pyg()
    data = first_batch(plan.sample_neighbor(graph, [1, 1], edge_ids=False, expand="new")).to_pyg()
    assert "e_id" not in data


@pytest.mark.parametrize("name", ["w", "n_id", "y", "batch_size"])
def test_features_do_not_replace_what_the_data_holds(name):
    """Nor each other, nor labels, them."""
    graph = hr.Graph.from_coo([0, 1], [1, 2], num_nodes=3)
    store = hr.FeatureStore(node={name: torch.arange(3), "label": torch.arange(3)}, edge={"w": torch.ones(2)})
    plan = hr.ItemSampler([2]).sample_neighbor(graph, [1]).fetch_feature(store, node=[name], edge=["w"], labels="label")
    batch = next(iter(plan.loader()))
    with pytest.raises(hr.InputError, match=f"got a feature '{name}' beside what the Data holds as '{name}' already"):
        batch.to_pyg()
    plain = hr.ItemSampler([2]).sample_neighbor(graph, [1]).fetch_feature(store, node=[name])
    if name == "y":  # a feature of all nodes, as PyG's loaders give it
        assert next(iter(plain.loader())).to_pyg().y.tolist() == [2, 1]


def test_importance_weights_keep_their_own_name():
    inner = hr.Block(
        torch.tensor([0, 1]), torch.tensor([1]), 2, 1, edge_ids=torch.tensor([4]), weight=torch.tensor([2.0])
    )
    batch = hr.MiniBatch(
        seeds=torch.tensor([8]),
        n_id=torch.tensor([8, 9]),
        blocks=(inner,),
        num_sampled_edges=(1,),
        num_sampled_nodes=(1, 1),
    )
    assert batch.to_pyg().importance_weight.tolist() == [2.0]


class Layers(torch.nn.Module):
    """Two or three layers of one kind, with edge weights where the layer takes them."""

    def __init__(self, layer, num_layers, **arguments):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(layer(4, 4, **arguments) for _ in range(num_layers)).double()

    def whole(self, x, edge_index, *weight):
        for layer in self.layers:
            x = layer(x, edge_index, *weight).relu()
        return x

    def blockwise(self, batch, weights=None):
        x = batch.x
        for i, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            pair, edge_index, size = block.to_pyg(x)
            weight = () if weights is None else (weights[i],)
            x = layer(pair, edge_index, *weight, size=size).relu()
        return x

    def trimmed(self, data, *, trim):
        x, edge_index, weight = data.x, data.edge_index, data.w
        for i, layer in enumerate(self.layers):
            if trim:
                x, edge_index, weight = trim_to_layer(
                    i, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index, weight
                )
            x = layer(x, edge_index, weight).relu()
        return x[: data.batch_size]


def weighted(edges):
    src, dst, num_nodes = edges
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(num_nodes, 4, dtype=torch.float64, generator=generator)
    w = torch.rand(src.numel(), dtype=torch.float64, generator=generator)
    return hr.Graph.from_coo(src, dst, num_nodes=num_nodes), hr.FeatureStore(node={"x": x}, edge={"w": w}), x, w


@pytest.mark.slow
@settings(max_examples=25)
@given(graphs(), st.integers(1, 3), SAMPLERS)
def test_full_neighbourhoods_reproduce_the_whole_graph(edges, num_layers, verb):
    graph, store, x, w = weighted(edges)
    model = Layers(GraphConv, num_layers)
    expected = model.whole(x, torch.stack(edges[:2]), w)
    items = hr.ItemSampler(graph.num_nodes, batch_size=5, shuffle=True)
    for expand in ("all", "new"):
        plan = getattr(items, verb)(graph, fanouts=[-1] * num_layers, expand=expand)
        with plan.fetch_feature(store, node=["x"], edge=["w"]).loader() as loader:
            for batch in loader:
                if expand == "all":
                    torch.testing.assert_close(model.blockwise(batch, batch.edge["w"]), expected[batch.seeds])
                data = batch.to_pyg()
                torch.testing.assert_close(model.trimmed(data, trim=False), expected[batch.seeds])
                torch.testing.assert_close(model.trimmed(data, trim=True), expected[batch.seeds])


@settings(max_examples=25)
@given(graphs(), st.lists(st.integers(1, 4), min_size=2, max_size=3), SAMPLERS)
def test_trimming_to_the_layer_changes_nothing_at_the_seeds(edges, fanouts, verb):
    graph, store, _, _ = weighted(edges)
    model = Layers(GraphConv, len(fanouts))
    sampled = getattr(hr.ItemSampler(graph.num_nodes, batch_size=4), verb)(graph, fanouts=fanouts, expand="new")
    data = first_batch(sampled.fetch_feature(store, node=["x"], edge=["w"])).to_pyg()
    torch.testing.assert_close(model.trimmed(data, trim=True), model.trimmed(data, trim=False))


@settings(max_examples=25)
@given(graphs(), st.lists(st.integers(1, 4), min_size=2, max_size=3), SAMPLERS)
def test_a_union_trimmed_to_the_last_layer_is_its_block(edges, fanouts, verb):
    graph, store, _, _ = weighted(edges)
    sampled = getattr(hr.ItemSampler(graph.num_nodes, batch_size=4), verb)(graph, fanouts=fanouts)
    batch = first_batch(sampled.fetch_feature(store, node=["x"], edge=["w"]))
    data = batch.to_pyg()
    x, edge_index, weight = data.x, data.edge_index, data.w
    for i in range(len(fanouts)):
        x, edge_index, weight = trim_to_layer(i, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index, weight)
    assert torch.equal(edge_index, batch.blocks[-1].edge_index)
    assert torch.equal(weight, batch.edge["w"][-1])
    assert torch.equal(x, batch.x[: batch.blocks[-1].num_src])


@pytest.mark.slow
@given(graphs(), st.sampled_from([1, 4, 100]))
@settings(max_examples=25)
def test_layer_by_layer_inference_equals_the_whole_graph(edges, batch_size):
    graph, store, x, _ = weighted(edges)
    model = Layers(SAGEConv, 3)
    expected = model.whole(x, torch.stack(edges[:2]))
    everyone = hr.ItemSampler(graph.num_nodes, batch_size=batch_size).sample_neighbor(graph, fanouts=[-1])
    for layer in model.layers:
        rows = []
        for batch in everyone.fetch_feature(store, node=["x"]).loader():
            pair, edge_index, size = batch.blocks[0].to_pyg(batch.x)
            rows.append(layer(pair, edge_index, size=size).relu())
        store = hr.FeatureStore(node={"x": torch.cat(rows).detach()})
    torch.testing.assert_close(store.node["x"].read(torch.arange(graph.num_nodes)).rows, expected)


def test_precomputed_gcn_weights_are_exact_in_batches():
    src, dst = torch.randint(0, 40, (2, 200), generator=torch.Generator().manual_seed(0))
    x = torch.randn(40, 4, dtype=torch.float64)
    model = Layers(GCNConv, 2)
    expected = model.whole(x, torch.stack([src, dst]))
    loops = torch.arange(40)
    own = torch.cat([src, loops[~torch.isin(loops, src[src == dst])]])
    ends = torch.cat([dst, loops[~torch.isin(loops, src[src == dst])]])
    scale = torch.bincount(ends, minlength=40).double().rsqrt()
    store = hr.FeatureStore(node={"x": x}, edge={"w": scale[own] * scale[ends]})
    graph = hr.Graph.from_coo(own, ends, num_nodes=40)
    plan = hr.ItemSampler(40, batch_size=7).sample_neighbor(graph, fanouts=[-1, -1])
    layers = Layers(GCNConv, 2, normalize=False, add_self_loops=False)
    layers.load_state_dict(model.state_dict())
    for batch in plan.fetch_feature(store, node=["x"], edge=["w"]).loader():
        torch.testing.assert_close(layers.trimmed(batch.to_pyg(), trim=False), expected[batch.seeds])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    "make",
    [
        lambda: SAGEConv(4, 3, aggr="mean"),
        lambda: SAGEConv(4, 3, aggr="sum"),
        lambda: SAGEConv(4, 3, aggr="max"),
        lambda: GraphConv(4, 3),
        lambda: GCNConv(4, 3, normalize=False),
    ],
)
def test_layers_take_the_adjacency(make, dtype):
    """Values and gradients as with the edge list, on rows with repeated and unsorted sources and without edges."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(0, 30, (2, 300), generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=40)
    first = first_batch(hr.ItemSampler([0, 35, 7, 8]).sample_neighbor(graph, [-1, 5])).blocks[0]
    block = hr.Block(first.indptr, first.indices.to(dtype), first.num_src, first.num_dst)
    x = torch.randn(block.num_src, 4, generator=generator, requires_grad=True)
    layer = make()
    inputs = x if isinstance(layer, GCNConv) else (x, x[: block.num_dst])
    by_matrix, by_edges = (layer(inputs, edges)[: block.num_dst] for edges in (block.adj_t(), block.edge_index))
    torch.testing.assert_close(by_matrix, by_edges)
    gradients = [torch.autograd.grad(out.square().sum(), x)[0] for out in (by_matrix, by_edges)]
    torch.testing.assert_close(*gradients)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_layers_that_sum_take_weights_in_the_adjacency():
    graph = hr.Graph.from_coo([1, 2, 2, 0], [0, 0, 1, 2])
    block = first_batch(hr.ItemSampler([0, 1]).sample_neighbor(graph, [-1])).blocks[0]
    weight = torch.rand(block.num_edges, dtype=torch.float64)
    layer, x = GraphConv(4, 3).double(), torch.randn(block.num_src, 4, dtype=torch.float64)
    pair = (x, x[: block.num_dst])
    torch.testing.assert_close(layer(pair, block.adj_t(weight)), layer(pair, block.edge_index, weight))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.sampled_from(["store", "items"]), EXPAND)
@settings(max_examples=60)
def test_repeated_seeds_have_one_row_each(seeds, source, expand):
    """Labels are those of the rows, in order of first occurrence, and `seed_index` leads from each seed to its row."""
    graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 0, 5], num_nodes=6)
    ids = torch.tensor(seeds)
    labels = torch.stack([10 * ids, -ids], 1)
    plan = hr.ItemSampler((ids, labels) if source == "items" else ids).sample_neighbor(graph, [-1, 1], expand=expand)
    if source == "store":
        everyone = torch.arange(6)
        plan = plan.fetch_feature(hr.FeatureStore(node={"y": torch.stack([10 * everyone, -everyone], 1)}), labels="y")
    data = first_batch(plan).to_pyg()
    rows = data.n_id[: data.batch_size]
    assert rows.tolist() == list(dict.fromkeys(seeds))
    assert torch.equal(data.y, torch.stack([10 * rows, -rows], 1))
    # What PyG keeps of the seeds as they came: all their items, and here the row of each.
    assert data.input_id.tolist() == list(range(len(seeds)))
    assert torch.equal(data.n_id[data.seed_index], ids)
    assert torch.equal(data.y[data.seed_index], labels)
