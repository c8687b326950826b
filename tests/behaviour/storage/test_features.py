from __future__ import annotations

import numpy as np
import pytest
import torch
from feature_rows import in_memory
from hypothesis import given
from hypothesis import strategies as st
from tier_sizes import tier_sizes
from torch_geometric.data import Data

import headrace as hr

from plans import graph, store

CPU = hr.Place("cpu")


@given(
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64, torch.bool]),
    st.sampled_from([(), (1,), (3,), (2, 5)]),
    st.lists(st.integers(0, 6), max_size=20),
    st.sampled_from([torch.int32, torch.int64]),
    st.sampled_from([1, 2, 4]),
)
def test_read_equals_indexing(dtype, row_shape, ids, id_dtype, num_threads):
    rows = torch.randint(0, 100, (7, *row_shape)).to(dtype)
    source = in_memory(rows)
    read = source.read(torch.tensor(ids, dtype=id_dtype), num_threads=num_threads).rows
    assert read.dtype == dtype
    assert torch.equal(read, rows[torch.tensor(ids, dtype=torch.int64)])
    assert source.shape == (7, *row_shape)
    assert source.num_rows == 7
    assert source.dtype == dtype
    assert source.row_bytes == rows[0].numel() * rows.element_size()


def test_strided_rows_are_read_in_place():
    wide = torch.arange(40.0).reshape(4, 10)
    for view in (wide[:, ::3], wide[:, 2:5], wide.t(), wide[::2]):
        assert torch.equal(in_memory(view).read(torch.tensor([1, 0, 1])).rows, view[[1, 0, 1]])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_are_read_in_place(tmp_path, mode):
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    store = hr.FeatureStore(node={"x": mapped})
    np.testing.assert_array_equal(store.node["x"].read(torch.tensor([4, 0])).rows.numpy(), rows[[4, 0]])
    if mode == "r+":
        mapped[4] = -1
        assert (store.node["x"].read(torch.tensor([4])).rows == -1).all()


def test_a_read_is_a_copy():
    rows = torch.zeros(3, 2)
    read = in_memory(rows).read(torch.tensor([1])).rows
    read += 1
    assert (rows == 0).all()


TAKE_ROWS = {
    "store": lambda x: hr.FeatureStore(node={"x": x}),
    "edge features": lambda x: hr.FeatureStore(edge={"x": x}),
    "of a type": lambda x: hr.FeatureStore(node={"paper": {"x": x}}),
    "cache": lambda x: hr.CachedFeature(x, rows=2),
    "cache on a GPU": lambda x: hr.CachedFeature(x, rows=2, place="cuda"),
    "tiers": lambda x: hr.TieredFeature(x, torch.arange(3), tier_sizes(host=1)),
    "shards": lambda x: hr.ShardedFeature.of(x, hr.Partition.range_of([3]), 0),
    "one shard": lambda x: hr.ShardedFeature(x, hr.Partition.range_of([3]), 0),
    "edge attributes": lambda x: hr.Graph.from_coo([0, 1, 2], [0, 0, 0], edge_attrs={"w": x}),
    "edge attributes in CSC order": lambda x: hr.Graph.from_csc([0, 3, 3, 3], [0, 1, 2], edge_attrs={"w": x}),
    "node attributes": lambda x: hr.Graph.from_coo([0, 1, 2], [0, 0, 0], node_attrs={"t": x}),
    "labels": lambda x: hr.ItemSampler((torch.arange(3), x)),
    "weights of negatives": lambda x: hr.ItemSampler(torch.zeros(2, 2, dtype=torch.long)).sample_uniform_negative(
        hr.Graph.from_coo([0, 1, 2], [0, 0, 0]), 1, node_weight=x[:, 0]
    ),
}


@pytest.mark.parametrize("take", TAKE_ROWS.values(), ids=TAKE_ROWS)
@pytest.mark.parametrize("learning", [True, False])
def test_what_learns_is_refused_with_what_to_write(take, learning):
    rows = torch.nn.Parameter(torch.ones(3, 2))
    if not learning:
        take(rows.detach())
        return
    with pytest.raises(hr.HeadraceError, match=r"requires one.*index it in the model.*detach\(\)"):
        take(rows)


def test_own_sources_can_stand_in_a_store():
    class Squares:
        num_rows, row_bytes, dtype, shape = 10, 8, torch.int64, (10,)

        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(ids * ids, {"computed": len(ids)})

        def content_digest(self):
            return "squares"

    store = hr.FeatureStore(node={"x": Squares()})
    assert isinstance(store.node["x"], hr.FeatureSource)
    assert store.node["x"].read(torch.tensor([3])).rows.tolist() == [9]
    loader = hr.ItemSampler(10, batch_size=5).fetch_feature(store, node=["x"]).loader()
    assert [batch.x.tolist() for batch in loader] == [[0, 1, 4, 9, 16], [25, 36, 49, 64, 81]]
    assert loader.stats()["fetch_feature"]["computed"] == 10


class Own(hr.FeatureSource):
    """Two rows, of a user's class."""

    dtype, shape = torch.float32, (2, 2)

    def content_digest(self):
        return "own"


def test_a_source_that_counts_nothing_is_refused_by_name():
    class Old(Own):
        def read(self, ids, *, num_threads=1, to=CPU):
            return torch.eye(2)[ids]

    loader = hr.ItemSampler(2).fetch_feature(hr.FeatureStore(node={"x": Old()}), node=["x"]).loader()
    with pytest.raises(hr.InputError, match=r"expected Old.read to return rows and counts, got Tensor; return hr.Rows"):
        next(iter(loader))


def test_a_source_that_writes_and_counts_nothing_is_refused_by_name():
    class Old(Own):
        place = hr.Place("disk")

        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(torch.eye(2)[ids], {})

        def read_into(self, ids, out, **options):
            super().read_into(ids, out, **options)

    loader = hr.ItemSampler(2, batch_size=1).fetch_feature(hr.FeatureStore(node={"x": Old()}), node=["x"])
    with pytest.raises(hr.InputError, match=r"expected Old.read_into to return its counts, got NoneType"):
        list(loader.loader(machine=hr.Machine(cores=1, memory=1 << 20)))


def test_rows_are_read_to_cpu_memory_alone():
    order = torch.arange(2)
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    moved = hr.reorder(graph, hr.FeatureStore(node={"x": torch.eye(2)}), order=order, original_ids=False).store
    for source in (in_memory(torch.eye(2)), moved.node["x"]):
        assert len(source.read(torch.tensor([0]), to=hr.Place("cpu")).rows) == 1
        for place in (hr.Place("cuda", 0), hr.Place("pinned")):
            with pytest.raises(hr.InputError, match=rf".read: expected to=cpu.* got to={place}; read"):
                source.read(torch.tensor([0]), to=place)


def test_bytes_are_counted_by_the_place_that_they_come_from(tmp_path):
    np.save(tmp_path / "z.npy", np.zeros((10, 3)))
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    store = hr.FeatureStore(node={"x": torch.zeros(10, 2), "y": torch.arange(10), "z": mapped, "part": mapped[:, :1]})
    assert [str(store.node[name].place) for name in store.node] == ["cpu", "cpu", "disk", "disk"]
    loader = hr.ItemSampler(10, batch_size=4).fetch_feature(store, node=["x", "z", "part"], labels="y").loader()
    list(loader)
    stats = loader.stats()["fetch_feature"]
    assert (stats["bytes_from_cpu"], stats["bytes_from_disk"], stats["bytes"]) == (160, 320, 480)
    out = torch.empty(2, 3, dtype=torch.float64)
    assert store.node["z"].read_into(torch.tensor([1, 1]), out) == {"bytes_from_disk": 48}


def test_a_missing_name_lists_those_that_exist():
    store = hr.FeatureStore(node={"x": torch.zeros(2, 1), "y": torch.zeros(2)})
    with pytest.raises(hr.InputError, match=r"no node feature 'z'; those that exist are \['x', 'y'\]"):
        store.node["z"]
    with pytest.raises(hr.InputError, match="no edge feature 'w'; those that exist are none"):
        store.edge["w"]
    assert "z" not in store.node
    typed = hr.FeatureStore(node={"paper": {"x": torch.zeros(2, 1)}})
    with pytest.raises(hr.InputError, match=r"it is a feature of types: fetch \{'paper': 'x'\}"):
        typed.node["x"]
    assert list(store.node) == ["x", "y"]


@pytest.mark.parametrize("ids", [[2], [-1], [0, 1, 5]])
def test_ids_without_a_row_are_refused(ids):
    with pytest.raises(hr.InputError):
        in_memory(torch.zeros(2, 3)).read(torch.tensor(ids))


def test_features_shorter_than_the_graph_are_refused_before_work_starts():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
    plan = hr.ItemSampler(3).sample_neighbor(graph, [-1])
    short = hr.FeatureStore(node={"x": torch.zeros(2, 1)}, edge={"w": torch.zeros(2)})
    with pytest.raises(hr.InputError, match="2 rows"):
        plan.fetch_feature(short, node=["x"]).loader()
    with pytest.raises(hr.InputError, match="2 rows"):
        plan.fetch_feature(short, edge=["w"]).loader()


def test_features_longer_than_the_graph_are_refused_before_work_starts():
    graph = hr.Graph.from_coo([0, 1], [1, 2], num_nodes=4)
    store = hr.FeatureStore(node={"x": torch.zeros(5, 1), "part": torch.zeros(3), "y": torch.arange(4)})
    plan = hr.ItemSampler([0, 2]).sample_neighbor(graph, [1])
    owners = hr.Partition.hash(4, 1)
    sharded = hr.ItemSampler([0, 2]).sample_neighbor(graph.shard(owners, 0), [1])
    for one in (plan, sharded):
        for names in ({"node": ["x"]}, {"labels": "x"}):
            with pytest.raises(hr.InputError, match="'x' to have a row for each of the graph's 4 nodes, got 5 rows"):
                one.fetch_feature(store, **names).loader()
    assert next(iter(plan.fetch_feature(store, node=["y"], labels="part").loader())).y.tolist() == [0, 0]
    assert len(next(iter(hr.ItemSampler([0, 2]).fetch_feature(store, node=["x"]).loader())).x) == 2


def test_digest_tells_names_values_and_dtypes_apart():
    def digest(**node):
        return hr.FeatureStore(node=node).content_digest()

    x = torch.zeros(4, 2)
    stores = [
        digest(x=x),
        digest(z=x),
        digest(x=x, y=x),
        digest(x=x.double()),
        digest(x=x + 1),
        digest(x=x.reshape(2, 4)),
        hr.FeatureStore(edge={"x": x}).content_digest(),
    ]
    assert len(set(stores)) == len(stores)
    assert digest(x=x.clone()) == stores[0]


def test_digest_of_a_large_memory_map_samples_it(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(2_000_000, 2))
    first = hr.FeatureStore(node={"x": rows}).content_digest()
    rows[-1] = 1
    assert hr.FeatureStore(node={"x": rows}).content_digest() != first


def test_repr():
    store = hr.FeatureStore(node={"x": torch.zeros(2, 3)}, edge={"w": np.zeros(4)})
    assert repr(store) == "FeatureStore(node={'x': float32[2, 3]}, edge={'w': float64[4]})"


def test_a_source_that_says_nothing_is_shown_without_its_address():
    """Ranks compare what their plans print."""

    class Mine:
        num_rows, row_bytes, dtype, shape = 3, 8, torch.int64, (3,)

        def read(self, ids, *, num_threads=1, to=CPU):
            return hr.Rows(ids)

        def content_digest(self):
            return "mine"

    assert repr(hr.FeatureStore(node={"a": Mine()})) == "FeatureStore(node={'a': Mine}, edge={})"


@pytest.mark.parametrize("given", [torch.ones(3, 2), [torch.ones(3, 2)], "x", Data(x=torch.ones(3, 2))])
@pytest.mark.parametrize("domain", ["node", "edge"])
def test_features_without_names_are_refused(given, domain):
    with pytest.raises(hr.InputError, match=f"expected {domain} features by name, such as {domain}={{'x': x}}, got"):
        hr.FeatureStore(**{domain: given})


@pytest.mark.parametrize("num_rows", [1_499, 1_501])
def test_edge_features_have_as_many_rows_as_the_graph_has_edges(num_rows):
    """Rows of self-loops put before them, for example, would shift all others."""
    edges = hr.FeatureStore(edge={"e": torch.zeros(num_rows, 2)})
    plan = hr.ItemSampler(100).sample_neighbor(graph(), [2]).fetch_feature(edges, edge=["e"])
    with pytest.raises(hr.InputError, match=f"a row for each of the graph's 1500 edges, got {num_rows} rows"):
        plan.loader()


@pytest.mark.parametrize("wrong", [["y"], torch.ones(1_000)])
def test_labels_and_names_are_text(wrong):
    with pytest.raises(hr.InputError, match="labels to be the name of one node feature") as error:
        hr.ItemSampler(100).fetch_feature(store(), labels=wrong)
    assert len(str(error.value)) < 200
    if not isinstance(wrong, list):
        with pytest.raises(hr.InputError, match="node to be a list of feature names") as error:
            hr.ItemSampler(100).fetch_feature(store(), node=wrong)
        assert len(str(error.value)) < 200


def test_features_by_their_names_are_told_where_they_go():
    with pytest.raises(hr.PlanError, match=r"node=, of edges in edge=, got x, y=; write node=\{'x': x, 'y': y\}"):
        hr.FeatureStore(x=torch.zeros(3), y=torch.zeros(3))


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"edge_attr": torch.zeros(2)}, r"write edge=\{'edge_attr': edge_attr\}$"),
        ({"edge_attr": {"w": torch.zeros(2)}}, r"write edge=\{'w': w\}$"),
        ({"x": torch.zeros(3), "efeat": torch.zeros(2)}, r"write node=\{'x': x\}, edge=\{'efeat': efeat\}$"),
    ],
)
def test_features_of_edges_are_told_to_go_to_edges(given, written):
    with pytest.raises(hr.PlanError, match=written):
        hr.FeatureStore(node={"z": torch.zeros(3)}, **given)
