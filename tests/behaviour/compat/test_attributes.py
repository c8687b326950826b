"""Which attributes a batch has, and which rows of them (peers.md, part A, section 5, 21 and 22)."""

from __future__ import annotations

import time
from threading import current_thread

import numpy as np
import pytest
import torch
import torch_geometric.typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from headrace.pyg import LinkNeighborLoader, NeighborLoader

NODES = torch.tensor([3, 14, 15, 9, 2, 6])


class Frame(torch_geometric.typing.TensorFrame):
    """As much of a frame of torch_frame as PyG's loaders use."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    @property
    def num_rows(self):
        return len(self.rows)

    @property
    def device(self):
        return self.rows.device

    def __getitem__(self, index):
        return Frame(self.rows[index])


class Grown(Data):
    """Says itself along which dimension its nodes lie."""

    def __cat_dim__(self, key, value, *args, **kwargs):
        return 1 if key in ("series", "array_of_series") else super().__cat_dim__(key, value, *args, **kwargs)


def test_peers_21_every_attribute_of_nodes_and_edges(data, tmp_path):
    nodes, edges = data.num_nodes, data.num_edges
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(nodes, 4))
    rows[:] = np.arange(nodes * 4).reshape(nodes, 4)
    grown = Grown(**data.to_dict())
    grown.mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    grown.edge_array = np.arange(edges)
    grown.frame = Frame(torch.arange(nodes))
    grown.cube = torch.arange(nodes * 6).reshape(nodes, 2, 3)
    grown.series = torch.arange(nodes * 2).reshape(2, nodes)
    grown.array_of_series = np.arange(nodes * 2).reshape(2, nodes)
    grown.half = torch.arange(nodes).to(torch.bfloat16)
    grown.complex = torch.arange(nodes).to(torch.complex64)
    grown.names = [f"node {i}" for i in range(nodes)]
    grown.learned = torch.ones(nodes, 2, requires_grad=True)
    grown.table = torch.arange(7)
    grown.scalar = torch.tensor(3)
    grown.title = "a graph"
    for batch in NeighborLoader(grown, [3, 2], input_nodes=NODES, batch_size=4):
        assert type(batch) is Grown
        n_id, e_id = batch.n_id, batch.e_id
        assert torch.equal(batch.mapped, torch.from_numpy(rows)[n_id])
        assert torch.equal(batch.edge_array, e_id)
        assert torch.equal(batch.frame.rows, n_id)
        assert torch.equal(batch.series, grown.series[:, n_id])
        assert torch.equal(batch.array_of_series, grown.series[:, n_id])
        for name in ("x", "y", "train_mask", "cube", "half", "complex"):
            assert torch.equal(batch[name], grown[name][n_id]), name
        for name in ("edge_attr", "edge_weight"):
            assert torch.equal(batch[name], grown[name][e_id]), name
        assert batch.names == [f"node {i}" for i in n_id.tolist()]
        assert batch.learned.requires_grad
        assert batch.table is grown.table
        assert batch.scalar is grown.scalar
        assert batch.title == "a graph"
        assert batch.num_nodes == len(n_id)
    assert grown.num_nodes == nodes, "the whole graph stays"


def test_peers_21_what_pyg_sets(data):
    """These and no others; those of features that the user has under the same name stay the user's."""
    (batch,) = NeighborLoader(data, [2], input_nodes=NODES, batch_size=6)
    added = {"n_id", "e_id", "input_id", "batch_size", "num_sampled_nodes", "num_sampled_edges"}
    assert set(batch.keys()) == set(data.keys()) | added
    data.n_id = torch.arange(data.num_nodes) + 1000
    data.e_id = torch.arange(data.num_edges) + 5000
    (named,) = NeighborLoader(data, [2], input_nodes=NODES, batch_size=6)
    assert torch.equal(named.n_id, batch.n_id + 1000)
    assert torch.equal(named.e_id, batch.e_id + 5000)


def test_peers_21_graphs_that_say_their_number_of_nodes(data):
    (batch,) = NeighborLoader(Data(edge_index=data.edge_index, num_nodes=500), [2], input_nodes=NODES, batch_size=6)
    assert batch.num_nodes == len(batch.n_id)


def test_transforms_and_where_they_run(data):
    seen = []

    def of_output(out):
        seen.append(type(out).__name__)
        out.metadata = (out.metadata[0] + 100, *out.metadata[1:])
        return out

    def of_batch(batch):
        seen.append(type(batch).__name__)
        batch.extra = batch.x.sum()
        return batch

    options = {"batch_size": 6, "transform": of_batch, "transform_sampler_output": of_output}
    for filter_per_worker in (None, True, False):
        loader = NeighborLoader(data, [2], NODES, filter_per_worker=filter_per_worker, num_workers=1, **options)
        (batch,) = loader
        assert seen == ["SamplerOutput", "Data"]
        assert batch.input_id.tolist() == [100, 101, 102, 103, 104, 105]
        assert batch.extra == batch.x.sum()
        seen.clear()
    assert loader([1]).input_id.tolist() == [101]
    assert seen == ["SamplerOutput", "Data"]


def test_transforms_run_in_the_training_loop(data):
    """What they draw from torch's generator comes in the order in which the loop asks for batches."""
    threads = []

    def note(batch):
        time.sleep(1e-3)  # so that it pays to make batches ahead
        threads.append(current_thread().name)
        return batch

    for num_workers, filter_per_worker in ((0, None), (1, None), (1, False)):
        options = {"num_workers": num_workers, "filter_per_worker": filter_per_worker, "transform": note}
        for _ in NeighborLoader(data, [2], batch_size=6, **options):
            time.sleep(1e-3)
        assert set(threads) == {current_thread().name}
        threads.clear()


@pytest.mark.parametrize("layout", ["coo", "csc", "csr", "sorted coo"])
def test_peers_22_stores(data, layout):
    """The same batches as of the object in memory, with the features of edges, which PyG's own loader leaves out."""
    order = (data.edge_index[1] if layout in ("csc", "sorted coo") else data.edge_index[0]).argsort(stable=True)
    if layout != "coo":
        for name in ("edge_attr", "edge_weight"):
            data[name] = data[name][order]
        data.edge_index = data.edge_index[:, order]
    features, graph = MyFeatureStore(), MyGraphStore()
    for name in ("x", "y", "edge_attr", "edge_weight"):
        features.put_tensor(data[name], group_name=None, attr_name=name, index=None)
    size = (data.num_nodes, data.num_nodes)
    source, destination = data.edge_index
    starts = torch.zeros(data.num_nodes + 1, dtype=torch.int64)
    if layout == "csc":
        starts[1:] = torch.bincount(destination, minlength=data.num_nodes).cumsum(0)
        destination = starts
    elif layout == "csr":
        starts[1:] = torch.bincount(source, minlength=data.num_nodes).cumsum(0)
        source = starts
    kind = layout.removeprefix("sorted ")
    graph.put_edge_index(
        (source, destination), edge_type=None, layout=kind, size=size, is_sorted=layout == "sorted coo"
    )
    options = {"num_neighbors": [3, 2], "input_nodes": NODES, "batch_size": 4, "seed": 3}
    for ours, theirs in zip(NeighborLoader((features, graph), **options), NeighborLoader(data, **options), strict=True):
        for name in ("x", "y", "edge_index", "edge_attr", "edge_weight", "n_id", "e_id", "input_id"):
            assert torch.equal(ours[name], theirs[name]), name
        assert ours.num_sampled_edges == theirs.num_sampled_edges
        assert ours.batch_size == theirs.batch_size


@pytest.mark.parametrize("kind", ["nodes", "links"])
def test_a_class_of_the_users_for_batches_of_stores(data, hetero, stores, typed_stores, kind):
    """Of types or none; an object in memory keeps its own class, as with PyG."""

    class Mine(Data):
        pass

    class MineOfTypes(HeteroData):
        pass

    writes = ("author", "writes", "paper")
    links, typed_links = data.edge_index[:, :6], hetero[writes].edge_index[:, :6]
    made = NeighborLoader if kind == "nodes" else LinkNeighborLoader
    for graph, custom_cls, wanted, items in (
        (stores, Mine, Mine, NODES if kind == "nodes" else (None, links)),
        (typed_stores, MineOfTypes, MineOfTypes, ("paper", NODES) if kind == "nodes" else (writes, typed_links)),
        (data, Mine, Data, NODES if kind == "nodes" else links),
    ):
        mine, plain = (made(graph, [3], items, batch_size=6, seed=1, custom_cls=one) for one in (custom_cls, None))
        for batch, other in ((next(iter(mine)), next(iter(plain))), (mine([0, 1]), plain([0, 1]))):
            assert type(batch) is wanted
            assert [list(store.keys()) for store in batch.stores] == [list(store.keys()) for store in other.stores]
