"""Edges in a sparse matrix: in as the graph of the data, and out as that of a batch with its values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch_geometric.typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToSparseTensor

import headrace as hr
from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTNodeSampler,
    LinkNeighborLoader,
    NeighborLoader,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
NODES = torch.tensor([3, 14, 15, 9, 2, 6])
LAYOUTS = ["csr", "csc", "coo", "uncoalesced", "SparseTensor"]


class SparseTensor(torch_geometric.typing.SparseTensor):
    """As much of that of torch_sparse as loaders use: entries by row, then column."""

    def __init__(self, row, col, value, sparse_sizes, rowptr=None, is_sorted=False, trust_data=True):
        order = (row * sparse_sizes[1] + col).argsort(stable=True)
        self.row, self.col, self.shape = row[order], col[order], tuple(sparse_sizes)
        kept = None if value is None else value[order]
        by_column = self.col.argsort(stable=True)
        self.by_column = by_column
        self._storage = SimpleNamespace(value=lambda: kept, csr2csc=lambda: by_column)

    storage = property(lambda self: self._storage)

    def csr(self):
        return starts(self.row, self.shape[0]), self.col, self._storage.value()

    def csc(self):
        return starts(self.col[self.by_column], self.shape[1]), self.row[self.by_column], None

    def sizes(self):
        return list(self.shape)

    def size(self, dim):
        return self.shape[dim]

    def nnz(self):
        return len(self.row)

    def device(self):
        return torch.device("cpu")

    def to_dense(self):
        return torch.sparse_coo_tensor(torch.stack([self.row, self.col]), self._storage.value(), self.shape).to_dense()


def starts(sorted_ids, count):
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(sorted_ids, minlength=count).cumsum(0)])


def matrix(row, col, value, size, layout):
    if layout == "SparseTensor":
        return SparseTensor(row, col, value, size)
    made = torch.sparse_coo_tensor(torch.stack([row, col]), value, size)
    return made if layout == "uncoalesced" else getattr(made.coalesce(), f"to_sparse_{layout}")()


@pytest.fixture
def edges():
    """Edges of 120 nodes, each once, in no order."""
    generator = torch.Generator().manual_seed(1)
    both = torch.randint(0, 115, (2, 700), generator=generator).unique(dim=1)
    return both[:, torch.randperm(both.shape[1], generator=generator)]


def in_order(edges):
    """Return them as CSR of adj_t has them."""
    source, destination = edges
    return edges[:, (destination * 120 + source).argsort()]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["adj_t", "adj"])
def test_batches_are_those_of_its_edges(edges, layout, name):
    x, values = torch.arange(120.0), torch.arange(1.0, edges.shape[1] + 1)
    row, col = edges if name == "adj" else edges.flip(0)
    data = Data(x=x)
    data[name] = matrix(row, col, values, (120, 120), layout)
    ids = in_order(edges)
    whole = data[name].to_dense()
    data.edge_attr = torch.arange(edges.shape[1])
    plain = Data(x=x, edge_index=ids, edge_attr=torch.arange(edges.shape[1]))
    options = {"num_neighbors": [3, 2], "input_nodes": NODES, "batch_size": 3, "seed": 4}
    for batch, other in zip(NeighborLoader(data, **options), NeighborLoader(plain, **options), strict=True):
        assert "edge_index" not in batch
        for key in ("n_id", "e_id", "x", "edge_attr"):
            assert torch.equal(batch[key], other[key]), key
        assert type(batch[name]) is type(data[name])
        size = (len(batch.n_id), len(batch.n_id))
        row, col = other.edge_index if name == "adj" else other.edge_index.flip(0)
        source, destination = ids[:, batch.e_id]
        of_edges = whole[source, destination] if name == "adj" else whole[destination, source]
        wanted = torch.sparse_coo_tensor(torch.stack([row, col]), of_edges, size).to_dense()
        assert torch.equal(batch[name].to_dense(), wanted)
        if layout in ("csr", "csc", "coo"):
            assert batch[name].layout == data[name].layout
    assert data[name].to_dense().shape == (120, 120), "the whole graph stays"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_by_type(hetero, layout):
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    plain = HeteroData()
    for node_type in hetero.node_types:
        plain[node_type].num_nodes = hetero[node_type].num_nodes
    made = plain.clone()
    for name, size in ((writes, (60, 40)), (cites, (60, 60))):
        source, destination = hetero[name].edge_index.unique(dim=1)
        order = (destination * 60 + source).argsort()
        plain[name].edge_index = torch.stack([source, destination])[:, order]
        values = torch.arange(1.0, len(source) + 1)
        made[name].adj_t = matrix(destination[order], source[order], values, size, layout)
    options = {"num_neighbors": [2, 2], "input_nodes": ("paper", torch.arange(9)), "batch_size": 9, "seed": 2}
    (batch,), (other,) = NeighborLoader(made, **options), NeighborLoader(plain, **options)
    for name in (writes, cites):
        e_id = other[name].e_id
        assert torch.equal(batch[name].e_id, e_id)
        size = batch[name[2]].num_nodes, batch[name[0]].num_nodes
        wanted = torch.sparse_coo_tensor(other[name].edge_index.flip(0), e_id + 1.0, size).to_dense()
        assert torch.equal(batch[name].adj_t.to_dense(), wanted)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
@pytest.mark.parametrize("remove", [True, False])
def test_what_pyg_makes(edges, layout, remove):
    """Its transform puts an attribute of edges into the matrix, and may keep ``edge_index`` beside it."""
    data = Data(x=torch.arange(120.0), edge_index=edges, edge_weight=torch.rand(edges.shape[1]))
    data = ToSparseTensor(attr="edge_weight", layout=layout, remove_edge_index=remove)(data)
    for batch in NeighborLoader(data, [3, 2], NODES, batch_size=3):
        dense = batch.adj_t.to_dense()
        whole = data.adj_t.to_dense()[batch.n_id][:, batch.n_id]
        assert torch.equal(dense[dense != 0], whole[dense != 0])
        assert ("edge_index" in batch) is not remove
        if not remove:
            assert torch.equal(dense[batch.edge_index[1], batch.edge_index[0]], batch.edge_weight)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_beside_edges_in_another_order(edges, layout):
    values = torch.arange(1.0, edges.shape[1] + 1)
    data = Data(edge_index=edges, edge_attr=values, num_nodes=120)
    data.adj_t = matrix(edges[1], edges[0], values, (120, 120), layout)
    plain = Data(edge_index=edges, edge_attr=values, num_nodes=120)
    for batch, other in zip(
        *(NeighborLoader(one, [2], NODES, batch_size=3, seed=1) for one in (data, plain)), strict=True
    ):
        assert torch.equal(batch.edge_index, other.edge_index)
        assert torch.equal(batch.edge_attr, other.edge_attr)
        source, destination = batch.edge_index
        assert torch.equal(batch.adj_t.to_dense()[destination, source], batch.edge_attr)


def test_beside_other_edges_it_is_left_out_with_a_warning(edges):
    data = Data(edge_index=edges, num_nodes=120)
    data.adj_t = matrix(edges[0, 1:], edges[1, 1:], torch.ones(edges.shape[1] - 1), (120, 120), "csr")
    with pytest.warns(UserWarning, match=r"data.adj_t has other edges than data.edge_index.*delete one of the two"):
        loader = NeighborLoader(data, [2], NODES, batch_size=6)
    (batch,) = loader
    assert "adj_t" not in batch
    assert batch.edge_index.shape[1] > 0


def test_values_that_are_written_between_batches_are_seen(edges):
    values = torch.ones(edges.shape[1])
    data = Data(num_nodes=120, adj_t=matrix(edges[1], edges[0], values, (120, 120), "csr"))
    loader = NeighborLoader(data, [2], NODES, batch_size=6, prefetch=False)
    assert next(iter(loader)).adj_t.values().eq(1).all()
    data.adj_t.values().fill_(7)
    assert next(iter(loader)).adj_t.values().eq(7).all()


def test_parallel_edges_stay_apart(edges):
    data = Data(num_nodes=120, adj_t=matrix(edges[1], edges[0], torch.ones(edges.shape[1]), (120, 120), "csr"))
    (batch,) = NeighborLoader(data, [9], NODES, replace=True, batch_size=6)
    assert len(batch.adj_t.values()) == len(batch.e_id)
    assert batch.adj_t.to_dense().sum() == len(batch.e_id)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_other_loaders_over_a_matrix(edges, layout):
    values = torch.arange(1.0, edges.shape[1] + 1)
    data = Data(x=torch.arange(120.0), adj_t=matrix(edges[1], edges[0], values, (120, 120), layout))
    whole = data.adj_t.to_dense()
    for loader in (
        LinkNeighborLoader(data, [2], edges[:, :9], batch_size=3),
        ShaDowKHopSampler(data, 2, 2, NODES, batch_size=3),
        GraphSAINTNodeSampler(data, 20),
    ):
        for batch in loader:
            dense, nodes = batch.adj_t.to_dense(), batch.x.long()
            assert torch.equal(dense[dense != 0], whole[nodes][:, nodes][dense != 0])
            assert (dense != 0).any()
            assert "edge_index" not in batch


def test_clusters_have_no_matrix_of_the_order_before(edges):
    data = Data(x=torch.arange(120.0), edge_index=edges)
    data.adj_t = matrix(edges[1], edges[0], torch.ones(edges.shape[1]), (120, 120), "csr")
    for batch in ClusterLoader(ClusterData(data, 4, log=False), batch_size=2):
        assert "adj_t" not in batch
        ends = {tuple(edge) for edge in edges.t().tolist()}
        assert all(tuple(edge) in ends for edge in batch.x[batch.edge_index].long().t().tolist())


def test_an_edge_index_of_numpy_is_refused(edges):
    data = Data(num_nodes=120, edge_index=edges.numpy())
    for adj_t in (None, matrix(edges[1], edges[0], torch.ones(edges.shape[1]), (120, 120), "csr")):
        data.adj_t = adj_t
        with pytest.raises(hr.InputError, match=r"edge_index to be a tensor, got ndarray; write torch.as_tensor"):
            NeighborLoader(data, [2])


def test_links_of_a_matrix_are_named(edges):
    data = Data(num_nodes=120, adj_t=matrix(edges[1], edges[0], torch.ones(edges.shape[1]), (120, 120), "csr"))
    with pytest.raises(hr.InputError, match=r"expected edge_label_index or data.edge_index, got neither"):
        LinkNeighborLoader(data, [2])
    typed = HeteroData()
    typed["a"].num_nodes = 120
    typed["a", "to", "a"].adj_t = data.adj_t
    with pytest.raises(hr.InputError, match=r"expected links beside the edge type .*, whose edges are in a matrix"):
        LinkNeighborLoader(typed, [2], ("a", "to", "a"))
